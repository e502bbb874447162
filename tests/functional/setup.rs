//! `handfast setup sandbox`: it reports the steps that this machine needs, and changes nothing if
//! there are none.

use std::process::Command;

use crate::harness::{Fixture, program};

#[test]
fn where_cells_have_their_namespaces_nothing_is_needed_and_nothing_is_changed() {
    let fixture = Fixture::new();
    if std::fs::read_to_string("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
        .is_ok_and(|it| it.trim() == "1")
    {
        // The command would change this machine.
        return;
    }
    let run = fixture.run(&["setup", "sandbox"]);
    assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{}", run.stderr);
    assert!(run.stderr.contains("nothing is needed"), "{}", run.stderr);
    let run = fixture.run(&["setup", "sandbox", "--remove"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("no profile for this program to remove"), "{}", run.stderr);
}

#[test]
fn the_profile_names_exactly_this_program() {
    let run = Fixture::new().run(&["setup", "sandbox", "--print"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let path = program().canonicalize().unwrap().display().to_string();
    assert!(run.stdout.contains(&format!("\"{path}\" flags=(unconfined) {{")), "{}", run.stdout);
    assert!(run.stdout.contains("\n  userns,\n"), "{}", run.stdout);
    assert_eq!(Fixture::new().run(&["setup", "sandbox", "--print", "--remove"]).code, 2);
}

#[test]
fn where_a_setting_is_in_the_way_it_is_named_and_left_as_it_is() {
    let script = r#"echo 0 > /proc/sys/user/max_user_namespaces && "$@"; echo "code $?"; cat /proc/sys/user/max_user_namespaces"#;
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "sh", "-c", script, "sh"])
        .arg(program())
        .args(["setup", "sandbox"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "code 1\n0\n");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("user.max_user_namespaces") && said.contains("nothing was changed"), "{said}");
}
