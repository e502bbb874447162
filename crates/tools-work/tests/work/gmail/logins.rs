//! Logins: renewal after expiry, by one program at a time, and the error for an invalid login.

use serde_json::{Value, json};
use testkit::web::Reply;
use tool::{Code, EffectState};
use tools_work::oauth::{ACCESS, REFRESH, SCOPES};
use tools_work::{Endpoints, Gmail};
use vault::{Change, HostRule, VaultError};

use crate::gmail::{Fixture, subjects, to_grace};

fn search() -> Value {
    json!({"query": "compiler"})
}

fn held(fixture: &Fixture, name: &str) -> String {
    let contents = fixture.vault().contents().unwrap();
    String::from_utf8(contents.get(name).unwrap().1.to_vec()).unwrap()
}

#[test]
fn a_token_that_has_run_out_is_renewed_before_it_is_used() {
    let fixture = Fixture::without_login();
    fixture.log_in(&SCOPES, 30);
    let before = held(&fixture, ACCESS);
    assert_eq!(subjects(&fixture.data("gmail_search", search())), ["The compiler"]);
    assert_eq!(fixture.server.renewals(), 1);
    let after = held(&fixture, ACCESS);
    assert_ne!(before, after);
    let used = fixture.server.server.seen();
    let used = used.iter().filter(|request| request.path.contains("messages"));
    assert!(used.into_iter().all(|request| request.header("authorization") == format!("Bearer {after}")));
    // The next call uses the token in the vault.
    fixture.data("gmail_search", search());
    assert_eq!(fixture.server.renewals(), 1);
}

#[test]
fn a_token_that_is_refused_in_between_is_renewed_once_also_for_a_send() {
    let fixture = Fixture::new();
    fixture.server.forget_access();
    assert_eq!(subjects(&fixture.data("gmail_search", search())), ["The compiler"]);
    fixture.server.forget_access();
    assert_eq!(fixture.data("gmail_send", to_grace())["sent"], true);
    assert_eq!((fixture.server.renewals(), fixture.server.sent().len()), (2, 1));
    // A server that refuses every token ends the retries.
    fixture.server.trouble(vec![
        crate::fakes::gmail::Trouble::Refuses(
            401,
            "authError",
            "Invalid Credentials".to_owned(),
            ""
        );
        3
    ]);
    let error = fixture.error("gmail_send", to_grace());
    assert_eq!((error.code, error.effect), (Code::Permission, EffectState::None));
    assert!(error.hint.unwrap().contains("handfast login gmail"));
    assert_eq!((fixture.server.renewals(), fixture.server.sent().len()), (3, 1));
}

#[test]
fn of_programs_at_once_one_renews_and_the_others_take_what_it_got() {
    let fixture = Fixture::without_login();
    fixture.log_in(&SCOPES, 0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            // Each call has its own vault handle, as a separate process does.
            let context =
                crate::gmail::with_services(testkit::Workspace::new(), fixture.folder.path()).context();
            let fixture = &fixture;
            scope.spawn(move || {
                let found = fixture.call_in(&context, "gmail_search", search()).unwrap();
                assert_eq!(subjects(&found), ["The compiler"]);
            });
        }
    });
    assert_eq!(fixture.server.renewals(), 1);
    // A wait for a holder that never finishes ends with an error.
    fixture.log_in(&SCOPES, 0);
    let name = vault::Name::parse(ACCESS).unwrap();
    let turn = fixture.vault().turn(&name).unwrap();
    assert!(turn.is_some() && fixture.vault().turn(&name).unwrap().is_none());
    let error = fixture.call_in(&fixture.within(0.3), "gmail_search", search()).unwrap_err();
    assert_eq!(error.code, Code::Timeout, "{error:?}");
}

#[test]
fn a_login_that_was_taken_back_or_never_made_is_told_with_what_to_do() {
    let fixture = Fixture::new();
    fixture.server.revoke();
    for (tool, arguments) in [("gmail_search", search()), ("gmail_send", to_grace())] {
        let error = fixture.error(tool, arguments);
        assert_eq!((error.code, error.effect), (Code::Permission, EffectState::None), "{error:?}");
        assert!(error.message.contains("expired or revoked"), "{}", error.message);
        assert!(error.hint.unwrap().contains("handfast login gmail"));
    }
    assert!(fixture.server.sent().is_empty());
    let nobody = Fixture::without_login();
    let error = nobody.error("gmail_search", search());
    assert_eq!(error.code, Code::Unavailable);
    assert!(
        error.message.contains("there is no Gmail login")
            && error.hint.unwrap().contains("handfast login gmail")
    );
    assert!(nobody.server.server.seen().is_empty());
    let narrow = Fixture::without_login();
    narrow.log_in(&["https://www.googleapis.com/auth/gmail.send"], 3_600);
    let error = narrow.error("gmail_search", search());
    assert!(error.code == Code::Permission && error.hint.unwrap().contains("--scope"), "{}", error.message);
    assert_eq!(narrow.data("gmail_send", to_grace())["sent"], true);
}

#[test]
fn a_server_of_tokens_that_is_busy_or_answers_nonsense_is_not_taken_for_a_login() {
    let error_of = |trouble: Vec<Reply>| {
        let fixture = Fixture::without_login();
        fixture.log_in(&SCOPES, 0);
        fixture.server.token_trouble(trouble);
        (fixture.call("gmail_search", search()), fixture)
    };
    let (passed, fixture) = error_of(vec![Reply::status(503), Reply::raw("")]);
    assert!(passed.is_ok() && fixture.server.renewals() == 3);
    for reply in [
        Reply::json("{}"),
        Reply::json(r#"{"access_token": "a\r\nX-Evil: 1"}"#),
        Reply::redirect(302, "https://evil.example/token"),
        Reply::of(400, &[], r#"{"error": "invalid_client"}"#),
    ] {
        let (refused, fixture) = error_of(vec![reply]);
        let error = refused.unwrap_err();
        assert!([Code::Runtime, Code::Permission].contains(&error.code), "{error:?}");
        assert!(error.hint.is_some() && fixture.server.renewals() == 1);
    }
}

#[test]
fn each_secret_goes_to_its_own_host_and_no_other() {
    let fixture = Fixture::new();
    // One server under a second name: secrets bound to the first name are not sent to it.
    let port = fixture.server.server.address.port();
    let elsewhere = |path: &str| Some(format!("http://127.0.0.1:{port}{path}"));
    let gmail =
        Gmail::at(Endpoints { api: elsewhere("/"), token: elsewhere("/token"), ..Endpoints::default() });
    let tools = tools_work::tools(
        tools_work::Linear::at(tools_work::Linear::ENDPOINT, tools_work::Linear::SECRET).unwrap(),
        &gmail.unwrap(),
    );
    let _entered = fixture.runtime.enter();
    let error = testkit::run_in(tools[1].as_ref(), &fixture.context(), search()).unwrap_err();
    assert_eq!(error.code, Code::Permission);
    assert!(error.hint.unwrap().contains("handfast login gmail"));
    assert!(fixture.server.server.seen().is_empty());
    // A secret that was not stored by a login obeys the hosts that the user set.
    let hosts = Some(HostRule::parse_all(["api.example.com"]).unwrap());
    let now = jiff::Timestamp::UNIX_EPOCH;
    fixture.vault().set(&Change { hosts, ..Change::named(REFRESH).unwrap() }, b"another-token", now).unwrap();
    fixture.server.forget_access();
    assert_eq!(fixture.error("gmail_search", search()).code, Code::Permission);
    let contents = fixture.vault().contents().unwrap();
    assert!(matches!(contents.get(ACCESS), Some((entry, _)) if entry.places.names() == ["header"]));
    let used = fixture.vault().value_for(ACCESS, "evil.example", vault::RequestPart::Header, now);
    assert!(matches!(used, Err(VaultError::NotForHost)));
    assert!(fixture.server.server.seen().iter().all(|request| request.path != "/token"));
}
