//! Messages are not sent twice, whatever happens to the answers.

use crate::fakes::gmail::Trouble;
use serde_json::json;
use tool::{Code, EffectState, Retry};

use crate::gmail::{Fixture, to_grace};

#[test]
fn an_answer_that_is_lost_sends_nothing_again() {
    for trouble in [Trouble::LosesAnswer, Trouble::Gateway(502)] {
        let fixture = Fixture::new();
        fixture.server.trouble([trouble.clone()]);
        let sent = fixture.data("gmail_send", to_grace());
        assert_eq!(sent["sent"], true, "{trouble:?}");
        assert!(sent["message_id"].as_str().unwrap().starts_with("18c"));
        assert_eq!((fixture.server.sent().len(), fixture.server.sends()), (1, 1), "{trouble:?}");
    }
}

#[test]
fn where_nobody_can_tell_whether_it_was_sent_it_says_so_and_sends_nothing_again() {
    let busy = || Trouble::Refuses(503, "backendError", "Backend Error".to_owned(), "");
    for (trouble, renames, sent) in
        [(Trouble::LosesQuestion, false, 0), (Trouble::LosesAnswer, true, 1), (busy(), false, 0)]
    {
        let fixture = Fixture::new();
        if renames {
            fixture.server.renames();
        }
        fixture.server.trouble([trouble.clone()]);
        let error = fixture.error("gmail_send", to_grace());
        assert_eq!((error.effect, error.retry), (EffectState::Maybe, Retry::Never), "{trouble:?}");
        assert!(error.hint.unwrap().contains("in:sent"));
        assert!(error.data.unwrap()["rfc822_message_id"].as_str().unwrap().ends_with("@example.com"));
        assert_eq!((fixture.server.sent().len(), fixture.server.sends()), (sent, 1), "{trouble:?}");
    }
}

#[test]
fn a_call_that_is_stopped_or_has_no_time_left_says_that_it_may_have_sent() {
    let fixture = Fixture::new();
    fixture.server.trouble([Trouble::Hangs]);
    let error = fixture.call_in(&fixture.within(1.0), "gmail_send", to_grace()).unwrap_err();
    assert_eq!((error.code, error.effect), (Code::Timeout, EffectState::Maybe), "{error:?}");
    fixture.server.trouble([Trouble::Hangs]);
    let context = fixture.within(60.0);
    let stop = context.stop.clone();
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            while fixture.server.sends() < 2 {
                std::thread::yield_now();
            }
            stop.request(tool::StopReason::Cancelled);
        });
        fixture.call_in(&context, "gmail_send", to_grace()).unwrap_err()
    });
    assert_eq!((error.code, error.effect), (Code::Cancelled, EffectState::Maybe));
    // A call that only reads has changed nothing.
    let stopped = fixture.within(60.0);
    stopped.stop.request(tool::StopReason::Cancelled);
    let error = fixture.call_in(&stopped, "gmail_search", json!({"query": "a"})).unwrap_err();
    assert_eq!((error.code, error.effect), (Code::Cancelled, EffectState::None));
}

#[test]
fn what_is_refused_was_not_sent() {
    for (status, reason, code) in [
        (400, "invalidArgument", Code::Validation),
        (403, "insufficientPermissions", Code::Permission),
        (413, "uploadTooLarge", Code::Validation),
    ] {
        let fixture = Fixture::new();
        fixture.server.trouble([Trouble::Refuses(status, reason, "Not so.".to_owned(), "")]);
        let error = fixture.error("gmail_send", to_grace());
        assert_eq!((error.code, error.effect), (code, EffectState::None), "{reason}: {}", error.message);
        assert!(error.message.contains("Not so."), "{}", error.message);
        assert_eq!(fixture.server.sends(), 1);
    }
}
