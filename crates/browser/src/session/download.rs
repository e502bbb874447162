//! Download of a URL into a file.
//!
//! A page of its own, which is no tab, opens the URL. The head of the response is held there and
//! marked as an attachment, so the browser keeps the file instead of showing it. The cookies of the
//! session apply.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cdp::protocol::fetch::{
    ContinueRequest, ContinueResponse, Enable, FailRequest, HeaderEntry, RequestPattern, RequestPaused,
};
use cdp::protocol::page::Navigate;
use cdp::protocol::runtime::RunIfWaitingForDebugger;
use cdp::protocol::{inspector, page};
use cdp::{CdpError, Delivery, FrameId, SessionClient, Subscription};
use tokio::time::Instant;

use crate::address;
use crate::downloads::DownloadEnd;
use crate::error::BrowserError;
use crate::limits::{self, cut};
use crate::session::tabs::Arrival;
use crate::session::{Session, SessionInner};

/// A file that was downloaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Download {
    /// The file, named by an id.
    pub path: PathBuf,
    /// File name that the server suggests. It is text of a stranger, and no path.
    pub suggested_name: String,
    /// Media type that the server states, cut; empty if it states none.
    pub mime: String,
    /// Size in bytes.
    pub bytes: u64,
}

impl Session {
    /// Downloads a URL into the folder, with the cookies of the session. The folder is that of the
    /// session from now on; see [`Session::set_download_folder`].
    ///
    /// A download that ends with an error, or whose future is dropped, is cancelled, and the browser
    /// removes what there is of the file.
    ///
    /// # Errors
    /// [`BrowserError::Address`], [`BrowserError::DownloadStatus`] for a status from 400,
    /// [`BrowserError::DownloadTooLarge`], [`BrowserError::DownloadFailed`].
    pub async fn download(
        &self,
        url: &str,
        into: &Path,
        max_bytes: u64,
        limit: Duration,
    ) -> Result<Download, BrowserError> {
        let deadline = Instant::now() + limit;
        let url = address::parse(url)?;
        let session = &self.inner;
        self.set_download_folder(into, session.settings.download_limit).await?;
        let arrival = session.create().await?;
        let frame = FrameId::from(arrival.target.target_id.as_str());
        session.downloads.expect(frame, max_bytes);
        let mut hidden = HiddenPage { session: Arc::clone(session), arrival, guid: None };
        let fetching = hidden.fetch(url.as_str(), max_bytes, deadline);
        match tokio::time::timeout_at(deadline, fetching).await {
            Ok(result) => result,
            Err(_) => Err(failed(url.as_str(), &format!("it took more than {limit:?}"))),
        }
    }
}

fn failed(url: &str, reason: &str) -> BrowserError {
    BrowserError::DownloadFailed { url: address::shown(url), reason: cut(reason, limits::NAME) }
}

/// A page that is no tab. It is closed when this is dropped, and its download is cancelled.
struct HiddenPage {
    session: Arc<SessionInner>,
    arrival: Arrival,
    guid: Option<String>,
}

impl Drop for HiddenPage {
    fn drop(&mut self) {
        let downloads = &self.session.downloads;
        let is_open = |guid: &String| {
            downloads.report(guid).is_some_and(|report| report.state == DownloadEnd::InProgress)
        };
        if let Some(guid) = self.guid.take().filter(is_open) {
            self.session.cancel_download(&guid);
        }
        downloads.forget(&FrameId::from(self.arrival.target.target_id.as_str()));
        self.session.close_target(&self.arrival);
    }
}

impl HiddenPage {
    async fn fetch(
        &mut self,
        url: &str,
        max_bytes: u64,
        deadline: Instant,
    ) -> Result<Download, BrowserError> {
        let client = self.arrival.client.clone();
        let pattern =
            RequestPattern { url_pattern: "*", resource_type: Some("Document"), request_stage: "Response" };
        let (on, held, _, _) = tokio::join!(
            client.run(page::Enable {}),
            client.run(Enable { patterns: vec![pattern] }),
            client.run(inspector::Enable {}),
            client.run(RunIfWaitingForDebugger {}),
        );
        on.and(held)?;
        let left = deadline.saturating_duration_since(Instant::now());
        let command = Navigate { url: url.to_owned(), frame_id: None };
        let mut navigating = std::pin::pin!(client.run_within(command, left));
        let mut mime = String::new();
        let answer = loop {
            tokio::select! {
                biased;
                head = next_head(&mut self.arrival.events) => match head {
                    None => return Err(failed(url, "its page was closed")),
                    Some(head) => {
                        if let Some(stated) = pass_on(&client, url, head).await? {
                            mime = stated;
                        }
                    }
                },
                answer = &mut navigating => break answer,
            }
        };
        match answer {
            Err(CdpError::TimedOut { .. }) => return Err(failed(url, "the server did not answer in time")),
            Err(error) => return Err(error.into()),
            // The browser aborts a navigation that becomes a download.
            Ok(answer) => match answer.error_text.as_deref() {
                None | Some("net::ERR_ABORTED") => {}
                Some(reason) => return Err(failed(url, reason)),
            },
        }
        self.keep(url, mime, max_bytes, deadline).await
    }

    /// Waits for the file.
    async fn keep(
        &mut self,
        url: &str,
        mime: String,
        max_bytes: u64,
        deadline: Instant,
    ) -> Result<Download, BrowserError> {
        let downloads = Arc::clone(&self.session.downloads);
        let frame = FrameId::from(self.arrival.target.target_id.as_str());
        let guid = downloads.begun_in(&frame, deadline).await;
        let guid = guid.ok_or_else(|| failed(url, "the server sent no file"))?;
        self.guid = Some(guid.clone());
        let too_large = || BrowserError::DownloadTooLarge { url: address::shown(url), limit: max_bytes };
        let report = downloads.ended(&guid, deadline).await;
        let report = report.ok_or_else(|| failed(url, "it did not end in time"))?;
        match (report.state, report.path) {
            (DownloadEnd::Completed, Some(path)) => {
                Ok(Download { path, suggested_name: report.suggested_name, mime, bytes: report.bytes })
            }
            (DownloadEnd::TooLarge, _) => Err(too_large()),
            _ => Err(failed(url, "the connection broke off, or the file could not be written")),
        }
    }
}

/// Waits for the next head of a response; `None` once the page is closed.
async fn next_head(events: &mut Subscription) -> Option<RequestPaused> {
    loop {
        if let Delivery::Event(event) = events.next().await?
            && let Some(head) = event.get::<RequestPaused>()
        {
            return Some(head);
        }
    }
}

/// Lets a response go on as an attachment, and returns its media type. Redirects and errors of the
/// network go on as they are.
async fn pass_on(
    client: &SessionClient,
    url: &str,
    head: RequestPaused,
) -> Result<Option<String>, BrowserError> {
    let request_id = head.request_id;
    let status = head.response_status_code.filter(|_| head.response_error_reason.is_none());
    let mut headers = head.response_headers.unwrap_or_default();
    let find = |name: &str| headers.iter().position(|header| header.name.eq_ignore_ascii_case(name));
    let is_redirect = status.is_some_and(|status| (300..400).contains(&status)) && find("location").is_some();
    let Some(status) = status.filter(|_| !is_redirect) else {
        client.run(ContinueRequest { request_id }).await?;
        return Ok(None);
    };
    if status >= 400 {
        client.post(FailRequest { request_id, error_reason: "Aborted" });
        return Err(BrowserError::DownloadStatus { url: address::shown(url), status });
    }
    let mime = find("content-type").and_then(|place| headers.get(place));
    let mime =
        mime.map(|header| cut(header.value.split(';').next().unwrap_or_default().trim(), limits::NAME));
    let name = "Content-Disposition".to_owned();
    let old = find("content-disposition").map(|place| headers.swap_remove(place).value);
    // The parameters stay: they name the file.
    let parameters = old.as_deref().and_then(|old| old.split_once(';')).map(|(_, parameters)| parameters);
    let value =
        parameters.map_or_else(|| "attachment".to_owned(), |parameters| format!("attachment;{parameters}"));
    headers.push(HeaderEntry { name, value });
    let response_headers = Some(headers);
    client.run(ContinueResponse { request_id, response_code: Some(status), response_headers }).await?;
    Ok(Some(mime.unwrap_or_default()))
}
