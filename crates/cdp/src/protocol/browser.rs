//! Domain `Browser`: the program itself, and its downloads.

use serde::{Deserialize, Serialize};

use crate::id::{BrowserContextId, FrameId};

/// Asks for the version of the browser.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct GetVersion {}
command!(GetVersion, "Browser.getVersion", Version);

/// Version of the browser.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// Name and version, for example `HeadlessChrome/156.0.8078.79`.
    pub product: String,
    /// Version of the protocol.
    pub protocol_version: String,
    /// Value of the header `User-Agent`.
    pub user_agent: String,
}

bare_command!(
    /// Ends the browser.
    Close,
    "Browser.close"
);

/// Decides on the downloads of a context.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SetDownloadBehavior {
    /// Treatment of downloads.
    pub behavior: DownloadBehavior,
    /// Context that it holds for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub browser_context_id: Option<BrowserContextId>,
    /// Absolute path of the folder for the files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub download_path: Option<String>,
    /// True if downloads are reported by events.
    pub events_enabled: bool,
}
command!(SetDownloadBehavior, "Browser.setDownloadBehavior");

/// Treatment of downloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum DownloadBehavior {
    /// Downloads are refused.
    Deny,
    /// Downloads are kept in files that are named by their ids.
    AllowAndName,
}

/// Cancels a download.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CancelDownload {
    /// Id of the download.
    pub guid: String,
    /// Context of the download.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub browser_context_id: Option<BrowserContextId>,
}
command!(CancelDownload, "Browser.cancelDownload");

/// A download begins.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DownloadWillBegin {
    /// Frame that caused it.
    pub frame_id: FrameId,
    /// Id of the download, and name of its file.
    pub guid: String,
    /// URL of the file.
    pub url: String,
    /// File name that the server or the page suggests.
    pub suggested_filename: String,
}
event!(DownloadWillBegin, "Browser.downloadWillBegin");

/// A download has moved on.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DownloadProgress {
    /// Id of the download.
    pub guid: String,
    /// Size that the server announced; 0 if it did not.
    pub total_bytes: f64,
    /// Number of bytes so far.
    pub received_bytes: f64,
    /// State of the download.
    pub state: DownloadState,
}
event!(DownloadProgress, "Browser.downloadProgress");

/// State of a download.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DownloadState {
    /// Bytes are coming.
    InProgress,
    /// The file is complete.
    Completed,
    /// The download was cancelled or has failed.
    Canceled,
}
