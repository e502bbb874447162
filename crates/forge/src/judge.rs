//! The order in which a request is looked at.

use crate::action::Action;
use crate::encoding::{self, DecodedBody};
use crate::header::{self, Overrides};
use crate::push::{self, COUNTED, PushError};
use crate::request::{MAX_BODY, Meaning, Request, rest, unclear};
use crate::target::Target;
use crate::{graphql, lfs, npm, upload_pack};

/// First number of bytes that a judgement asks for.
const FIRST: usize = 1024;

/// Finds the meaning of a request.
pub fn judge(request: &Request<'_>) -> Meaning {
    let meaning = first_look(request);
    match meaning {
        Meaning::NeedMore(_) if request.is_whole => unclear(request, "its body ends too early"),
        Meaning::NeedMore(_) if request.body.len() >= MAX_BODY => {
            unclear(request, "its body is too long to be understood")
        }
        Meaning::NeedMore(bytes) => Meaning::NeedMore(bytes.clamp(request.body.len() + 1, MAX_BODY)),
        meaning => meaning,
    }
}

fn first_look(request: &Request<'_>) -> Meaning {
    let target = Target::of(request.target);
    let overrides = header::overrides(request.headers);
    if let Some(Overrides { name }) = overrides {
        return unclear(request, &format!("its header {name} may turn it into another request"));
    }
    if target.has_parameter("_method") {
        return unclear(request, "its parameter _method may turn it into another request");
    }
    match request.method {
        "GET" | "HEAD" | "OPTIONS" => read(request, &target),
        "POST" => post(request, &target),
        "PUT" => npm::judge(request, &target),
        _ => rest(request),
    }
}

fn read(request: &Request<'_>, target: &Target<'_>) -> Meaning {
    if !request.body.is_empty() {
        return unclear(request, "a body changes what some servers take it for");
    }
    if !request.is_whole {
        return Meaning::NeedMore(1);
    }
    if target.is_graphql_for_some_server() { graphql::in_url(request, target) } else { Meaning::Reading }
}

fn post(request: &Request<'_>, target: &Target<'_>) -> Meaning {
    if let Some(repository) = target.repository("git-receive-pack") {
        return with_body(request, |body| push(request, repository, body));
    }
    let judge: fn(&Request<'_>, &DecodedBody) -> Meaning = if target.is_graphql() {
        graphql::in_body
    } else if target.repository("git-upload-pack").is_some() {
        upload_pack::judge
    } else if target.repository("info/lfs/objects/batch").is_some() {
        lfs::batch
    } else if target.repository("info/lfs/locks/verify").is_some() {
        lfs::locks
    } else {
        return rest(request);
    };
    if !target.is_plain() {
        return unclear(request, "servers may read its path in different ways");
    }
    if target.query().is_some() {
        return unclear(request, "parts of it may be in the query of its URL");
    }
    with_body(request, |body| judge(request, body))
}

/// Judges a request to `git-receive-pack`.
fn push(request: &Request<'_>, repository: &str, body: &DecodedBody) -> Meaning {
    if body.is_whole && body.bytes == b"0000" {
        // Git asks for the server's credentials with this request.
        return Meaning::Reading;
    }
    let wants_all = request.length.is_some_and(|length| length <= COUNTED);
    if wants_all && !request.is_whole {
        return Meaning::NeedMore(usize::try_from(COUNTED).unwrap_or(usize::MAX));
    }
    match push::read(repository, &body.bytes, body.is_whole) {
        Ok(push) => Meaning::writing(Action::Push(push)),
        Err(PushError::Partial) if !request.is_whole => Meaning::NeedMore(request.body.len() * 2),
        Err(PushError::Partial) => unclear(request, "its body ends too early"),
        Err(PushError::Unclear(why)) => unclear(request, why),
    }
}

fn with_body(request: &Request<'_>, judge: impl FnOnce(&DecodedBody) -> Meaning) -> Meaning {
    if request.body.len() < FIRST && !request.is_whole {
        return Meaning::NeedMore(FIRST);
    }
    match encoding::decode(request) {
        Ok(body) => judge(&body),
        Err(why) => unclear(request, why),
    }
}

#[cfg(test)]
mod tests;
