//! The sessions of a program: who owns which, and how many there may be.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::SessionError;
use super::facts::Phase;
use super::life::{Lifetime, Session};
use crate::spec::{CellSpec, Command};

/// Ended sessions of one owner that can still be asked about; the oldest go first.
const ENDED_KEPT: usize = 16;

/// How many sessions there may be and how long they live.
#[derive(Clone, Copy, Debug)]
pub struct SessionLimits {
    /// Sessions of one owner that run at once.
    pub running: usize,
    /// How long each lives.
    pub lifetime: Lifetime,
}

impl Default for SessionLimits {
    /// Eight at once, for an agent's servers, watchers and interpreters; each for an hour after it was last asked about,
    /// and for twelve hours in all.
    fn default() -> Self {
        let lifetime = Lifetime { idle: Duration::from_hours(1), absolute: Duration::from_hours(12) };
        Self { running: 8, lifetime }
    }
}

/// Keeps what sessions write. An owner and an id name one session.
pub trait Keeper: Send + Sync {
    /// An empty file that the session's output is written to as it comes, so that it outlives this program; `None` where
    /// that cannot be had.
    fn begin(&self, _owner: &str, _id: &str) -> Option<File> {
        None
    }

    /// Keeps the whole of an ended session, and gives the reference under which it is kept. One that never ran is told
    /// to [`Keeper::forget`] instead.
    ///
    /// # Errors
    ///
    /// Why it could not be kept.
    fn keep(
        &self,
        owner: &str,
        id: &str,
        session: &Session,
    ) -> Result<String, Box<dyn std::error::Error + Send + Sync>>;

    /// Lets go of what was begun for a session that could not be started.
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

/// All sessions of a program. When it is dropped, they end.
pub struct Sessions {
    limits: SessionLimits,
    keeper: Arc<dyn Keeper>,
    entries: Mutex<BTreeMap<Key, Entry>>,
}

/// The owner, and the number of the session in the order of their starts.
type Key = (String, u64);

struct Entry {
    id: String,
    command: String,
    /// None while it is being started.
    session: Option<Session>,
}

impl Sessions {
    /// None yet. `keeper` keeps an ended session on that session's thread.
    pub fn new(limits: SessionLimits, keeper: Arc<dyn Keeper>) -> Arc<Self> {
        Arc::new(Self { limits, keeper, entries: Mutex::default() })
    }

    /// The sessions of one owner, who sees no others.
    pub fn of(self: &Arc<Self>, owner: &str) -> OwnedSessions {
        OwnedSessions { sessions: self.clone(), owner: owner.to_owned(), beside: None }
    }

    /// Ends the sessions of an owner, waits until nothing of them runs, and forgets them: what they held is given back.
    pub fn close_all_of(&self, owner: &str) {
        self.close(|key| key.0 == owner);
    }

    /// Ends all sessions, waits until nothing of them runs, and forgets them.
    pub fn close_all(&self) {
        self.close(|_| true);
    }

    fn close(&self, which: impl Fn(&Key) -> bool) {
        // Those that are still being started find that nobody waits for them any more, and are ended by who starts them.
        let closed: Vec<(Key, Entry)> = self.lock().extract_if(.., |key, _| which(key)).collect();
        let sessions: Vec<Session> = closed.into_iter().filter_map(|(_, entry)| entry.session).collect();
        // All at once, so that the time they are given passes once.
        sessions.iter().for_each(Session::begin_to_close);
        sessions.iter().for_each(Session::close);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Entry>> {
        // The map is whole at any moment.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
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

/// The sessions of one owner, and those that it shares with others.
#[derive(Clone, Debug)]
pub struct OwnedSessions {
    sessions: Arc<Sessions>,
    owner: String,
    /// Another owner, whose sessions are seen as well.
    beside: Option<String>,
}

/// A session with what it is known by.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Its id.
    pub id: String,
    /// The command as its caller named it.
    pub command: String,
    /// The session.
    pub session: Session,
    /// Whether it belongs to the owner that others share.
    pub shared: bool,
}

impl OwnedSessions {
    /// The same with those of another owner beside them: they are listed and found, and started are none.
    #[must_use]
    pub fn beside(mut self, owner: Option<String>) -> Self {
        self.beside = owner;
        self
    }

    /// Starts a session under this id; `shown` is its command as a list shows it. It lives `at_most` so long, and never
    /// longer than the limits allow.
    ///
    /// # Errors
    ///
    /// [`SessionError::TooMany`], [`SessionError::Start`]; [`SessionError::Ended`] where all sessions of the owner were ended meanwhile.
    pub fn start(
        &self,
        id: &str,
        shown: &str,
        spec: CellSpec,
        command: Command,
        at_most: Option<Duration>,
    ) -> Result<Session, SessionError> {
        let key = self.reserve(id, shown)?;
        let keeper = self.sessions.keeper.clone();
        let (owner, of) = (self.owner.clone(), id.to_owned());
        let mut lifetime = self.sessions.limits.lifetime;
        lifetime.absolute = at_most.map_or(lifetime.absolute, |wish| wish.min(lifetime.absolute));
        let record = keeper.begin(&owner, &of);
        let started = Session::start(spec, command, lifetime, record, move |session| {
            keeper.keep(&owner, &of, session).map_err(|error| error.to_string())
        });
        if started.is_err() {
            self.sessions.keeper.forget(&self.owner, id);
        }
        let mut entries = self.sessions.lock();
        // The number may be another session's by now, where all of the owner's were ended meanwhile.
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

    /// The sessions, in the order of their starts: the owner's, then those beside them.
    pub fn list(&self) -> Vec<Listed> {
        let entries = self.sessions.lock();
        self.seen(&entries).filter_map(|(key, entry)| self.listed(key, entry)).collect()
    }

    /// The session of this id.
    ///
    /// # Errors
    ///
    /// [`SessionError::Unknown`], also for the id of somebody else's.
    pub fn find(&self, id: &str) -> Result<Listed, SessionError> {
        let entries = self.sessions.lock();
        let found = self.seen(&entries).find(|(_, entry)| entry.id == id);
        let found = found.and_then(|(key, entry)| self.listed(key, entry));
        found.ok_or_else(|| SessionError::Unknown { id: id.to_owned() })
    }

    /// Takes a place among those that run, so that many starts at once do not exceed the limit together.
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

    fn listed(&self, key: &Key, entry: &Entry) -> Option<Listed> {
        let session = entry.session.clone()?;
        let shared = self.beside.as_ref() == Some(&key.0);
        Some(Listed { id: entry.id.clone(), command: entry.command.clone(), session, shared })
    }
}

fn of<'a>(
    entries: &'a BTreeMap<Key, Entry>,
    owner: &str,
) -> impl DoubleEndedIterator<Item = (&'a Key, &'a Entry)> {
    entries.range((owner.to_owned(), 0)..=(owner.to_owned(), u64::MAX))
}

impl Entry {
    fn runs(&self) -> bool {
        self.session.as_ref().is_none_or(|session| !matches!(session.status().phase, Phase::Ended(_)))
    }
}
