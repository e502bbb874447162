//! Tests of hosts and URLs.

use super::*;

fn host(text: &str) -> Result<String, AddressError> {
    Host::parse(text).map(|host| host.to_string())
}

#[test]
fn a_host_has_one_form() {
    for (given, expected) in [
        ("example.com", "example.com"),
        ("EXAMPLE.com.", "example.com"),
        ("a_b.example.com", "a_b.example.com"),
        ("localhost", "localhost"),
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]", "::1"),
        ("[::FFFF:127.0.0.1]", "127.0.0.1"),
        ("[0:0:0:0:0:ffff:7f00:1]", "127.0.0.1"),
        ("2001:DB8::1", "2001:db8::1"),
        ("bücher.example", "xn--bcher-kva.example"),
        // A Cyrillic а, a full-width e, a soft hyphen, an ideographic full stop.
        ("ex\u{430}mple.com", "xn--exmple-4nf.com"),
        ("\u{ff45}xample.com", "example.com"),
        ("exam\u{ad}ple.com", "example.com"),
        ("example\u{3002}com", "example.com"),
    ] {
        assert_eq!(host(given).as_deref(), Ok(expected), "{given}");
    }
}

#[test]
fn a_host_that_could_be_read_in_two_ways_is_refused() {
    for given in
        ["2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "127.1", "127.0.0.1.", "127.0.00.1", "0"]
    {
        assert!(matches!(host(given), Err(AddressError::Spelling { .. })), "{given}: {:?}", host(given));
    }
    for given in ["a\0.com", "a\n.com", "a b.com", "a\t", "\u{7f}.com", "a\u{85}.com", "a\u{a0}b.com"] {
        assert!(matches!(host(given), Err(AddressError::Character { .. })), "{given:?}: {:?}", host(given));
    }
    assert_eq!(host("user@example.com"), Err(AddressError::UserInformation));
    assert_eq!(host(""), Err(AddressError::Empty));
    let (long_label, long_name) = ("a".repeat(64), "a.".repeat(128));
    for given in [
        ".",
        "a..b",
        "example.com..",
        ".example.com",
        "a%2ecom",
        "exampl%65.com",
        "[::1",
        "::1]",
        "[::1%25eth0]",
        "fe80::1%eth0",
        "example.com:443",
        "a/b",
        "a\\b",
        "256.1.1.1",
        "1.2.3.4.5",
        "a.1",
        "xn--a\u{fffd}",
        "-a.com",
        "a.0xg",
        "a*b",
        &long_label,
        &long_name,
    ] {
        assert!(matches!(host(given), Err(AddressError::Host { .. })), "{given}: {:?}", host(given));
    }
}

#[test]
fn a_url_is_taken_apart_in_one_way() {
    for (given, expected, authority) in [
        ("http://example.com", "http://example.com/", "example.com"),
        ("HTTPS://Example.COM.:443/a?b#c", "https://example.com/a?b", "example.com"),
        ("https://example.com:80/a/../b", "https://example.com:80/b", "example.com:80"),
        ("http://[::ffff:1.2.3.4]:8080/", "http://1.2.3.4:8080/", "1.2.3.4:8080"),
        ("http://[2001:DB8::1]/", "http://[2001:db8::1]/", "[2001:db8::1]"),
        (
            "https://b\u{fc}cher.example/\u{fc}",
            "https://xn--bcher-kva.example/%C3%BC",
            "xn--bcher-kva.example",
        ),
        ("https://example.com?q=a@b\\c", "https://example.com/?q=a@b\\c", "example.com"),
        ("https://example.com/@me", "https://example.com/@me", "example.com"),
    ] {
        let target = Target::parse(given).unwrap_or_else(|error| panic!("{given}: {error}"));
        assert_eq!(
            (target.to_string().as_str(), target.authority().as_str()),
            (expected, authority),
            "{given}"
        );
    }
}

#[test]
fn a_url_that_could_be_read_in_two_ways_is_refused_and_no_password_is_repeated() {
    for given in [
        "https://user:passw0rd@example.com/",
        "https://example.com@evil.example/",
        "https://@example.com/",
        "https://example.com\\@evil.example/",
        "https:example.com",
        "https:\\\\example.com",
        "https:///example.com",
        "http://127.1/",
        "http://0x7f.0.0.1/",
        "http://exam\tple.com/",
        "http://example.com/a\nb",
        "http://exa%6dple.com/",
        "http://example.com:0/",
        "http://example.com:99999/",
        "http://example.com:80:80/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "example.com",
        "//example.com",
        "",
        "http://",
    ] {
        let error = Target::parse(given).unwrap_err().to_string();
        assert!(!error.contains("passw0rd"), "{error}");
    }
    assert_eq!(Target::parse(&format!("http://a/{}", "x".repeat(LONGEST_URL))), Err(AddressError::Long));
}

#[test]
fn a_redirection_is_read_as_strictly() {
    let from = Target::parse("https://example.com/a/b?c").unwrap();
    for (location, expected) in [
        ("d", "https://example.com/a/d"),
        ("/d?e=https://x.example", "https://example.com/d?e=https://x.example"),
        ("?d", "https://example.com/a/b?d"),
        ("//other.example/", "https://other.example/"),
        ("HTTP://other.example:81", "http://other.example:81/"),
    ] {
        assert_eq!(from.join(location).unwrap().to_string(), expected, "{location}");
    }
    for location in [
        "//user@other.example/",
        "http://127.1/",
        "\\\\evil.example/",
        "/\\evil.example",
        "file:///x",
        "/a\r\nb: c",
    ] {
        assert!(from.join(location).is_err(), "{location}");
    }
    let same = |other: &str| from.has_origin_of(&Target::parse(other).unwrap());
    assert!(same("https://EXAMPLE.com.:443/x"));
    for other in ["http://example.com/", "https://example.com:444/", "https://a.example.com/"] {
        assert!(!same(other), "{other}");
    }
}

#[test]
fn every_target_is_one_that_the_client_can_send() {
    for given in
        ["http://a/{}|^`\"<>", "http://a/?q='\\|{}^`\"<>", "http://[::1]:1/\u{e4}?\u{e4}", "http://a_b/%zz"]
    {
        let target = Target::parse(given).unwrap();
        assert!(target.to_string().parse::<hyper::Uri>().is_ok(), "{target}");
        assert!(target.path_and_query().parse::<hyper::Uri>().is_ok(), "{target}");
    }
}
