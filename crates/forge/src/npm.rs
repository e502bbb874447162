//! Publication of npm packages.

use crate::action::Action;
use crate::encoding;
use crate::header;
use crate::request::{Meaning, Request, rest};
use crate::shown::shown;
use crate::target::Target;

/// Maximum number of characters of a package's name, as the registry limits it.
const LONGEST: usize = 214;

/// Bytes within which a publication names its package.
const NAMED_WITHIN: usize = 1024;

/// Judges a `PUT`.
pub(crate) fn judge(request: &Request<'_>, target: &Target<'_>) -> Meaning {
    let Some(package) = package(target.path()) else { return rest(request) };
    if target.query().is_some() || !header::is_json(request.headers, &["application/json"]) {
        return rest(request);
    }
    if request.body.len() < NAMED_WITHIN && !request.is_whole {
        return Meaning::NeedMore(NAMED_WITHIN);
    }
    // The name in the body tells a publication from other requests with such a path.
    let is_named = encoding::decode(request).is_ok_and(|body| {
        let compact: Vec<u8> =
            body.bytes.into_iter().take(NAMED_WITHIN).filter(|byte| !byte.is_ascii_whitespace()).collect();
        compact.starts_with(format!("{{\"_id\":\"{package}\",").as_bytes())
    });
    if is_named {
        Meaning::writing(Action::Publish { package: shown(&package, LONGEST) })
    } else {
        rest(request)
    }
}

/// Returns the name of the package to which a path belongs.
fn package(path: &str) -> Option<String> {
    let name = path.strip_prefix('/')?.replace("%2f", "/").replace("%2F", "/");
    let plain = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
    };
    let is_name = match name.strip_prefix('@').and_then(|scoped| scoped.split_once('/')) {
        Some((scope, name)) => plain(scope) && plain(name),
        None => plain(&name),
    };
    (is_name && name.len() <= LONGEST).then_some(name)
}
