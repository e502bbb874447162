//! Denied programs, and keys in toolchains, on a host without namespaces.

use super::Refusing;

#[test]
fn a_denied_program_does_not_run_there_either_and_keys_in_toolchains_are_closed() {
    const PROFILE: &str = "sandbox_config:\n  normal:\n    mode: full_auto\n    deny_exec_command: [touch]\n";
    let refusing = Refusing::new(&[
        ("way.sh", "linux64 touch a; cp /usr/bin/touch t; ./t b; hash -p /usr/bin/touch x; x c; ls"),
        (
            "keys.sh",
            "cat ../home/.cargo/registry/.npmrc; cat ../home/.cargo/registry/lib.rs; cat ../home/.cargo/notes",
        ),
    ]);
    let home = refusing.fixture.home();
    for (path, content) in [
        (".config/handfast/config.yaml", PROFILE),
        (".cargo/registry/.npmrc", "planted-key"),
        (".cargo/registry/lib.rs", "a program"),
        (".cargo/notes", "planted-notes"),
    ] {
        std::fs::create_dir_all(home.join(path).parent().unwrap()).unwrap();
        std::fs::write(home.join(path), content).unwrap();
    }
    refusing.give();
    let result = refusing.call("bash way.sh");
    let listed = result["data"]["stdout"].as_str().unwrap();
    assert!(listed.contains("way.sh") && result["data"]["stderr"].to_string().contains("denied"), "{result}");
    let made = ["a", "b", "c"].map(|name| refusing.fixture.workspace().join(name).exists());
    assert_eq!(made, [false; 3], "{result}");
    let result = refusing.call("sh keys.sh");
    assert_eq!(result["data"]["stdout"], "a program", "{result}");
}
