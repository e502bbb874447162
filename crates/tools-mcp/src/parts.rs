//! Parts of the runtime that its servers need.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use fetch::web::Web;
use tool::Timer;
use vault::Vault;

use crate::listings::Shelf;
use crate::settings::ServerSettings;

/// Parts from which the servers of a runtime are made.
pub struct ServersParts {
    /// Servers of the configuration.
    pub servers: Vec<ServerSettings>,
    /// Folder, private to the user, with a folder for each process.
    pub folder: PathBuf,
    /// Place for lists and pins.
    pub shelf: Arc<dyn Shelf>,
    /// Clock of waits.
    pub timer: Arc<dyn Timer>,
    /// Client for servers behind URLs.
    pub web: Arc<Web>,
    /// Vault with the logins of servers.
    pub vault: Option<Arc<Vault>>,
    /// Version of this program, as servers see it.
    pub version: String,
    /// Names of the runtime's own tools.
    pub reserved: BTreeSet<String>,
}
