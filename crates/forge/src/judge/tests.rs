use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;

use super::*;
use crate::pkt_line;
use crate::push::RefChange;

mod graphql;
mod packs;

const OLD: &str = "1111111111111111111111111111111111111111";
const NEW: &str = "2222222222222222222222222222222222222222";
const NONE: &str = "0000000000000000000000000000000000000000";
const JSON: &[(&str, &[u8])] = &[("Content-Type", b"application/json; charset=utf-8")];
const PUSHES: &[(&str, &[u8])] = &[("content-type", b"application/x-git-receive-pack-request")];
const FETCHES: &[(&str, &[u8])] = &[("content-type", b"application/x-git-upload-pack-request")];
const LFS: &[(&str, &[u8])] = &[("Content-Type", b"application/vnd.git-lfs+json")];

fn whole<'a>(
    method: &'a str,
    target: &'a str,
    headers: &'a [(&'a str, &'a [u8])],
    body: &'a [u8],
) -> Request<'a> {
    Request { method, target, headers, body, is_whole: true, length: Some(body.len() as u64) }
}

/// Returns the meaning in words.
fn words(request: &Request<'_>) -> String {
    match judge(request) {
        Meaning::Reading => "reads".to_owned(),
        Meaning::Writing(action) => action.to_string(),
        Meaning::NeedMore(bytes) => format!("needs {bytes}"),
    }
}

fn gzipped(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

fn lines(lines: &[&str]) -> Vec<u8> {
    let mut body = Vec::new();
    for line in lines {
        pkt_line::write(line.as_bytes(), &mut body);
    }
    body.extend_from_slice(b"0000");
    body
}

fn pushes(body: &[u8]) -> String {
    words(&whole("POST", "/me/site.git/git-receive-pack", PUSHES, body))
}

fn asks(body: &str) -> String {
    words(&whole("POST", "/graphql", JSON, body.as_bytes()))
}

/// Returns the meaning of a document in a request that is otherwise correct.
fn document(document: &str) -> String {
    asks(&serde_json::json!({"query": document, "variables": {"a": [1, null]}}).to_string())
}

#[track_caller]
fn is_unclear(words: &str) {
    assert!(words.contains("(not understood: "), "{words}");
}

#[test]
fn methods_that_read_read_and_the_others_write() {
    for method in ["GET", "HEAD", "OPTIONS"] {
        assert_eq!(words(&whole(method, "/repos/me/site/pulls?state=open", &[], b"")), "reads");
    }
    for method in ["POST", "PUT", "PATCH", "DELETE", "get", "PROPFIND", "MKCOL", "LINK", "TRACE"] {
        let said = words(&whole(method, "/repos/me/site/pulls?token=x", &[], b"{}"));
        assert_eq!(said, format!("{method} /repos/me/site/pulls"));
    }
    is_unclear(&words(&whole("GET", "/x", &[], b"_method=DELETE")));
    let begun = Request { is_whole: false, length: None, ..whole("GET", "/x", &[], b"") };
    assert_eq!(judge(&begun), Meaning::NeedMore(1));
}

#[test]
fn a_header_or_parameter_that_changes_the_method_writes() {
    for name in ["X-HTTP-Method-Override", "x-method-override", "X_HTTP_METHOD", "X-Original-URL"] {
        is_unclear(&words(&whole("GET", "/x", &[(name, b"DELETE")], b"")));
    }
    for query in ["_method=delete", "a=1&_METHOD=delete", "%5fmethod=delete", "a;_method=put", " _method=x"] {
        is_unclear(&words(&whole("GET", &format!("/x?{query}"), &[], b"")));
    }
    assert_eq!(words(&whole("GET", "/x?method=delete", &[("X-Method", b"x")], b"")), "reads");
}

#[test]
fn fetches_of_every_version_read_and_nothing_that_only_ends_like_one() {
    let fetch =
        |target: &str, headers: &[(&str, &[u8])], body: &[u8]| words(&whole("POST", target, headers, body));
    let target = "/me/site.git/git-upload-pack";
    let bodies = [
        lines(&["want 1111111111111111111111111111111111111111 multi_ack_detailed\n"]),
        lines(&["command=ls-refs\n"]),
        lines(&["command=fetch"]),
        b"0000".to_vec(),
    ];
    for body in &bodies {
        assert_eq!(fetch(target, FETCHES, body), "reads");
        let zipped = [FETCHES[0], ("Content-Encoding", b"gzip")];
        assert_eq!(fetch(target, &zipped, &gzipped(body)), "reads");
        is_unclear(&fetch(target, &zipped, body));
        is_unclear(&fetch(target, &[FETCHES[0], ("Content-Encoding", b"br")], body));
        is_unclear(&fetch(target, &[], body));
        is_unclear(&fetch(target, JSON, body));
        for odd in [
            "/me/site.git/git-receive-pack/../git-upload-pack",
            "/me/site.git/git%2dreceive-pack;/git-upload-pack",
            "/me//git-upload-pack",
            "/me\\x/git-upload-pack",
            "/me/./git-upload-pack",
            "/me/site/git-upload-pack?content=x",
            "/me/\u{fc}/git-upload-pack",
        ] {
            is_unclear(&fetch(odd, FETCHES, body));
        }
        let elsewhere = fetch("/me/site.git/git-upload-packs", FETCHES, body);
        assert_eq!(elsewhere, "POST /me/site.git/git-upload-packs");
    }
    is_unclear(&fetch(target, FETCHES, b"{\"branch\":\"main\"}"));
    is_unclear(&fetch(target, FETCHES, b""));
    let redirected = fetch("/me/site.git/git-receive-pack", FETCHES, &bodies[2]);
    is_unclear(&redirected);
    let first = Request {
        is_whole: false,
        length: None,
        body: &bodies[0][..3],
        ..whole("POST", target, FETCHES, b"")
    };
    assert_eq!(judge(&first), Meaning::NeedMore(FIRST));
}

#[test]
fn lfs_downloads_read_and_uploads_write() {
    let batch =
        |body: &str| words(&whole("POST", "/me/site.git/info/lfs/objects/batch", LFS, body.as_bytes()));
    assert_eq!(
        batch(r#"{"operation":"download","transfers":["basic"],"objects":[{"oid":"1","size":2}]}"#),
        "reads"
    );
    assert_eq!(batch(r#"{"operation":"upload","objects":[]}"#), "POST /me/site.git/info/lfs/objects/batch");
    for odd in [
        r#"{"operation":"download","operation":"upload"}"#,
        r#"{"operation":"upload","operation":"download"}"#,
        r#"{"operation":"download","Operation":"upload"}"#,
        r#"{"operation":"DOWNLOAD"}"#,
        r#"{"operation":["download"]}"#,
        r#"[{"operation":"download"}]"#,
        r#"{"objects":[]}"#,
        r#"{"operation":"download"} {}"#,
        "",
    ] {
        is_unclear(&batch(odd));
    }
    assert_eq!(words(&whole("POST", "/me/site.git/info/lfs/locks/verify", LFS, b"{}")), "reads");
    assert_eq!(
        words(&whole("POST", "/me/site.git/info/lfs/locks", LFS, b"{}")),
        "POST /me/site.git/info/lfs/locks"
    );
}

#[test]
fn a_push_is_described_by_its_refs() {
    let create = format!("{NONE} {NEW} refs/heads/agent/fix-login\0report-status side-band-64k agent=git/2");
    assert_eq!(
        pushes(&[lines(&[&create]), b"PACK".to_vec()].concat()),
        "push to `agent/fix-login` (new) of me/site"
    );
    let all = lines(&[
        &format!("shallow {OLD}"),
        &format!("{OLD} {NEW} refs/heads/main\0report-status push-options\n"),
        &format!("{OLD} {NONE} refs/heads/old"),
        &format!("{NONE} {NEW} refs/tags/v1"),
        &format!("{NONE} {NEW} refs/notes/x"),
    ]);
    let options = lines(&["merge_request.create", "ci.skip\n"]);
    assert_eq!(
        pushes(&[all, options, b"PACK".to_vec()].concat()),
        "delete `old` and push to `main` (may drop commits that are there), tag `v1` (new), `refs/notes/x` (new) \
         of me/site, with the options `merge_request.create`, `ci.skip`"
    );
    assert_eq!(pushes(&lines(&[&format!("{OLD} {NONE} refs/heads/x")])), "delete `x` of me/site");
    let (old, new) = ("1".repeat(64), "0".repeat(64));
    let long = format!("{old} {new} refs/heads/x\0object-format=sha256");
    assert_eq!(pushes(&lines(&[&long])), "delete `x` of me/site");
    let odd = format!("{NONE} {NEW} refs/heads/m\u{430}in`\u{202e}");
    assert_eq!(pushes(&lines(&[&odd])), "push to `m\\u{430}in\\u{60}\\u{202e}` (new) of me/site");
}

#[test]
fn a_lone_flush_reads_and_nothing_after_it() {
    assert_eq!(pushes(b"0000"), "reads");
    for body in [&b"0000PACK"[..], b"00000000", b"0000\n", b"", b"000"] {
        is_unclear(&pushes(body));
    }
    let begun = Request {
        is_whole: false,
        length: None,
        ..whole("POST", "/me/site/git-receive-pack", PUSHES, b"0000")
    };
    assert_eq!(judge(&begun), Meaning::NeedMore(FIRST));
}

#[test]
fn lies_and_odd_commands_in_a_push_are_not_understood() {
    let command = format!("{OLD} {NEW} refs/heads/main");
    let with = |line: String| lines(&[&line]);
    let longer = [b"0fff".as_slice(), command.as_bytes(), b"0000"].concat();
    for body in [
        longer,
        [b"ffff".as_slice(), &vec![b'a'; 70_000]].concat(),
        [b"+041".as_slice(), command.as_bytes(), b"0000"].concat(),
        [b"0001".as_slice(), &lines(&[&command])].concat(),
        [b"0004".as_slice(), &lines(&[&command])].concat(),
        [b"0003".as_slice(), &lines(&[&command])].concat(),
        lines(&[&command])[..60].to_vec(),
        lines(&[&command])[..lines(&[&command]).len() - 1].to_vec(),
        [lines(&[&command]), b"PUCK".to_vec()].concat(),
        [lines(&[&command]), lines(&[&command])].concat(),
        lines(&["push-cert\0report-status", "certificate version 0.1"]),
        lines(&[&format!("shallow {OLD}")]),
        lines(&[&format!("{command}\0a"), &format!("{OLD} {NEW} refs/heads/x\0a")]),
        lines(&[&command, &format!("{0} {0} refs/heads/x", "3".repeat(64))]),
        with(format!("{NONE} {NONE} refs/heads/main")),
        with(format!("{OLD} {NEW} HEAD")),
        with(format!("{OLD} {NEW} refs/heads/a..b")),
        with(format!("{OLD} {NEW} refs/heads/a b")),
        with(format!("{OLD} {NEW} refs/heads/")),
        with(format!("{OLD} {NEW} refs/heads/.a")),
        with(format!("{OLD} {NEW} refs/heads//a")),
        with(format!("{OLD} {NEW} refs/heads/a\n\n")),
        with(format!("{OLD}  {NEW} refs/heads/a")),
        with(format!("{OLD} {NEW}")),
        with(format!("{OLD} {} refs/heads/a", &NEW[1..])),
        // The options that the client announces are missing.
        with(format!("{command}\0push-options")),
    ] {
        is_unclear(&pushes(&body));
    }
}

#[test]
fn ten_thousand_refs_are_understood_and_one_more_is_not() {
    let many = |count: usize| {
        let all: Vec<String> =
            (0..count).map(|at| format!("{NONE} {NEW} refs/heads/agent/{at:0200}")).collect();
        lines(&all.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let body = many(10_000);
    assert!((2 * 1024 * 1024..MAX_BODY).contains(&body.len()));
    let said = pushes(&body);
    assert!(said.ends_with(", and 9990 more refs of me/site") && said.len() < 2000, "{said}");
    is_unclear(&pushes(&many(10_001)));
    // The whole number of refs counts, however the body arrives.
    let mut wanted = 1;
    loop {
        let part = &body[..wanted.min(body.len())];
        let request = Request {
            is_whole: part.len() == body.len(),
            length: None,
            ..whole("POST", "/me/site.git/git-receive-pack", PUSHES, part)
        };
        match judge(&request) {
            Meaning::NeedMore(more) => {
                assert!(more > wanted && more <= MAX_BODY);
                wanted = more;
            }
            meaning => {
                assert!(matches!(meaning, Meaning::Writing(action) if action.to_string() == said));
                break;
            }
        }
    }
    let endless = vec![b'a'; MAX_BODY];
    let text = [b"fff0".as_slice(), &endless].concat();
    let request = Request {
        is_whole: false,
        length: None,
        ..whole("POST", "/me/site/git-receive-pack", PUSHES, &text[..MAX_BODY])
    };
    is_unclear(&words(&request));
}

#[test]
fn a_gzip_bomb_is_not_understood() {
    let bomb = gzipped(&vec![b' '; 64 * 1024 * 1024]);
    assert!(bomb.len() < 100_000);
    let headers = |kind| [kind, ("content-encoding", b"gzip".as_slice())];
    let said = words(&whole("POST", "/graphql", &headers(JSON[0]), &bomb));
    assert!(said.contains("too large when it is decoded"), "{said}");
    let said = words(&whole("POST", "/me/site/git-receive-pack", &headers(PUSHES[0]), &bomb));
    assert!(said.contains("too large when it is decoded"), "{said}");
    let query = gzipped(br#"{"query":"{a}"}"#);
    assert_eq!(words(&whole("POST", "/graphql", &headers(JSON[0]), &query)), "reads");
    let two = [query.clone(), gzipped(b"x")].concat();
    is_unclear(&words(&whole("POST", "/graphql", &headers(JSON[0]), &two)));
    is_unclear(&words(&whole("POST", "/graphql", &headers(JSON[0]), &query[..query.len() - 9])));
    let twice = [JSON[0], ("content-encoding", b"gzip".as_slice()), ("content-encoding", b"gzip".as_slice())];
    is_unclear(&words(&whole("POST", "/graphql", &twice, &query)));
}

#[test]
fn the_publication_of_a_package_is_named() {
    let publish = |target: &str, body: &str| {
        words(&whole("PUT", target, &[("content-type", b"application/json")], body.as_bytes()))
    };
    assert_eq!(
        publish("/left-pad", r#"{"_id":"left-pad","name":"left-pad"}"#),
        "publish the package left-pad"
    );
    assert_eq!(publish("/@me%2fpad", r#"{"_id": "@me/pad", "name":"x"}"#), "publish the package @me/pad");
    assert_eq!(publish("/left-pad", r#"{"_id":"other","name":"left-pad"}"#), "PUT /left-pad");
    assert_eq!(publish("/notifications", "{}"), "PUT /notifications");
    assert_eq!(publish("/repos/me/site", r#"{"_id":"repos/me/site",}"#), "PUT /repos/me/site");
}

proptest! {
    #[test]
    fn no_body_is_a_panic_and_more_is_asked_for_within_bounds(
        method in "(GET|POST|PUT|[A-Z]{1,5})",
        path in "(/graphql|/api/graphql|/a/b.git/git-receive-pack|/a/b/git-upload-pack|/a/info/lfs/objects/batch|/[ -~]{0,20})",
        kind in "(application/json|application/x-git-receive-pack-request|application/vnd.git-lfs\\+json|[ -~]{0,10})",
        coding in "(|gzip|br)",
        body in prop::collection::vec(any::<u8>(), 0..400),
        is_whole: bool,
    ) {
        let headers = [("content-type", kind.as_bytes()), ("content-encoding", coding.as_bytes())];
        let request = Request { is_whole, length: None, ..whole(&method, &path, &headers, &body) };
        match judge(&request) {
            Meaning::NeedMore(bytes) => prop_assert!(!is_whole && bytes > body.len() && bytes <= MAX_BODY),
            Meaning::Reading => {}
            Meaning::Writing(action) => {
                let said = action.to_string();
                prop_assert!(said.len() < 4000 && said.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{}", said);
            }
        }
    }

    #[test]
    fn a_document_with_a_mutation_never_reads(
        before in "[ -~\n\u{fc}\"#]{0,30}",
        after in "[ -~\n\"#{}]{0,30}",
    ) {
        let text = format!("query {{ a }} {before}\nmutation {{ b }} {after}");
        // A block string that is open at the line end could contain the mutation.
        prop_assume!(!before.contains("\"\"\""));
        prop_assert_ne!(document(&text), "reads");
    }

    #[test]
    fn any_text_in_a_document_is_judged_without_a_panic(text in "[{}()\\[\\]:$@!.,a-c\"#\n ]{0,200}") {
        document(&text);
    }

    #[test]
    fn what_a_split_body_means_is_what_the_whole_body_means(
        names in prop::collection::vec("[a-z]{1,8}", 1..20),
        cut in any::<prop::sample::Index>(),
    ) {
        let all: Vec<String> = names.iter().map(|name| format!("{NONE} {NEW} refs/heads/{name}")).collect();
        let body = [lines(&all.iter().map(String::as_str).collect::<Vec<_>>()), b"PACK1234".to_vec()].concat();
        let at = cut.index(body.len());
        let target = "/me/site/git-receive-pack";
        let part = Request { is_whole: false, length: None, ..whole("POST", target, PUSHES, &body[..at]) };
        match judge(&part) {
            Meaning::NeedMore(_) => {}
            meaning => prop_assert_eq!(meaning, judge(&whole("POST", target, PUSHES, &body))),
        }
    }
}
