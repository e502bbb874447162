//! Sources of an identity provider's public keys.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fetch::{Client, Uri};
use tool::BoxFuture;

/// Timeout for the request of the keys.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A source of the provider's public keys.
pub(crate) trait KeySource: Send + Sync {
    /// Reads the current key set (RFC 7517).
    fn read(&self) -> BoxFuture<'_, io::Result<Vec<u8>>>;
}

/// Reason why the settings of a provider are unusable.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The URL is not https (nor http on this machine), so others on the network could forge its content.
    #[error("`oauth.{0}` must be an https URL (http is accepted only for this machine)")]
    Url(&'static str),
    /// The source of keys is neither an https URL nor an absolute path.
    #[error("`oauth.keys` must be an https URL or the absolute path of a file")]
    Keys,
    /// The system's certificates are unusable.
    #[error("the system certificates cannot be used")]
    Certificates(#[source] io::Error),
}

/// Opens a source of keys: an https URL, or the absolute path of a file.
pub(crate) fn source(named: &str) -> Result<Arc<dyn KeySource>, IdentityError> {
    match url_of(named) {
        Some(url) => Ok(Arc::new(FetchedKeys(Client::new(url).map_err(IdentityError::Certificates)?))),
        None if named.starts_with('/') => Ok(Arc::new(KeyFile(PathBuf::from(named)))),
        None => Err(IdentityError::Keys),
    }
}

/// Parses a URL whose content cannot be changed in transit: https, or http on this machine.
pub(crate) fn url_of(text: &str) -> Option<Uri> {
    let url: Uri = text.parse().ok()?;
    let host = url.host()?;
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let is_here = host == "localhost" || address.is_ok_and(|address| address.is_loopback());
    // The URL is quoted in a header.
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\');
    (is_plain && (url.scheme_str() == Some("https") || url.scheme_str() == Some("http") && is_here))
        .then_some(url)
}

/// Keys in a file, updated by its owner.
struct KeyFile(PathBuf);

impl KeySource for KeyFile {
    fn read(&self) -> BoxFuture<'_, io::Result<Vec<u8>>> {
        let path = self.0.clone();
        Box::pin(async move {
            tokio::task::spawn_blocking(move || std::fs::read(path)).await.map_err(io::Error::other)?
        })
    }
}

/// Keys from the provider's server.
struct FetchedKeys(Client);

impl KeySource for FetchedKeys {
    fn read(&self) -> BoxFuture<'_, io::Result<Vec<u8>>> {
        let fetched = async {
            let answer = self.0.get().await?;
            if answer.status != 200 {
                return Err(io::Error::other(format!("{} answered {}", self.0.url(), answer.status)));
            }
            Ok(answer.body)
        };
        Box::pin(async move { tokio::time::timeout(TIMEOUT, fetched).await.map_err(io::Error::other)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_could_change_on_the_way_is_refused() {
        for good in [
            "https://id.example",
            "https://id.example/a/b",
            "http://127.0.0.1:8080",
            "http://[::1]:80/x",
            "http://localhost/x",
        ] {
            assert!(url_of(good).is_some(), "{good}");
        }
        for bad in [
            "http://id.example",
            "ftp://id.example",
            "id.example",
            "/a",
            "",
            "https://",
            "http://localhost.evil.example",
            "https://a/\"x",
            "https://a/\nb",
        ] {
            assert!(url_of(bad).is_none(), "{bad:?}");
        }
    }
}
