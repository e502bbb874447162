//! An isolation that the profile names and this host does not offer.

use super::Refusing;

fn profile(isolation: &str) -> String {
    format!("sandbox_config:\n  normal:\n    isolation: {isolation}\n")
}

#[test]
fn an_isolation_that_the_host_does_not_offer_is_refused_and_never_replaced() {
    // The file is not trusted, and counts because it names the strictest kind.
    let own = Refusing::new(&[("handfast.yaml", &profile("namespaces"))]);
    let result = own.call("echo x > made");
    assert_eq!(result["error"]["code"], "EUNAVAILABLE", "{result:#}");
    let message = result["error"]["message"].as_str().unwrap();
    assert!(message.contains("isolation: namespaces"), "{result:#}");
    let hint = result["error"]["hint"].as_str().unwrap();
    assert!(hint.contains("user.max_user_namespaces") && hint.contains("isolation: auto"), "{result:#}");
    assert!(!own.fixture.workspace().join("made").exists());
    // The control: the same command with the kind that this host offers.
    own.fixture.write("handfast.yaml", &profile("auto"));
    own.give();
    own.inside("echo x > made");
    assert_eq!(own.fixture.read("made"), "x\n");
}
