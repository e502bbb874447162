//! Resources that outlive a call: their list, and their end with the runtime.

use std::process::Command;

use handfast::tool::{Owner, Resource};
use handfast::{Mode, Runtime};
use serde_json::{Value, json};
use testkit::web::Server;

use crate::functional::knowledge::by_subject;
use crate::functional::load::wait;
use crate::harness::Fixture;
use crate::http::Up;

/// Variable with the address of a server for vectors, set in a process that runs one test alone.
const ALONE: &str = "HANDFAST_TEST_ALONE";

/// Returns the names of this process's threads.
fn threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    // A thread may end between the two looks.
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
    let mut names: Vec<String> = names.map(|name| name.trim().to_owned()).collect();
    names.sort_unstable();
    names
}

/// Makes calls after which every kind of resource exists.
fn use_everything(runtime: &Runtime, tokio: &tokio::runtime::Runtime) {
    let call = |tool: &str, arguments: Value| {
        let result = tokio.block_on(async { runtime.call(tool, arguments).await });
        assert!(result.ok(), "{tool}: {result:?}");
    };
    call("memory", json!({"action": "create", "key": "berth", "message": "Mooring: bow line first."}));
    call("memory", json!({"action": "search", "message": "how to tie up a ship"}));
    call("knowledge_search", json!({"query": "how to tie up a ship"}));
    call("shell_execute", json!({"command": "touch made; sleep 1000", "background": true}));
}

#[test]
fn no_thread_of_a_runtime_is_left_after_its_shutdown_or_its_drop() {
    // The threads of other tests would be counted too, so this test runs itself alone.
    let Some(endpoint) = std::env::var_os(ALONE) else {
        let server = Server::http(by_subject);
        let (_, module) = module_path!().split_once("::").unwrap();
        let this = format!("{module}::no_thread_of_a_runtime_is_left_after_its_shutdown_or_its_drop");
        let program = std::env::current_exe().unwrap();
        let url = server.url("/v1/embeddings");
        let run = Command::new(program).args(["--exact", &this]).env(ALONE, url).output().unwrap();
        let output = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success() && output.contains("1 passed"), "{output}");
        return;
    };
    for is_shut_down in [true, false] {
        let sections: String = (0..100).map(|number| format!("# Ship {number}\n\nA boat.\n\n")).collect();
        let fixture = Fixture::with_files(&[("knowledge/ships.md", &sections)]);
        let folder = fixture.home().join(".config/handfast");
        std::fs::create_dir_all(&folder).unwrap();
        let server = format!("embeddings:\n  endpoint: {}\n  model: m\n", endpoint.to_str().unwrap());
        std::fs::write(folder.join("config.yaml"), server).unwrap();
        let before = threads();
        let runtime = fixture.builder().mode(Mode::FullAuto).allow_host("api.example.com").build().unwrap();
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        use_everything(&runtime, &tokio);
        let while_used = threads();
        for name in ["session", "egress", "embeddings"] {
            assert!(while_used.iter().any(|thread| thread == name), "the control: {name} in {while_used:?}");
        }
        let resources = runtime.resources();
        let kinds: Vec<&str> = resources.iter().map(|resource| resource.kind).collect();
        for kind in ["background command", "network", "thread"] {
            assert!(kinds.contains(&kind), "{kind}: {resources:#?}");
        }
        if is_shut_down {
            tokio.block_on(runtime.shutdown()).unwrap();
        } else {
            drop(runtime);
        }
        drop(tokio);
        // The kernel lists a thread a moment longer than the join of the thread takes.
        wait(|| {
            let now = threads();
            (now != before).then(|| format!("after the shutdown ({is_shut_down}): {now:?}, not {before:?}"))
        });
    }
}

#[test]
fn a_background_command_is_listed_with_its_owner_and_its_output_without_secrets() {
    let fixture = Fixture::new().with_vault();
    fixture.store("api_key", "a-secret-of-some-length");
    let runtime = fixture.builder().mode(Mode::FullAuto).build().unwrap();
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let command = "echo written; touch made; echo a-secret-of-some-length > /dev/null; sleep 1000";
    let call = runtime.call("shell_execute", json!({"command": command, "background": true}));
    let result = tokio.block_on(async { call.await });
    assert!(result.ok(), "{result:?}");
    let resources = runtime.resources();
    let of_commands = |resource: &&Resource| resource.kind == "background command";
    let listed = resources.iter().find(of_commands).unwrap();
    assert!(matches!(listed.owner, Owner::Session(_)), "{listed:?}");
    assert!(listed.description.contains("touch made"), "{listed:?}");
    assert!(!listed.description.contains("a-secret"), "{listed:?}");
    assert_eq!(listed.usage.threads, 1);
    tokio.block_on(runtime.shutdown()).unwrap();
}

#[test]
fn the_knowledge_watcher_is_in_the_audit_as_what_it_is() {
    let fixture = Fixture::with_files(&[("knowledge/a.md", "# Mooring\n\nBow line first.\n")]);
    let _up = Up::start(&fixture, &[]);
    let doors = || -> Vec<Value> {
        let rows = fixture.recorded();
        rows.into_iter()
            .filter(|row| row["tool"] == "knowledge_index")
            .map(|mut row| row["door"].take())
            .collect()
    };
    wait(|| doors().is_empty().then(|| "nothing is indexed".to_owned()));
    assert!(doors().iter().all(|door| door == "knowledge-watcher"), "{:?}", doors());
}
