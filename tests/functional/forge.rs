//! Real programs use a login at a forge that they never see: what reads passes, and what writes asks
//! with what it would do.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::Fixture;
use crate::https::Https;
use crate::security::placeholders::{OWN, SECRET, configure};
use crate::server::Server;

pub(super) struct World {
    pub(super) fixture: Fixture,
    pub(super) https: Https,
}

impl World {
    /// Builds a forge with the repository `site`, and a clone of it in the workspace with three new
    /// commits on the branch `agent/fix`.
    pub(super) fn new() -> Self {
        let fixture = Fixture::new().with_vault();
        let served = fixture.outside().join("served");
        std::fs::create_dir_all(served.join("git")).unwrap();
        let https = Https::serving(&served, &[OWN]);
        *https.credentials.lock() = Some(format!("me:{SECRET}"));
        configure(&fixture, &https.authority, https.port, &[]);
        let mark = ["vault", "set", "api_key", "--login", "git", "--user", "me"];
        let marked = fixture.run_with_input(&mark, SECRET.as_bytes());
        assert_eq!(marked.code, 0, "{}", marked.stderr);
        let world = Self { fixture, https };
        world.git("served/git", &["init", "-q", "--bare", "-b", "main", "site.git"]);
        let clone = world.clone_path().display().to_string();
        world.git(".", &["init", "-q", "-b", "main", &clone]);
        world.commit(1);
        world.git(&clone, &["push", "-q", &world.bare(), "main"]);
        world.git(&clone, &["switch", "-q", "-c", "agent/fix"]);
        (0..3).for_each(|number| world.commit(number));
        world
    }

    pub(super) fn bare(&self) -> String {
        self.fixture.outside().join("served/git/site.git").display().to_string()
    }

    pub(super) fn clone_path(&self) -> PathBuf {
        self.fixture.workspace().join("clone")
    }

    /// Runs git outside of a cell, in a folder.
    pub(super) fn git(&self, folder: &str, arguments: &[&str]) -> String {
        let said = Command::new("git")
            .args(["-c", "user.name=me", "-c", "user.email=me@example.com", "-c", "commit.gpgsign=false"])
            .args(arguments)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("HOME", self.fixture.outside())
            .current_dir(self.fixture.outside().join(folder))
            .output()
            .unwrap();
        assert!(said.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&said.stderr));
        String::from_utf8(said.stdout).unwrap()
    }

    fn commit(&self, number: usize) {
        let clone = self.clone_path();
        std::fs::write(clone.join("file"), format!("{number}\n")).unwrap();
        self.git(&clone.display().to_string(), &["add", "file"]);
        self.git(&clone.display().to_string(), &["commit", "-q", "--allow-empty", "-m", "a change"]);
    }

    /// Returns the names of the branches at the forge, each with its commit.
    pub(super) fn branches(&self) -> String {
        self.git(&self.bare(), &["for-each-ref", "--format=%(refname:short) %(objectname)"])
    }

    pub(super) fn head(&self) -> String {
        self.git(&self.clone_path().display().to_string(), &["rev-parse", "HEAD"]).trim().to_owned()
    }

    pub(super) fn trusting(&self, mut command: Command) -> Command {
        command.env("SSL_CERT_FILE", self.fixture.outside().join("authority.crt"));
        command
    }

    fn arguments(&self, line: &str) -> Value {
        let at = format!("{OWN}:{}", self.https.port);
        json!({"command": format!("FORGE=https://me:$api_key@{at}; API=https://{at}; cd clone; {line}"), "timeout": 120})
    }

    /// Makes a call that nobody can be asked about.
    fn shell(&self, line: &str) -> Value {
        self.call(&self.arguments(line))
    }

    /// Runs a command in a cell, with these arguments of `shell_execute`.
    pub(super) fn call(&self, arguments: &Value) -> Value {
        let arguments = arguments.to_string();
        let ran = self.trusting(self.fixture.command()).args(["call", "shell_execute", &arguments]).output();
        let result: Value = serde_json::from_slice(&ran.unwrap().stdout).unwrap();
        assert_eq!(result["ok"], true, "{result:#}");
        result
    }

    pub(super) fn questions(&self) -> Vec<Value> {
        self.fixture.run(&["approvals", "list", "--all", "--json"]).json().as_array().unwrap().clone()
    }

    /// Returns the audit's decisions on requests: decision, rule, action.
    pub(super) fn decided(&self) -> Vec<(String, String, String)> {
        let exported = self.fixture.run(&["audit", "export"]).stdout;
        let rows = exported.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        rows.filter_map(|row| {
            let plan = match &row["plan"] {
                Value::String(text) => serde_json::from_str(text).unwrap(),
                plan => plan.clone(),
            };
            (plan["arguments"]["way"] == "request")
                .then(|| (text(&row["decision"]), text(&row["rule"]), text(&plan["effects"][0]["what"])))
        })
        .collect()
    }

    #[track_caller]
    pub(super) fn works(&self, arguments: &[&str]) {
        let run = self.fixture.run(arguments);
        assert_eq!(run.code, 0, "{arguments:?}: {}{}", run.stdout, run.stderr);
    }

    /// Adds these rules to the profile.
    fn rules(&self, git_push: &str) {
        let file = self.fixture.home().join(".config/handfast/config.yaml");
        let profile = std::fs::read_to_string(&file).unwrap();
        std::fs::write(file, format!("{profile}    git_push: {git_push}\n")).unwrap();
    }
}

pub(super) fn printed(result: &Value) -> String {
    let data = &result["data"];
    format!("{}{}", data["stdout"].as_str().unwrap_or_default(), data["stderr"].as_str().unwrap_or_default())
}

/// Returns the id of the approval that the result names, and that the program printed as well.
#[track_caller]
pub(super) fn id_of(result: &Value) -> String {
    let warnings = result["meta"]["warnings"].to_string();
    let (_, rest) = warnings.split_once(" approvals approve ").unwrap_or_else(|| panic!("{result:#}"));
    let id: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
    assert!(printed(result).contains(&id), "{result:#}");
    id
}

const PUSH: &str = "git push $FORGE/git/site.git agent/fix";

#[test]
fn fetching_passes_in_every_version_of_the_protocol_and_asks_nothing() {
    let world = World::new();
    for version in 0..3 {
        let message = format!("from elsewhere {version}");
        let commit = world.git(&world.bare(), &["commit-tree", "main^{tree}", "-p", "main", "-m", &message]);
        world.git(&world.bare(), &["update-ref", "refs/heads/main", commit.trim()]);
        let line = format!(
            "git -c protocol.version={version} fetch $FORGE/git/site.git main:fetched{version} && \
             git -c protocol.version={version} ls-remote $FORGE/git/site.git && git log -1 --format=%s fetched{version}"
        );
        let fetched = world.shell(&line);
        assert!(printed(&fetched).contains(&message), "{fetched:#}");
        assert!(fetched["meta"]["warnings"].is_null(), "{fetched:#}");
    }
    assert!(world.questions().is_empty());
    assert!(world.decided().is_empty());
    let received = String::from_utf8_lossy(&world.https.received.lock()).into_owned();
    assert_eq!(received.matches("POST /git/site.git/git-upload-pack").count(), 5);
    assert!(received.contains("command=fetch") && received.contains("want "));
}

#[test]
fn a_push_asks_with_its_refs_and_passes_once_after_a_yes() {
    let world = World::new();
    let before = world.branches();
    let refused = world.shell(PUSH);
    let id = id_of(&refused);
    assert!(printed(&refused).contains("remote: handfast: this needs an approval"), "{refused:#}");
    assert!(printed(&refused).contains("refused by handfast"), "{refused:#}");
    let asked = world.questions();
    let action = "push 3 commits to `agent/fix` (new) of git/site";
    assert_eq!((asked.len(), &asked[0]["id"]), (1, &json!(id)), "{asked:#?}");
    let effects = asked[0]["effects"].to_string();
    assert!(effects.contains(&format!("at {OWN}:{}: {action}, from /", world.https.port)), "{effects}");
    assert_eq!((world.branches(), asked[0]["offers"].as_array().unwrap().len()), (before.clone(), 0));
    let receives = || {
        world
            .https
            .asked
            .lock()
            .iter()
            .filter(|line| line.contains("POST") && line.contains("receive-pack"))
            .count()
    };
    assert_eq!(receives(), 0, "the refused push never left");

    world.works(&["approvals", "approve", &id]);
    let passed = world.shell(PUSH);
    assert_eq!(passed["data"]["exit_code"], 0, "{passed:#}");
    assert_eq!(world.branches(), format!("agent/fix {}\n{before}", world.head()));
    assert!(passed["meta"]["reached"].to_string().contains(OWN), "{passed:#}");
    let decided = world.decided();
    let as_text = |(decision, rule, what): &(String, String, String)| format!("{decision} {rule} {what}");
    assert!(decided[0].0 == "deny" && decided[0].2 == action, "{decided:#?}");
    assert_eq!(as_text(&decided[1]), format!("pass approved {action}"), "{decided:#?}");

    // Another push, and a deletion, need another yes.
    world.commit(4);
    assert_ne!(id_of(&world.shell(PUSH)), id);
    let effects = world.questions().last().unwrap()["effects"].to_string();
    assert!(
        world.questions().iter().any(|question| question["effects"]
            .to_string()
            .contains("push 1 commit to `agent/fix` of git/site")),
        "{effects}"
    );
    id_of(&world.shell("git push $FORGE/git/site.git :main"));
    assert!(
        world
            .questions()
            .iter()
            .any(|question| question["effects"].to_string().contains("delete `main` of git/site"))
    );
    id_of(&world.shell("git reset -q --hard HEAD~3; git push -f $FORGE/git/site.git agent/fix"));
    let forced = "push 0 commits to `agent/fix` (may drop commits that are there) of git/site";
    assert!(
        world.questions().iter().any(|question| question["effects"].to_string().contains(forced)),
        "{:#?}",
        world.questions()
    );
    world.works(&["audit", "verify"]);
}

#[test]
fn a_push_that_a_human_denies_leaves_the_forge_unchanged() {
    let world = World::new();
    let before = world.branches();
    let id = id_of(&world.shell(PUSH));
    world.works(&["approvals", "deny", &id]);
    let denied = world.shell(PUSH);
    assert!(printed(&denied).contains("said no") && denied["data"]["exit_code"] != 0, "{denied:#}");
    assert_eq!(world.branches(), before);
}

#[test]
fn a_push_waits_for_the_answer_of_a_client_with_forms() {
    let world = World::new();
    let before = world.branches();
    let mut server = Server::that_shows_forms(world.trusting(world.fixture.asking_command()));
    let (question, result) = server.asked("shell_execute", world.arguments(PUSH), "deny");
    assert!(question.contains("push 3 commits to `agent/fix` (new) of git/site"), "{question}");
    assert!(result.to_string().contains("said no"), "{result:#}");
    assert_eq!(world.branches(), before);
    let (_, result) = server.asked("shell_execute", world.arguments(PUSH), "allow once");
    assert_ne!(world.branches(), before, "{result:#}");
    server.end();
}

#[test]
fn rules_let_branches_pass_and_refuse_others_at_once() {
    let world = World::new();
    world.rules("{allow: ['agent/*'], deny: [main]}");
    let before = world.branches();
    let passed = world.shell(PUSH);
    assert_eq!(passed["data"]["exit_code"], 0, "{passed:#}");
    assert!(world.branches().starts_with("agent/fix "));
    let denied = world.shell("git push $FORGE/git/site.git HEAD:main");
    assert!(printed(&denied).contains("this push is denied by git_push.deny: main"), "{denied:#}");
    assert!(denied["meta"]["warnings"].to_string().contains("git_push.deny: main"), "{denied:#}");
    assert!(world.questions().is_empty());
    let decided = world.decided();
    let rules: Vec<&str> = decided.iter().map(|(_, rule, _)| rule.as_str()).collect();
    assert!(
        rules[0].starts_with("git_push.allow: agent/* (profile normal, ")
            && rules[0].contains("config.yaml:"),
        "{rules:?}"
    );
    assert!(rules[1].contains("git_push.deny: main"), "{rules:?}");
    // A branch on no list, several branches of which one is on none, and a deletion ask.
    for line in ["HEAD:other", "HEAD:agent/a HEAD:other", ":agent/fix"] {
        id_of(&world.shell(&format!("git push $FORGE/git/site.git {line}")));
    }
    assert!(world.branches().ends_with(&before) && !world.branches().contains("other"));
}

#[test]
fn a_large_push_is_judged_by_its_beginning_and_arrives_whole() {
    let world = World::new();
    let mut noise = vec![0; 3 * 1024 * 1024];
    let mut state = 1_u64;
    for byte in &mut noise {
        // Xorshift: bytes that do not compress.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        *byte = state.to_le_bytes()[3];
    }
    let clone = world.clone_path();
    std::fs::write(clone.join("noise"), &noise).unwrap();
    world.git(&clone.display().to_string(), &["add", "noise"]);
    world.commit(9);
    // With a login, git uses HTTP/1.1 too: over HTTP/2, git itself can hang on a loaded machine.
    let push = PUSH.replacen("git", "git -c http.version=HTTP/1.1", 1);
    let refused = world.shell(&push);
    assert!(printed(&refused).contains("remote: handfast: this needs an approval"), "{refused:#}");
    let id = id_of(&refused);
    assert!(world.questions()[0]["effects"].to_string().contains("push to `agent/fix` (new) of git/site"));
    world.works(&["approvals", "approve", &id]);
    let passed = world.shell(&push);
    assert_eq!(passed["data"]["exit_code"], 0, "{passed:#}");
    world.git(&world.bare(), &["fsck", "--strict"]);
    assert!(world.branches().contains(&format!("agent/fix {}", world.head())));
    let received = String::from_utf8_lossy(&world.https.received.lock()).into_owned();
    assert!(received.to_lowercase().contains("transfer-encoding: chunked"), "it was sent in chunks");
}

#[test]
fn a_fetch_that_the_server_redirects_to_a_push_asks() {
    let world = World::new();
    let before = world.branches();
    let line = "git -c http.followRedirects=true fetch $FORGE/moved/site.git main:moved";
    let redirected = world.shell(line);
    assert_ne!(redirected["data"]["exit_code"], 0, "{redirected:#}");
    let warnings = redirected["meta"]["warnings"].to_string();
    assert!(warnings.contains("POST /git/site.git/git-receive-pack (not understood: "), "{redirected:#}");
    assert_eq!(world.questions().len(), 1);
    let asked = world.https.asked.lock();
    assert!(asked.iter().any(|line| line.contains("POST /moved/site.git/git-upload-pack")), "{asked:?}");
    assert!(!asked.iter().any(|line| line.contains("receive-pack")), "{asked:?}");
    drop(asked);
    assert_eq!(world.branches(), before);
}

#[test]
fn queries_of_an_api_pass_and_its_changes_ask_by_their_names() {
    let world = World::new();
    let ask = |body: &str| {
        let headers = "-H \"Authorization: Bearer $api_key\" -H 'Content-Type: application/json'";
        format!("curl -sS {headers} -d '{body}' $API/graphql")
    };
    let query = ask(r#"{"query": "query { viewer { login } } # mutation"}"#);
    assert_eq!(printed(&world.shell(&query)), "{\"done\":1}\n");
    assert_eq!(printed(&world.shell("curl -sS -u me:$api_key $API/repos/me/site/pulls")), "{\"done\":1}\n");
    assert!(world.questions().is_empty());
    world.https.received.lock().clear();
    for (line, action) in [
        (
            ask(
                r#"{"query": "mutation($i: I!) { a: createPullRequest(input: $i) { id } }", "variables": {}}"#,
            ),
            "GraphQL mutation createPullRequest",
        ),
        (ask(r#"[{"query": "{a}"}]"#), "POST /graphql (not understood: its body is a batch)"),
        (
            "curl -sS -u me:$api_key -d '{\"body\": \"hello\"}' $API/repos/me/site/issues/1/comments"
                .to_owned(),
            "POST /repos/me/site/issues/1/comments",
        ),
        ("curl -sS -u me:$api_key -X DELETE $API/repos/me/site".to_owned(), "DELETE /repos/me/site"),
        (
            "curl -sS -u me:$api_key -H 'X-HTTP-Method-Override: DELETE' $API/repos/me/site".to_owned(),
            "GET /repos/me/site (not understood: its header x-http-method-override may turn it into another request)",
        ),
    ] {
        let refused = world.shell(&line);
        let id = id_of(&refused);
        assert!(printed(&refused).starts_with("handfast: this needs an approval"), "{refused:#}");
        assert!(printed(&refused).contains(action), "{refused:#}");
        assert!(world.https.received.lock().is_empty(), "{line}");
        world.works(&["approvals", "approve", &id]);
        assert_eq!(printed(&world.shell(&line)), "{\"done\":1}\n", "{line}");
        let received = std::mem::take(&mut *world.https.received.lock());
        let key = if line.contains("Bearer") { SECRET } else { "bWU6c2stbGl2ZS0wMTIzNDU2Nzg5LWFiY2RlZg" };
        assert!(String::from_utf8_lossy(&received).contains(key), "{line}");
    }
}

#[test]
fn one_yes_is_for_one_request_and_not_for_the_next_one() {
    let world = World::new();
    let post = "curl -sS -u me:$api_key -d x $API/repos/me/site/labels";
    let twice = format!("{post}; {post}");
    let id = id_of(&world.shell(&twice));
    assert_eq!(world.questions().len(), 1);
    world.works(&["approvals", "approve", &id]);
    let result = world.shell(&twice);
    assert!(printed(&result).starts_with("{\"done\":1}\nhandfast: this needs an approval"), "{result:#}");
    // Twelve different actions: ten are in the question, and the others are refused.
    let many = "for n in 1 2 3 4 5 6 7 8 9 10 11 12; do curl -sS -u me:$api_key -d x $API/repos/me/site/labels/$n; done";
    let refused = world.shell(many);
    assert_eq!(printed(&refused).matches("more than 10 actions").count(), 2, "{refused:#}");
    let effects =
        world.questions().iter().map(|question| question["effects"].as_array().unwrap().len()).max();
    assert_eq!(effects, Some(10));
}

#[test]
fn a_package_is_published_by_its_name() {
    let world = World::new();
    std::fs::write(world.clone_path().join("package.json"), r#"{"name": "left-pad", "version": "1.0.0"}"#)
        .unwrap();
    let line = "npm config set //${API#https://}/:_authToken $api_key && npm publish --registry $API/";
    let refused = world.shell(line);
    id_of_warning(&refused);
    assert!(refused["meta"]["warnings"].to_string().contains("publish the package left-pad"), "{refused:#}");
    assert!(!world.https.asked.lock().iter().any(|line| line.starts_with("PUT")));
}

/// Returns the id of the approval that the result names.
#[track_caller]
pub(super) fn id_of_warning(result: &Value) -> String {
    let warnings = result["meta"]["warnings"].to_string();
    let (_, rest) = warnings.split_once(" approvals approve ").unwrap_or_else(|| panic!("{result:#}"));
    rest.chars().take_while(char::is_ascii_alphanumeric).collect()
}

#[test]
fn a_secret_that_is_no_login_is_used_as_before() {
    let world = World::new();
    world.works(&["vault", "remove", "api_key"]);
    let stored = world.fixture.run_with_input(&["vault", "set", "api_key", "--host", OWN], SECRET.as_bytes());
    assert_eq!(stored.code, 0, "{}", stored.stderr);
    let pushed = world.shell(PUSH);
    assert_eq!(pushed["data"]["exit_code"], 0, "{pushed:#}");
    assert!(world.questions().is_empty() && world.decided().is_empty());
    assert!(world.branches().starts_with("agent/fix "));
}
