//! `handfast login` for forges and registries: the token is checked and stored, and unmodified git, gh
//! and npm use it without seeing it.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::{Value, json};

use super::forge::{World, id_of, id_of_warning, printed};
use crate::harness::{Fixture, Run};
use crate::security::placeholders::{OWN, SECRET};

impl World {
    /// Builds a world whose user is not logged in, with the rules of nothing.
    fn logged_out() -> Self {
        let world = Self::new();
        world.works(&["vault", "remove", "api_key"]);
        std::fs::write(world.configuration(), "# mine\n").unwrap();
        world
    }

    fn configuration(&self) -> std::path::PathBuf {
        self.fixture.home().join(".config/handfast/config.yaml")
    }

    fn place(&self) -> String {
        format!("{OWN}:{}", self.https.port)
    }

    /// Runs `handfast login` with this on its standard input.
    fn login(&self, arguments: &[&str], input: &str) -> Run {
        let mut command = self.trusting(self.fixture.command());
        command.arg("login").args(arguments);
        Fixture::run_command(command, input.as_bytes())
    }

    #[track_caller]
    fn logs_in(&self, arguments: &[&str], input: &str) {
        let run = self.login(arguments, input);
        assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
        assert!(!format!("{}{}", run.stdout, run.stderr).contains(SECRET), "{}", run.stderr);
    }

    fn vault(&self) -> Vec<Value> {
        self.fixture.run(&["vault", "list", "--json"]).json().as_array().unwrap().clone()
    }

    fn in_the_clone(&self, line: &str) -> Value {
        self.call(&json!({"command": format!("cd clone; {line}"), "timeout": 120}))
    }
}

#[test]
fn unmodified_git_fetches_and_asks_before_it_pushes() {
    let world = World::logged_out();
    let place = world.place();
    world.logs_in(&["host", &place, "--kind", "github", "--yes"], &format!("{SECRET}\n"));
    let stored = &world.vault()[0];
    assert_eq!(stored["login"], json!({"kind": "github", "user": "me", "port": world.https.port}));
    assert_eq!(stored["hosts"], json!([OWN]));
    let written = std::fs::read_to_string(world.configuration()).unwrap();
    assert!(written.starts_with("# mine\n") && written.contains(&place), "{written}");

    // The first remote is reached over HTTPS, the second names SSH.
    let remotes = format!(
        "git remote add web https://{place}/git/site.git; git remote add ssh git@{OWN}:git/site.git; \
         git fetch web && git ls-remote ssh"
    );
    let read = world.in_the_clone(&remotes);
    assert_eq!(read["data"]["exit_code"], 0, "{read:#}");
    assert!(printed(&read).contains("refs/heads/main") && world.questions().is_empty(), "{read:#}");
    let before = world.branches();
    let push = "git push ssh agent/fix";
    let id = id_of(&world.in_the_clone(push));
    assert_eq!(world.branches(), before);
    world.works(&["approvals", "approve", &id]);
    let pushed = world.in_the_clone(push);
    assert_eq!(pushed["data"]["exit_code"], 0, "{pushed:#}");
    assert!(world.branches().contains("agent/fix"));
    // The cell never had the token.
    let fill =
        format!("env; git config --list; printf 'protocol=https\\nhost={place}\\n\\n' | git credential fill");
    let shown = world.in_the_clone(&fill);
    assert!(
        printed(&shown).contains("password=handfast_secret_") && !printed(&shown).contains(SECRET),
        "{shown:#}"
    );

    world.works(&["logout", "host", &place]);
    assert!(world.vault().is_empty());
    let after = world.in_the_clone("git fetch web");
    assert_ne!(after["data"]["exit_code"], 0, "{after:#}");
}

#[test]
fn gh_reads_and_asks_before_it_writes() {
    let world = World::logged_out();
    let place = world.place();
    world.logs_in(&["github", "--host", &place, "--yes"], SECRET);
    let read = world.in_the_clone("gh api user --jq .login");
    assert_eq!(printed(&read).trim(), "me", "{read:#}");
    assert!(world.questions().is_empty());
    let query = "gh api graphql -f query='query { viewer { login } }'";
    assert!(world.in_the_clone(query)["meta"]["warnings"].is_null());
    let create = "gh api repos/me/site/pulls -f title=t -f head=agent/fix -f base=main";
    let refused = world.in_the_clone(create);
    let id = id_of_warning(&refused);
    assert!(refused["meta"]["warnings"].to_string().contains("me/site"), "{refused:#}");
    assert!(!world.https.asked.lock().iter().any(|line| line.starts_with("POST /api/v3/repos")));
    world.works(&["approvals", "approve", &id]);
    let passed = world.in_the_clone(create);
    assert!(world.https.asked.lock().iter().any(|line| line.starts_with("POST /api/v3/repos")), "{passed:#}");
}

#[test]
fn gh_opens_a_pull_request_after_a_yes() {
    let world = World::logged_out();
    let place = world.place();
    world.logs_in(&["github", "--host", &place, "--yes"], SECRET);
    let create = format!("gh pr create -R {place}/me/site --head agent/fix --base main --title t --body b");
    let refused = world.in_the_clone(&create);
    let id = id_of_warning(&refused);
    assert!(refused["meta"]["warnings"].to_string().contains("createPullRequest"), "{refused:#}");
    let mutations = || String::from_utf8_lossy(&world.https.received.lock()).matches("mutation").count();
    assert_eq!(mutations(), 0, "the refused request never left");
    world.works(&["approvals", "approve", &id]);
    let passed = world.in_the_clone(&create);
    assert!(printed(&passed).contains("https://forge.example/me/site/pull/1"), "{passed:#}");
    assert_eq!((mutations(), world.questions().len()), (1, 1));
}

#[test]
fn npm_publishes_after_a_yes_without_any_configuration() {
    let world = World::logged_out();
    let place = world.place();
    world.logs_in(&["host", &place, "--kind", "npm", "--yes"], SECRET);
    std::fs::write(world.clone_path().join("package.json"), r#"{"name": "left-pad", "version": "1.0.0"}"#)
        .unwrap();
    let publish = format!("npm publish --registry https://{place}/");
    let refused = world.in_the_clone(&publish);
    let id = id_of_warning(&refused);
    assert!(refused["meta"]["warnings"].to_string().contains("publish the package left-pad"), "{refused:#}");
    world.works(&["approvals", "approve", &id]);
    let passed = world.in_the_clone(&publish);
    assert_eq!(passed["data"]["exit_code"], 0, "{passed:#}");
    let received = String::from_utf8_lossy(&world.https.received.lock()).into_owned();
    assert!(received.contains(&format!("Bearer {SECRET}")), "the proxy puts the token in");
}

#[test]
fn a_token_that_the_forge_does_not_accept_is_not_stored() {
    let world = World::logged_out();
    let place = world.place();
    for (kind, input, why) in [
        ("github", "a-wrong-token-0123456789", "wrong, expired or revoked"),
        ("npm", "a-wrong-token-0123456789", "wrong, expired or revoked"),
        ("github", "", "there is no token"),
        ("github", "two words of a token", "one line of printable"),
        ("git", "a-token-without-user-1", "--user"),
    ] {
        let refused = world.login(&["host", &place, "--kind", kind, "--yes"], input);
        assert!(refused.code != 0 && refused.stderr.contains(why), "{kind}: {}", refused.stderr);
        assert!(input.is_empty() || !refused.stderr.contains(input), "{}", refused.stderr);
    }
    let nobody = world.login(&["host", "127.0.0.1:1", "--kind", "github", "--yes"], SECRET);
    assert_eq!(nobody.code, 1, "{}", nobody.stderr);
    // A secret that is no login is not replaced.
    world.fixture.run_with_input(&["vault", "set", "mine"], b"a value of my own");
    let taken = world.login(&["host", &place, "--kind", "github", "--name", "mine", "--yes"], SECRET);
    assert!(taken.code == 2 && taken.stderr.contains("--name"), "{}", taken.stderr);
    assert_eq!(world.vault().len(), 1);
    assert_eq!(std::fs::read_to_string(world.configuration()).unwrap(), "# mine\n");
}

#[test]
fn without_a_yes_the_configuration_stays_and_the_rules_are_told() {
    let world = World::logged_out();
    let place = world.place();
    let run = world.login(&["host", &place, "--kind", "github"], SECRET);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains(&format!("allowed_hosts: [\"{place}\"]")), "{}", run.stderr);
    assert!(run.stderr.contains("allowed_secrets: [\""), "{}", run.stderr);
    assert_eq!(std::fs::read_to_string(world.configuration()).unwrap(), "# mine\n");
    let fetched = world.in_the_clone(&format!("git ls-remote https://{place}/git/site.git"));
    assert_ne!(fetched["data"]["exit_code"], 0, "{fetched:#}");
}

#[test]
fn a_token_is_taken_from_git_and_gh_of_the_user_and_never_by_programs_of_a_repository() {
    let world = World::logged_out();
    let (place, home) = (world.place(), world.fixture.home());
    std::fs::create_dir_all(home.join(".config/gh")).unwrap();
    let hosts = format!("{place}:\n    oauth_token: {SECRET}\n    user: me\n    git_protocol: https\n");
    std::fs::write(home.join(".config/gh/hosts.yml"), hosts).unwrap();
    world.logs_in(&["github", "--host", &place, "--from", "gh", "--yes", "--name", "of_gh"], "");

    let helper = format!("!f() {{ echo username=me; echo password={SECRET}; }}; f");
    let program = world.fixture.outside().join("evil");
    let evidence = world.fixture.outside().join("evidence");
    std::fs::write(&program, format!("#!/bin/sh\necho run >> {}\n", evidence.display())).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let repository = world.fixture.workspace().display().to_string();
    world.git(&repository, &["init", "-q"]);
    world.git(&repository, &["config", "credential.helper", &program.display().to_string()]);
    // Positive control: in the repository itself, git runs the helper.
    std::fs::write(home.join(".gitconfig"), format!("[credential]\n\thelper = \"{helper}\"\n")).unwrap();
    let fill = format!("printf 'protocol=https\\nhost={place}\\n\\n' | git -C {repository} credential fill");
    let mut control = Command::new("sh");
    control.args(["-c", &fill]).env("HOME", world.fixture.outside()).env("GIT_TERMINAL_PROMPT", "0");
    control.output().unwrap();
    assert!(evidence.exists());
    std::fs::remove_file(&evidence).unwrap();
    world.logs_in(&["host", &place, "--kind", "git", "--from", "git", "--yes", "--name", "of_git"], "");
    assert!(!evidence.exists(), "the repository's helper ran");
    let names: Vec<String> = world.vault().iter().map(|entry| entry["name"].to_string()).collect();
    assert_eq!(names, ["\"of_gh\"", "\"of_git\""]);

    // Without a yes, nothing is taken.
    let refused = world.login(&["host", &place, "--kind", "git", "--from", "git", "--name", "other"], "");
    assert_eq!((refused.code, world.vault().len()), (1, 2), "{}", refused.stderr);
}

#[test]
fn a_code_in_the_browser_gives_a_token_where_a_client_is_configured() {
    let world = World::logged_out();
    let place = world.place();
    let arguments = ["github", "--host", &place, "--from", "device", "--yes"];
    let refused = world.login(&arguments, "");
    assert!(refused.code == 2 && refused.stderr.contains("login_clients"), "{}", refused.stderr);
    std::fs::write(world.configuration(), format!("login_clients: {{\"{place}\": Iv1.test}}\n")).unwrap();
    let run = world.login(&arguments, "");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(run.stdout, "https://forge.example/device\n");
    assert!(run.stderr.contains("WDJB-MJHT") && !run.stderr.contains(SECRET), "{}", run.stderr);
    assert!(!world.vault()[0]["expires_at"].is_null(), "the token lasts 8 hours");
    let received = String::from_utf8_lossy(&world.https.received.lock()).into_owned();
    assert!(received.contains("client_id=Iv1.test") && received.contains("device_code=d1"), "{received}");
}
