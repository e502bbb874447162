//! A command's files in its home: they give later commands no advantage.

use std::os::unix::fs::MetadataExt;

use serde_json::json;

use crate::harness::Fixture;
use crate::security::degraded::Refusing;
use crate::security::ordinary_user::Ordinary;

fn output(fixture: &Fixture, line: &str) -> String {
    let data = fixture.data("shell_execute", json!({"command": line}));
    format!("{}{}", data["stdout"].as_str().unwrap(), data["stderr"].as_str().unwrap())
}

/// Commands that run code from a home, if there is any.
const LATER: &str =
    "git status --short; bash -lc true; bash -ic true; python3 -c pass; git -C sub log -1 --format=";

#[test]
fn what_would_run_by_itself_is_gone_with_the_command_that_left_it() {
    let fixture = Fixture::new();
    output(
        &fixture,
        "git init -q . && git init -q sub && git -C sub -c user.name=a -c user.email=a@b commit -q --allow-empty -m x",
    );
    let plant = r#"cd && mkdir -p .config/git .local/bin .cargo &&
        printf '#!/bin/sh\necho RAN $0 >&2\n' > .local/bin/evil && chmod +x .local/bin/evil &&
        printf '[core]\n\tfsmonitor = %s\n' "$HOME/.local/bin/evil" | tee .gitconfig > .config/git/config &&
        echo 'echo RAN bashrc' | tee .bashrc .profile > .bash_profile &&
        site=$(python3 -m site --user-site) && mkdir -p "$site" && echo 'print("RAN python")' > "$site/usercustomize.py" &&
        echo kept > .npm/mark && cd - > /dev/null"#;
    // The control: in the same command all of it runs.
    let seen = output(&fixture, &format!("{plant}; {LATER}"));
    for expected in ["RAN /home/agent/.local/bin/evil", "RAN bashrc", "RAN python"] {
        assert!(seen.contains(expected), "{expected}: {seen}");
    }
    let seen = output(&fixture, &format!("cat ~/.npm/mark; {LATER}"));
    assert!(seen.contains("kept") && !seen.contains("RAN"), "{seen}");
}

#[test]
fn programs_that_launchers_find_in_a_cache_are_not_kept() {
    let fixture = Fixture::new();
    let places = ".cache/node/corepack/v1/pnpm/9.0.0 .cache/bazelisk/downloads .cache/coursier/v1 .cargo/bin .local/share/x .gem \
        .bundle/plugin .gradle/init.d .m2";
    output(
        &fixture,
        &format!("cd; for place in {places} .npm; do mkdir -p $place; echo x > $place/planted; done"),
    );
    assert_eq!(
        output(&fixture, "find -L ~ -name planted | sort -u").trim(),
        "/home/agent/.kept/npm/planted\n/home/agent/.npm/planted"
    );
    // `GOTOOLCHAIN=path` makes `go` ignore toolchains in the caches, so that asking for its version
    // starts none.
    assert_eq!(output(&fixture, "echo $GOTOOLCHAIN").trim(), "path");
}

#[test]
fn the_real_home_and_the_state_are_absent_around_the_caches() {
    let fixture = Fixture::new();
    for (name, content) in [
        (".npmrc", "//registry/:_authToken=s3cret-n"),
        (".netrc", "password s3cret-e"),
        (".npm/real", "s3cret-c"),
    ] {
        let path = fixture.home().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    output(&fixture, "echo own > ~/.npm/own");
    let look = format!(
        "grep -rR . ~ --include=* 2>/dev/null; ls -d {0} {1}/homes {1}/homes/*; cat {0}/.npmrc",
        fixture.home().display(),
        fixture.state().display()
    );
    let seen = output(&fixture, &look);
    assert!(seen.contains("own") && !seen.contains("s3cret"), "{seen}");
    assert_eq!(seen.matches("No such file").count(), 4, "{seen}");
    // The control: the host has the folder of homes.
    assert_eq!(std::fs::read_dir(fixture.state().join("homes")).unwrap().count(), 1);
}

#[test]
fn no_file_of_a_home_is_roots_or_can_be_reached_by_others() {
    let fixture = Fixture::new();
    output(
        &fixture,
        "echo x > ~/.npm/file; cp /bin/true ~/.npm/program; chmod 4755 ~/.npm/program; mkfifo ~/.npm/fifo",
    );
    let home = std::fs::read_dir(fixture.state().join("homes")).unwrap().next().unwrap().unwrap().path();
    assert_eq!(std::fs::metadata(&home).unwrap().mode() & 0o777, 0o700);
    let root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    for name in ["file", "program", "fifo"] {
        let found = std::fs::symlink_metadata(home.join("kept/npm").join(name)).unwrap();
        assert_eq!(found.mode() & 0o6000, 0, "{name}");
        assert!(!root || found.uid() != 0 && found.gid() != 0, "{name}: {found:?}");
    }
}

#[test]
fn an_ordinary_users_caches_are_kept_and_the_users_and_one_that_closes_itself_to_its_user_goes() {
    let own = Ordinary::new(&[("a", "a")]);
    let line = |line: &str| own.call("shell_execute", json!({"command": line}));
    let made = line(
        "echo x > ~/.npm/mark; echo y > ~/.bashrc; mkdir -p ~/.cache/pip/closed/in; chmod 0 ~/.cache/pip/closed; \
         ls ~/.cache/pip",
    );
    assert!(made["meta"]["sandbox"].to_string().contains("home:caches_kept"), "{made:#}");
    assert_eq!(made["data"]["stdout"], "closed\n", "{made:#}");
    // The size of a closed folder is unknown, so that cache is not carried over.
    assert_eq!(line("cat ~/.npm/mark; ls ~/.bashrc; ls ~/.cache/pip")["data"]["stdout"], "x\n");
    let home = std::fs::read_dir(own.fixture.state().join("homes")).unwrap().next().unwrap().unwrap().path();
    let owner = |path: &std::path::Path| std::fs::metadata(path).unwrap().uid();
    assert_eq!(owner(&home.join("kept/npm/mark")), owner(&own.fixture.workspace()));
}

#[test]
fn where_namespaces_are_refused_caches_are_kept_and_nothing_else() {
    let own = Refusing::new(&[]);
    let made = own.call(
        "echo x > ~/.npm/mark; echo gone > ~/.bashrc; mkdir -p ~/go/pkg/mod; cat ~/.npm/mark ~/.bashrc",
    );
    assert_eq!(made["data"]["stdout"], "x\ngone\n", "{made:#}");
    assert!(made["meta"]["sandbox"].to_string().contains("home:caches_kept"), "{made:#}");
    let again = own.call("cat ~/.npm/mark; ls -d ~/go/pkg/mod/; cat ~/.bashrc; ls ~/.kept/..");
    let seen = again["data"]["stdout"].as_str().unwrap();
    assert!(seen.starts_with("x\n") && seen.contains("go/pkg/mod/") && !seen.contains("gone"), "{again:#}");
    assert_eq!(seen.lines().count(), 2, "nothing around the caches is listed: {again:#}");
}
