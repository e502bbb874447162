//! Hosts: the client, the policy and the vault read each one in the same way.

use std::path::Path;

use fetch::address::Host;
use policy::{Part, Policy, Request, Verdict};
use proptest::prelude::*;
use tool::{Effect, Level};
use vault::HostRule;

/// Returns a policy that lists these hosts.
fn listing(hosts: &[&str]) -> Option<Policy> {
    testkit::policy_of(Path::new("/w"), None, &serde_json::json!({ "allowed_hosts": hosts })).ok()
}

fn verdict(policy: &Policy, host: &str) -> Verdict {
    let connect = Effect::Connect {
        host: host.to_owned(),
        port: 443,
        method: Some("GET".to_owned()),
        only_asks: false,
    };
    let parts = [Part::from(connect)];
    let request = Request {
        tool: "fetch_url",
        level: Level::Safe,
        parts: &parts,
        undoable_in_force: false,
        background: false,
    };
    policy.decide(&request).verdict
}

fn hosts() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a",
        "A",
        "example",
        "com",
        "xn--bcher-kva",
        "b\u{fc}cher",
        "\u{430}",
        "\u{ff45}",
        "\u{3002}",
        "\u{ad}",
        "0x",
        "0x7f",
        "127",
        "1",
        "017",
        "256",
        "_",
        "-",
        ".",
        ".",
        ".",
        "..",
        "[",
        "]",
        ":",
        "::",
        "ffff",
        "%",
        "%2e",
        "@",
        " ",
        "\0",
        "/",
        "\\",
        "localhost",
    ]);
    prop::collection::vec(piece, 1..9).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn whoever_reads_a_host_reads_the_same(text in hosts(), other in hosts()) {
        let Ok(host) = Host::parse(&text) else { return Ok(()) };
        let shown = host.to_string();
        // The printed form stays the same when it is parsed again.
        let again = Host::parse(&shown);
        prop_assert_eq!(again.as_ref(), Ok(&host));
        let listed = listing(&[&shown]);
        prop_assert!(listed.is_some(), "{} cannot be listed", shown);
        prop_assert_eq!(verdict(&listed.unwrap(), &shown), Verdict::Pass, "{}", shown);
        prop_assert!(HostRule::parse(&shown).is_ok_and(|rule| rule.matches(&shown)), "{}", shown);
        // A list that names another host does not allow this one, and another host's secret does
        // not go there.
        if let Ok(other) = Host::parse(&other) && other != host {
            let other = other.to_string();
            prop_assert_ne!(verdict(&listing(&[&other]).unwrap(), &shown), Verdict::Pass, "{} by {}", shown, other);
            prop_assert!(!HostRule::parse(&other).unwrap().matches(&shown), "{} by {}", shown, other);
        }
    }
}
