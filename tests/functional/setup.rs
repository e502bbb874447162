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

#[test]
fn a_browser_is_found_chosen_and_forgotten_and_one_that_does_not_answer_is_refused() {
    let fixture = Fixture::with_files(&[]);
    let run = fixture.run(&["setup", "browser"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(
        run.stderr.contains("the browser tools work: ") && run.stderr.contains("Chrom"),
        "{}",
        run.stderr
    );
    // Not in /tmp, of which each cell has its own.
    let programs = tempfile::tempdir_in("/var/tmp").unwrap();
    let script = |name: &str, text: &str| {
        let path = programs.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        path.display().to_string()
    };
    let real = "for program in chromium-headless-shell chromium; do command -v $program >/dev/null && exec $program \"$@\"; done";
    let mine = script("my-chromium", &format!("#!/bin/sh\n{real}\n"));
    let broken = script("broken", "#!/bin/sh\necho no display >&2; exit 7\n");
    let run = fixture.run(&["setup", "browser", "--from", &broken]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(
        run.stderr.contains("no display") && run.stderr.contains("nothing was changed"),
        "{}",
        run.stderr
    );
    assert_eq!(fixture.run(&["setup", "browser", "--from", "/etc/passwd"]).code, 2);
    let run = fixture.run(&["setup", "browser", "--from", &mine]);
    assert!(run.code == 0 && run.stderr.contains("is used from now on"), "{}", run.stderr);
    let shown = fixture.run(&["setup", "browser"]);
    assert!(shown.code == 0 && shown.stderr.contains("my-chromium"), "{}", shown.stderr);
    let doctor = fixture.run(&["doctor", "--json"]).json();
    let line = doctor.as_array().unwrap().iter().find(|line| line["name"] == "browser").unwrap().clone();
    assert!(line["verdict"] == "holds" && line["detail"].as_str().unwrap().contains("my-chromium"), "{line}");
    drop(programs);
    let run = fixture.run(&["setup", "browser"]);
    assert!(run.code == 1 && run.stderr.contains("--remove"), "{}", run.stderr);
    let run = fixture.run(&["setup", "browser", "--remove"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(fixture.run(&["setup", "browser"]).code, 0);
}

#[test]
fn a_browser_in_a_home_shows_its_cell_nothing_of_that_home() {
    let fixture = Fixture::new();
    let home = fixture.home();
    std::fs::create_dir_all(home.join(".ssh")).unwrap();
    std::fs::write(home.join(".ssh/id_test"), "a private key").unwrap();
    std::fs::write(home.join("diary"), "a diary").unwrap();
    // A browser that a page has taken over says what it can read.
    let script = |path: &std::path::Path| {
        let text = format!(
            "#!/bin/sh\ncat {0}/.ssh/id_test {0}/diary >&2; echo \"sees $(cat \"$0\" | wc -c)\" >&2; exit 7\n",
            home.display()
        );
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    };
    let try_it = |path: &std::path::Path| {
        script(path);
        fixture.run(&["setup", "browser", "--from", path.to_str().unwrap()])
    };
    // A file that every Chromium has beside it makes no installation of a home.
    std::fs::write(home.join("icudtl.dat"), "").unwrap();
    let run = try_it(&home.join("my-chrome"));
    assert!(
        run.code == 1 && run.stderr.contains("sees ") && !run.stderr.contains("sees 0"),
        "{}",
        run.stderr
    );
    assert!(!run.stderr.contains("a private key") && !run.stderr.contains("a diary"), "{}", run.stderr);
    let refused = try_it(&fixture.workspace().join("chrome"));
    assert!(refused.code == 2 && refused.stderr.contains("calls can write there"), "{}", refused.stderr);
    let refused = try_it(&home.join(".ssh/chrome"));
    assert!(refused.code == 2 && refused.stderr.contains("among keys"), "{}", refused.stderr);
}
