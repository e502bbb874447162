//! The browsers of a runtime: one for each session of a caller that uses one.

use std::collections::HashMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;
use parking_lot::Mutex;
use sandbox::CellSource;
use tokio::sync::Mutex as Turn;
use tool::{Owner, Resource, ResourcePool, ResourceUsage};

use crate::cell::{BrowserInCell, BrowserProgram};
use crate::error::BrowserError;
use crate::extension::UserBrowser;
use crate::page::Page;
use crate::place::BrowserPlace;
use crate::session::Session;
use crate::trace::{Step, Trace};
use crate::upload_file::copy_for_page;

/// The browsers of a runtime, by the name of their owner.
pub struct Browsers {
    /// Program of the browser, or the reason why there is none.
    program: Result<BrowserProgram, String>,
    /// Folder, private to the user, with a folder for each browser.
    folder: PathBuf,
    owned: Mutex<HashMap<String, Arc<OwnedBrowser>>>,
    is_closed: AtomicBool,
}

/// The browser of one owner, which is started when it is first used.
struct OwnedBrowser {
    owner: Owner,
    since: Timestamp,
    running: Turn<Option<Arc<Running>>>,
    /// Copy of the browser for callers that do not wait.
    now: Mutex<Option<Arc<Running>>>,
}

/// A browser with the session in it, and its pages.
pub struct Running {
    place: BrowserPlace,
    session: Session,
    pages: Mutex<HashMap<u32, Arc<Page>>>,
    /// Turn of the calls: one after the other, because they share tabs.
    turn: Turn<()>,
    /// Trace that is being recorded.
    trace: Mutex<Option<Trace>>,
    uploads: Mutex<Uploads>,
}

impl OwnedBrowser {
    fn runs(&self) -> bool {
        self.now.lock().as_ref().is_some_and(|running| !running.place.browser().is_closed())
    }

    /// Returns the browser if it is the user's own.
    fn users(&self) -> Option<Arc<Running>> {
        self.now.lock().clone().filter(|running| running.place.is_users())
    }
}

impl Browsers {
    /// Creates an empty pool. What earlier runtimes left in `folder` is removed.
    pub fn new(program: Result<BrowserProgram, String>, folder: PathBuf) -> Arc<Self> {
        Arc::new(Self { program, folder, owned: Mutex::default(), is_closed: AtomicBool::new(false) })
    }

    /// Returns the browser of an owner, if it runs.
    pub fn running(&self, owner: &str) -> Option<Arc<Running>> {
        let owned = self.owned.lock().get(owner).cloned()?;
        let running = owned.now.lock().clone();
        running.filter(|running| !running.place.browser().is_closed())
    }

    /// Returns the browser of a cell's owner, and starts it if it does not run. The second value is
    /// true if an earlier browser of the owner has ended by itself.
    ///
    /// # Errors
    /// [`BrowserError::Start`], or [`BrowserError::Missing`] without a program.
    pub async fn start(
        &self,
        source: &CellSource,
        (owner, since): (Owner, Timestamp),
    ) -> Result<(Arc<Running>, bool), BrowserError> {
        if self.is_closed.load(Ordering::SeqCst) {
            return Err(BrowserError::Start { reason: "the runtime ends".to_owned() });
        }
        let owned = self.owned(source.owner(), owner, since);
        let mut running = owned.running.lock().await;
        if let Some(running) = running.as_ref().filter(|running| !running.place.browser().is_closed()) {
            running.place.ready().await?;
            running.place.touch();
            return Ok((running.clone(), false));
        }
        let program = self.program.as_ref().map_err(|why| BrowserError::Missing { why: why.clone() })?;
        let had_ended = running.take().is_some();
        *owned.now.lock() = None;
        let others = self.owned.lock().values().filter(|other| other.runs()).count();
        if others >= MAX_BROWSERS {
            return Err(BrowserError::TooManyBrowsers { limit: MAX_BROWSERS });
        }
        // Boxed, because every call of a tool would be as large as this start.
        let in_cell = Box::pin(BrowserInCell::start(program, source, &self.folder)).await?;
        let session = in_cell.browser.new_session().await?;
        session.set_download_folder(&in_cell.downloads(), DOWNLOAD_LIMIT).await?;
        let started = Arc::new(Running::new(BrowserPlace::Cell(in_cell), session));
        *running = Some(started.clone());
        *owned.now.lock() = Some(started.clone());
        Ok((started, had_ended))
    }

    /// Lends the user's own browser to an owner, in the place of one in a cell. `state` is the folder
    /// with the pairing.
    ///
    /// # Errors
    /// [`BrowserError::NotPaired`], [`BrowserError::NoExtension`], [`BrowserError::PortInUse`],
    /// [`BrowserError::Paused`], [`BrowserError::Lent`].
    pub async fn lend(
        &self,
        source: &CellSource,
        (owner, since): (Owner, Timestamp),
        (port, state): (u16, &Path),
    ) -> Result<Arc<Running>, BrowserError> {
        if self.is_closed.load(Ordering::SeqCst) {
            return Err(BrowserError::Start { reason: "the runtime ends".to_owned() });
        }
        let owned = self.owned(source.owner(), owner, since);
        let mut running = owned.running.lock().await;
        if let Some(users) = owned.users().filter(|users| !users.place.browser().is_closed()) {
            users.place.ready().await?;
            return Ok(users);
        }
        // One listener admits one extension, and all its tabs are in one group.
        let others: Vec<_> = self.owned.lock().values().cloned().collect();
        if others.iter().any(|other| !Arc::ptr_eq(other, &owned) && other.users().is_some()) {
            return Err(BrowserError::Lent);
        }
        let user = Box::pin(UserBrowser::connect(port, state, None)).await?;
        user.check()?;
        let session = user.browser.new_session().await?;
        user.announce().await?;
        for tab in session.tabs().await {
            // A tab that is closed meanwhile is left out.
            let _ = session.tab(tab.tab)?.prepare().await;
        }
        let lent = Arc::new(Running::new(BrowserPlace::User(user), session));
        *owned.now.lock() = Some(lent.clone());
        *running = Some(lent.clone());
        Ok(lent)
    }

    /// Gives the user's browser back, if it is lent to this owner.
    pub async fn give_back(&self, owner: &str) {
        let Some(owned) = self.owned.lock().get(owner).cloned() else { return };
        let mut running = owned.running.lock().await;
        if owned.users().is_some() {
            *owned.now.lock() = None;
            *running = None;
        }
    }

    /// Returns the place for the browser of an owner.
    fn owned(&self, name: &str, owner: Owner, since: Timestamp) -> Arc<OwnedBrowser> {
        let mut owned = self.owned.lock();
        let new = || {
            let (running, now) = (Turn::default(), Mutex::default());
            Arc::new(OwnedBrowser { owner, since, running, now })
        };
        owned.entry(name.to_owned()).or_insert_with(new).clone()
    }

    fn take(&self, owner: &Owner) -> Vec<Arc<OwnedBrowser>> {
        let mut owned = self.owned.lock();
        let names: Vec<String> = owned
            .iter()
            .filter(|(_, browser)| owner.includes(&browser.owner))
            .map(|(name, _)| name.clone())
            .collect();
        names.into_iter().filter_map(|name| owned.remove(&name)).collect()
    }
}

/// Maximum number of browsers in a runtime. Each takes some 250 MB.
const MAX_BROWSERS: usize = 8;

/// Largest file that a page downloads by itself, in bytes.
const DOWNLOAD_LIMIT: u64 = 100 * 1024 * 1024;

/// Files that pages were given.
#[derive(Debug, Default)]
struct Uploads {
    number: u64,
    /// Bytes of all of them. The page may read each as long as the browser runs.
    bytes: u64,
}

/// Maximum number of bytes of all files that the pages of one browser are given.
const ALL_UPLOADS: u64 = 1024 * 1024 * 1024;

impl Running {
    fn new(place: BrowserPlace, session: Session) -> Self {
        Self {
            place,
            session,
            pages: Mutex::default(),
            turn: Turn::default(),
            trace: Mutex::default(),
            uploads: Mutex::default(),
        }
    }

    /// Returns true if this is the user's own browser.
    pub fn is_users(&self) -> bool {
        self.place.is_users()
    }

    /// Returns the session with the tabs.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Returns the name and version of the browser.
    pub fn version(&self) -> &str {
        self.place.browser().version()
    }

    /// Returns the folder into which pages download.
    ///
    /// # Errors
    /// [`BrowserError::NotInUserBrowser`] there, because it keeps downloads in the user's own folder.
    pub fn downloads(&self) -> Result<PathBuf, BrowserError> {
        self.place
            .downloads()
            .ok_or(BrowserError::NotInUserBrowser { what: "downloading into the workspace" })
    }

    /// Copies a file to where the browser sees it, for a page that is given the file, and returns the path
    /// of the copy. At most `limit` bytes are copied, and at most a gibibyte for all pages. Blocks.
    ///
    /// # Errors
    /// Returns an error if the content is longer, or if the copy cannot be written.
    pub fn copy_for_page(&self, name: &str, content: impl Read, limit: u64) -> io::Result<PathBuf> {
        let folder = self.place.folder().ok_or_else(|| {
            let what = "giving files to a page";
            io::Error::other(BrowserError::NotInUserBrowser { what }.to_string())
        })?;
        // The copies of one browser are made one after the other, so that their total is exact.
        let mut uploads = self.uploads.lock();
        uploads.number += 1;
        let limit = limit.min(ALL_UPLOADS.saturating_sub(uploads.bytes));
        let (copy, bytes) = copy_for_page(folder, uploads.number, name, content, limit)?;
        uploads.bytes += bytes;
        Ok(copy)
    }

    /// Begins a trace, and returns true if there was none.
    pub fn begin_trace(&self, now: Timestamp) -> bool {
        let mut trace = self.trace.lock();
        let is_new = trace.is_none();
        trace.get_or_insert_with(|| Trace::begin(now));
        is_new
    }

    /// Returns true if a trace is being recorded.
    pub fn is_traced(&self) -> bool {
        self.trace.lock().is_some()
    }

    /// Adds a step to the trace, if one is being recorded.
    pub fn add_step(&self, step: Step) {
        if let Some(trace) = self.trace.lock().as_mut() {
            trace.add(step);
        }
    }

    /// Ends the trace and returns it.
    pub fn end_trace(&self) -> Option<Trace> {
        self.trace.lock().take()
    }

    /// Goes on with a trace that has ended.
    pub fn resume_trace(&self, trace: Trace) {
        self.trace.lock().get_or_insert(trace);
    }

    /// Waits for the turn of a call.
    pub async fn turn(&self) -> impl Drop + '_ {
        self.turn.lock().await
    }

    /// Returns the page of a tab. It stays the same as long as the tab is open, so that references stay
    /// valid.
    ///
    /// # Errors
    /// [`BrowserError::NoTab`].
    pub fn page(&self, tab: u32) -> Result<Arc<Page>, BrowserError> {
        let found = self.session.tab(tab);
        let mut pages = self.pages.lock();
        match found {
            Ok(found) => Ok(pages.entry(tab).or_insert_with(|| Arc::new(Page::new(found))).clone()),
            Err(error) => {
                pages.remove(&tab);
                Err(error)
            }
        }
    }
}

impl ResourcePool for Browsers {
    fn list(&self, _now: Timestamp) -> Vec<Resource> {
        let owned: Vec<_> = self.owned.lock().values().cloned().collect();
        let shown = |browser: Arc<OwnedBrowser>| {
            let running = browser.now.lock().clone()?;
            Some(Resource {
                kind: "browser",
                owner: browser.owner.clone(),
                since: browser.since,
                description: if running.is_users() {
                    format!("{}, the user's own", running.version())
                } else {
                    running.version().to_owned()
                },
                // The thread that supervises the cell.
                usage: ResourceUsage { threads: u64::from(!running.is_users()), ..ResourceUsage::default() },
            })
        };
        owned.into_iter().filter_map(shown).collect()
    }

    fn stop(&self, owner: &Owner) {
        if *owner == Owner::Runtime {
            self.is_closed.store(true, Ordering::SeqCst);
        }
    }

    fn join(&self, owner: &Owner) {
        for browser in self.take(owner) {
            let running = browser.now.lock().take();
            if let Some(running) = running {
                running.place.end();
            }
        }
    }
}
