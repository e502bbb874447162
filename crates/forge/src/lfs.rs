//! Requests of git LFS (its API document `batch.md`).

use crate::encoding::DecodedBody;
use crate::header;
use crate::json::{self, Json};
use crate::request::{MAX_BODY, Meaning, Request, rest, unclear};

const TYPES: [&str; 1] = ["application/vnd.git-lfs+json"];

/// Keys that a batch request has.
const KEYS: [&str; 5] = ["operation", "transfers", "ref", "objects", "hash_algo"];

/// Judges a request for the places of objects, which are read or written there.
pub(crate) fn batch(request: &Request<'_>, body: &DecodedBody) -> Meaning {
    if !header::is_json(request.headers, &TYPES) {
        return unclear(request, "its body is not that of git LFS");
    }
    if !body.is_whole {
        return Meaning::NeedMore((request.body.len() * 2).min(MAX_BODY));
    }
    let Some(Json::Object(fields)) = json::read(&body.bytes) else {
        return unclear(request, "its body is not a JSON object without a key twice");
    };
    let known = fields.keys().all(|key| KEYS.contains(&key.as_str()));
    match fields.get("operation") {
        Some(Json::Text(operation)) if operation == "download" && known => Meaning::Reading,
        Some(Json::Text(operation)) if operation == "upload" => rest(request),
        _ => unclear(request, "its operation is unknown"),
    }
}

/// Judges a request for the list of locks.
pub(crate) fn locks(request: &Request<'_>, _body: &DecodedBody) -> Meaning {
    if header::is_json(request.headers, &TYPES) {
        Meaning::Reading
    } else {
        unclear(request, "its body is not that of git LFS")
    }
}
