//! Registry of a program's sessions, with their owners and limits.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use super::SessionError;
use super::facts::Phase;
use super::job::{Lifetime, Session};
use crate::isolation::backend::CellHost;
use crate::spec::{CellSpec, Command};

/// Maximum number of ended sessions of one owner that stay visible; the oldest are removed first.
const ENDED_KEPT: usize = 16;

/// Limits on the number of sessions and their lifetime.
#[derive(Clone, Copy, Debug)]
pub struct SessionLimits {
    /// Maximum number of sessions of one owner that run at once.
    pub running: usize,
    /// Maximum lifetime of each session.
    pub lifetime: Lifetime,
}

impl Default for SessionLimits {
    /// Returns the default limits. Eight sessions may run at once, for an agent's servers, watchers
    /// and interpreters; each for one hour after the last request, and for twelve hours in total.
    fn default() -> Self {
        let lifetime = Lifetime { idle: Duration::from_hours(1), absolute: Duration::from_hours(12) };
        Self { running: 8, lifetime }
    }
}

/// Storage for the output of sessions. An owner and an id identify one session.
pub trait Keeper: Send + Sync {
    /// Makes an empty file that gets the session's output as it comes, so that the output outlives
    /// this program. Returns `None` if no file is available.
    fn begin(&self, _owner: &str, _id: &str) -> Option<File> {
        None
    }

    /// Stores the whole output of an ended session, and returns the reference to it. For a session
    /// that never ran, [`Keeper::forget`] is called instead.
    ///
    /// # Errors
    /// Returns the reason why the output could not be stored.
    fn keep(
        &self,
        owner: &str,
        id: &str,
        session: &Session,
    ) -> Result<String, Box<dyn std::error::Error + Send + Sync>>;

    /// Drops the file that was begun for a session that could not be started.
    fn forget(&self, _owner: &str, _id: &str) {}
}

impl<F> Keeper for F
where
    F: Fn(&str, &str, &Session) -> Result<String, Box<dyn std::error::Error + Send + Sync>> + Send + Sync,
{
    fn keep(
        &self,
        owner: &str,
        id: &str,
        session: &Session,
    ) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
        self(owner, id, session)
    }
}

/// All sessions of a program. Dropping the registry ends them.
pub struct Sessions {
    limits: SessionLimits,
    keeper: Arc<dyn Keeper>,
    entries: Mutex<BTreeMap<Key, Entry>>,
}

/// The owner, and the number of the session in the order of the starts.
type Key = (String, u64);

struct Entry {
    id: String,
    command: String,
    /// The session, or `None` while it is being started.
    session: Option<Session>,
}

impl Sessions {
    /// Makes an empty registry. `keeper` stores the output of an ended session, on that session's
    /// thread.
    pub fn new(limits: SessionLimits, keeper: Arc<dyn Keeper>) -> Arc<Self> {
        Arc::new(Self { limits, keeper, entries: Mutex::default() })
    }

    /// Returns a view of the sessions of one owner.
    pub fn of(self: &Arc<Self>, owner: &str) -> OwnedSessions {
        OwnedSessions { sessions: self.clone(), owner: owner.to_owned(), beside: None }
    }

    /// Lists the sessions of every owner, each with its owner.
    pub fn all(&self) -> Vec<(String, ListedSession)> {
        let entries = self.lock();
        let listed = |(key, entry): (&Key, &Entry)| Some((key.0.clone(), entry.listed(false)?));
        entries.iter().filter_map(listed).collect()
    }

    /// Ends the sessions of an owner, waits until no process of them runs, and removes them, which
    /// frees their resources.
    pub fn close_all_of(&self, owner: &str) {
        self.close(|key| key.0 == owner);
    }

    /// Ends all sessions, waits until no process of them runs, and removes them.
    pub fn close_all(&self) {
        self.close(|_| true);
    }

    fn close(&self, which: impl Fn(&Key) -> bool) {
        // A session that is still being started finds its entry gone, and its starter ends it.
        let closed: Vec<(Key, Entry)> = self.lock().extract_if(.., |key, _| which(key)).collect();
        let sessions: Vec<Session> = closed.into_iter().filter_map(|(_, entry)| entry.session).collect();
        // End them at once, so that their grace periods overlap.
        sessions.iter().for_each(Session::begin_to_close);
        sessions.iter().for_each(Session::close);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Entry>> {
        // The map is consistent at any moment.
        self.entries.lock()
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        self.close_all();
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sessions").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// The sessions of one owner, and those of a second owner that it shares with others.
#[derive(Clone, Debug)]
pub struct OwnedSessions {
    sessions: Arc<Sessions>,
    owner: String,
    /// Second owner, whose sessions are visible as well.
    beside: Option<String>,
}

/// A session with its id and command.
#[derive(Clone, Debug)]
pub struct ListedSession {
    /// Id of the session.
    pub id: String,
    /// Command as its caller named it.
    pub command: String,
    /// The session.
    pub session: Session,
    /// True if the session belongs to the second owner, which others share.
    pub shared: bool,
}

impl OwnedSessions {
    /// Adds the sessions of a second owner: they can be listed and found, but none is started for
    /// that owner.
    #[must_use]
    pub fn beside(mut self, owner: Option<String>) -> Self {
        self.beside = owner;
        self
    }

    /// Starts a session under this id; `shown` is its command for lists. It lives for `at_most`,
    /// and never longer than the limits allow.
    ///
    /// # Errors
    /// [`SessionError::TooMany`], [`SessionError::Start`]; [`SessionError::Ended`] if all sessions
    /// of the owner were ended in the meantime.
    pub fn start(
        &self,
        id: &str,
        shown: &str,
        spec: CellSpec,
        host: CellHost,
        command: Command,
        at_most: Option<Duration>,
    ) -> Result<Session, SessionError> {
        let key = self.reserve(id, shown)?;
        let keeper = self.sessions.keeper.clone();
        let (owner, of) = (self.owner.clone(), id.to_owned());
        let mut lifetime = self.sessions.limits.lifetime;
        lifetime.absolute = at_most.map_or(lifetime.absolute, |wish| wish.min(lifetime.absolute));
        let record = keeper.begin(&owner, &of);
        let started = Session::start(spec, host, command, lifetime, record, move |session| {
            keeper.keep(&owner, &of, session).map_err(|error| error.to_string())
        });
        if started.is_err() {
            self.sessions.keeper.forget(&self.owner, id);
        }
        let mut entries = self.sessions.lock();
        // If all of the owner's sessions were ended in the meantime, the number may belong to
        // another session now.
        let entry = entries.get_mut(&key).filter(|entry| entry.id == id);
        match (started, entry) {
            (Ok(session), Some(entry)) => {
                entry.session = Some(session.clone());
                Ok(session)
            }
            (Ok(session), None) => {
                drop(entries);
                session.close();
                Err(SessionError::Ended)
            }
            (Err(error), entry) => {
                if entry.is_some() {
                    entries.remove(&key);
                }
                Err(error.into())
            }
        }
    }

    /// Lists the sessions in the order of their starts: the owner's, then the second owner's.
    pub fn list(&self) -> Vec<ListedSession> {
        let entries = self.sessions.lock();
        self.seen(&entries).filter_map(|(key, entry)| self.listed(key, entry)).collect()
    }

    /// Returns the session of this id.
    ///
    /// # Errors
    /// [`SessionError::Unknown`], also for the id of another owner's session.
    pub fn find(&self, id: &str) -> Result<ListedSession, SessionError> {
        let entries = self.sessions.lock();
        let found = self.seen(&entries).find(|(_, entry)| entry.id == id);
        let found = found.and_then(|(key, entry)| self.listed(key, entry));
        found.ok_or_else(|| SessionError::Unknown { id: id.to_owned() })
    }

    /// Reserves one of the running sessions, so that concurrent starts do not exceed the limit
    /// together.
    fn reserve(&self, id: &str, shown: &str) -> Result<Key, SessionError> {
        let mut entries = self.sessions.lock();
        let limit = self.sessions.limits.running;
        let running = self.own(&entries).filter(|(_, entry)| entry.runs()).count();
        if running >= limit {
            return Err(SessionError::TooMany { running, limit });
        }
        let ended: Vec<Key> =
            self.own(&entries).filter(|(_, entry)| !entry.runs()).map(|(key, _)| key.clone()).collect();
        for key in ended.iter().take((ended.len() + 1).saturating_sub(ENDED_KEPT)) {
            entries.remove(key);
        }
        let number = self.own(&entries).next_back().map_or(0, |(key, _)| key.1 + 1);
        let key = (self.owner.clone(), number);
        let entry = Entry { id: id.to_owned(), command: shown.to_owned(), session: None };
        entries.insert(key.clone(), entry);
        Ok(key)
    }

    fn own<'a>(
        &'a self,
        entries: &'a BTreeMap<Key, Entry>,
    ) -> impl DoubleEndedIterator<Item = (&'a Key, &'a Entry)> {
        of(entries, &self.owner)
    }

    fn seen<'a>(&'a self, entries: &'a BTreeMap<Key, Entry>) -> impl Iterator<Item = (&'a Key, &'a Entry)> {
        let others = self.beside.as_ref().filter(|owner| **owner != self.owner);
        self.own(entries).chain(others.into_iter().flat_map(|owner| of(entries, owner)))
    }

    fn listed(&self, key: &Key, entry: &Entry) -> Option<ListedSession> {
        entry.listed(self.beside.as_ref() == Some(&key.0))
    }
}

fn of<'a>(
    entries: &'a BTreeMap<Key, Entry>,
    owner: &str,
) -> impl DoubleEndedIterator<Item = (&'a Key, &'a Entry)> {
    entries.range((owner.to_owned(), 0)..=(owner.to_owned(), u64::MAX))
}

impl Entry {
    /// Returns the session as a list shows it, or `None` while it is being started.
    fn listed(&self, shared: bool) -> Option<ListedSession> {
        let session = self.session.clone()?;
        Some(ListedSession { id: self.id.clone(), command: self.command.clone(), session, shared })
    }

    fn runs(&self) -> bool {
        self.session.as_ref().is_none_or(|session| !matches!(session.status().phase, Phase::Ended(_)))
    }
}
