//! The log of a tab.

use browser::{LogEvent, LogFilter, limits};

use crate::harness::{LIMIT, page, run};
use crate::server::Answer;

#[test]
fn console_errors_and_requests_are_in_the_log_and_the_report() {
    run(async |ground| {
        let tab = ground.open("<p>x").await;
        let action = tab.begin_report();
        page::<()>(&tab, "console.log('plain', 1, {a: 1}, null)").await;
        page::<()>(&tab, "console.error('broken')").await;
        page::<()>(&tab, "void setTimeout(() => { throw new Error('thrown') })").await;
        page::<()>(&tab, "fetch('/missing?x').then(() => {})").await;
        assert!(tab.settle(&action, LIMIT).await);
        let report = tab.report(&action);
        assert!(report.console_errors[0] == "broken", "{report:?}");
        assert!(report.page_errors[0].contains("thrown"), "{report:?}");
        let console =
            tab.events(&LogFilter { console: true, contains: Some("plain".into()), ..LogFilter::default() });
        let LogEvent::Console { level, text } = &console.entries[0].event else { panic!("{console:?}") };
        assert_eq!((level.as_str(), text.as_str()), ("log", "plain 1 Object null"));
        let failed = tab.events(&LogFilter { requests: true, only_failures: true, ..LogFilter::default() });
        let LogEvent::Request(request) = &failed.entries[0].event else { panic!("{failed:?}") };
        assert_eq!(
            (request.method.as_str(), request.status, request.resource.as_str()),
            ("GET", Some(404), "Fetch")
        );
        assert!(request.url.ends_with("/missing?x") && request.duration_ms.is_some(), "{request:?}");
        let all = tab.events(&LogFilter { requests: true, ..LogFilter::default() });
        assert!(
            all.entries.iter().any(|entry| matches!(&entry.event, LogEvent::Request(request)
            if request.status == Some(200) && request.resource == "Document" && request.bytes > 0)),
            "{all:?}"
        );
    });
}

#[test]
fn no_secret_of_a_header_or_a_url_is_in_the_log() {
    run(async |ground| {
        let headers = vec![
            ("Content-Type", "text/html".to_owned()),
            ("Set-Cookie", "session=cookie-secret".to_owned()),
        ];
        let url = ground.server.answer(Answer { headers, ..Answer::default() });
        let url = url.replace("http://", "http://user:url-secret@");
        let tab = ground.session.tab(ground.visit(&url).await.tab).unwrap();
        page::<()>(&tab, "fetch(location.origin + '/x', {headers: {Authorization: 'Bearer header-secret'}}).then(() => {})")
            .await;
        let action = tab.begin_report();
        tab.settle(&action, LIMIT).await;
        let log = serde_json::to_string(&tab.events(&LogFilter::default()).entries).unwrap();
        assert!(log.contains("127.0.0.1"), "{log}");
        assert!(!log.contains("secret"), "{log}");
    });
}

#[test]
fn a_page_that_floods_its_console_costs_a_bounded_log() {
    run(async |ground| {
        let tab = ground.open("<p>x").await;
        let flood = "(() => { const long = 'x'.repeat(100000); for (let i = 0; i < 1200; i++) console.log(i < 100 ? long : i); })()";
        page::<()>(&tab, flood).await;
        page::<()>(&tab, "console.log('last')").await;
        let last = LogFilter { contains: Some("last".into()), ..LogFilter::default() };
        // The event comes before the answer, and is taken soon after it.
        while tab.events(&last).entries.is_empty() {
            page::<i32>(&tab, "1").await;
        }
        let log = tab.events(&LogFilter::default());
        assert_eq!(log.matching, limits::LOG_ENTRIES);
        assert!(log.forgotten > 0);
        assert!(serde_json::to_string(&log).unwrap().len() < limits::LOG_ENTRIES * (limits::TEXT + 200));
    });
}

#[test]
fn a_web_socket_is_in_the_log_with_what_became_of_it() {
    run(async |ground| {
        let tab = ground.open("<p>x").await;
        // The server of the page speaks no WebSocket.
        let failed = "new Promise(done => { const s = new WebSocket(location.origin.replace('http', 'ws') + '/socket'); s.onclose = () => done('closed') })";
        assert_eq!(page::<String>(&tab, failed).await, "closed");
        let action = tab.begin_report();
        tab.settle(&action, LIMIT).await;
        let log = tab.events(&LogFilter {
            contains: Some("/socket".into()),
            requests: true,
            ..LogFilter::default()
        });
        let LogEvent::Request(socket) = &log.entries[0].event else { panic!("{log:?}") };
        assert_eq!(
            (socket.resource.as_str(), socket.duration_ms.is_some()),
            ("WebSocket", true),
            "{socket:?}"
        );
        assert!(socket.failure.is_some() && log.entries[0].time_ms > 1.0e12, "{log:?}");
    });
}
