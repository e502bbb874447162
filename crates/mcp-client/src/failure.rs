//! Answers over HTTP that are no success, as errors.

use crate::error::{ClientError, line};
use crate::http::{HttpAnswer, HttpFailure};
use crate::message::{Message, decode};

/// Maximum length of the body of a failure, in bytes. Only its message is shown.
const LONGEST_FAILURE: usize = 64 * 1024;

/// Converts an answer with a status that is no success. `has_session` tells if a session may be lost.
pub(crate) async fn failure(
    answer: &mut HttpAnswer,
    id: u64,
    method: &str,
    has_session: bool,
) -> ClientError {
    let status = answer.status;
    let challenge = answer.header("www-authenticate").map(line);
    if status == 401 || status == 403 && challenge.is_some() {
        return ClientError::Unauthorized { status, challenge };
    }
    if status == 404 && has_session {
        return ClientError::SessionLost;
    }
    let retry_after = answer.retry_after();
    // A body that is too long or breaks off explains nothing.
    let body = answer.read(LONGEST_FAILURE).await.ok().flatten().unwrap_or_default();
    if let Ok(messages) = decode(&body, false)
        && let Some(Message::Answer { outcome: Err(error), id: own }) = messages.into_iter().next()
        && own.is_none_or(|own| own == id)
    {
        return error.into_refusal(method);
    }
    let message = line(&String::from_utf8_lossy(&body));
    ClientError::Http { method: method.to_owned(), status, message, retry_after }
}

/// Makes the error of a connection that failed.
pub(crate) fn unreachable(failure: &HttpFailure) -> ClientError {
    ClientError::Unreachable { message: line(&failure.message) }
}

/// Makes the error of a stream that broke off.
pub(crate) fn broken(method: &str, problem: &str) -> ClientError {
    ClientError::BrokenStream { method: method.to_owned(), problem: line(problem) }
}
