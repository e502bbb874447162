//! The code graph through the whole program: always that of the files as they are, without what is denied, and
//! within its limits.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Fixture, eventually};
use crate::http::Up;

const RUST: &str = "pub fn area(side: u32) -> u32 {\n    side * side\n}\n\npub fn double(side: u32) -> u32 {\n    area(side) * 2\n}\n";
const PYTHON: &str =
    "import shapes\n\ndef report():\n    return shapes.total()\n\ndef main():\n    report()\n";
const SHAPES: &str = "def total():\n    return 1\n";
const TYPESCRIPT: &str =
    "import { price } from './price';\n\nexport function cart(): number {\n  return price() + price();\n}\n";
const PRICE: &str = "export function price(): number {\n  return 3;\n}\n";

fn repository() -> Fixture {
    Fixture::with_files(&[
        ("src/lib.rs", RUST),
        ("tools/report.py", PYTHON),
        ("tools/shapes.py", SHAPES),
        ("web/cart.ts", TYPESCRIPT),
        ("web/price.ts", PRICE),
    ])
}

/// Returns the values of a column.
fn column(answer: &Value, name: &str) -> Vec<String> {
    let rows = answer["data"]["rows"].as_array().unwrap_or_else(|| panic!("{answer:#}"));
    rows.iter().map(|row| row[name].as_str().map_or_else(|| row[name].to_string(), str::to_owned)).collect()
}

fn callers(server: &Up, name: &str) -> Vec<String> {
    let query = "MATCH (f:Function {name: $name})<-[:CALLS]-(g) RETURN g.name AS caller ORDER BY caller";
    column(&server.call("graph_query", json!({"query": query, "params": {"name": name}})), "caller")
}

#[test]
fn three_languages_are_asked_and_an_edit_by_a_tool_is_seen_by_the_next_query() {
    let fixture = repository();
    let server = Up::start(&fixture, &["--mode", "full_auto"]);
    assert_eq!(callers(&server, "area"), ["double"]);
    assert_eq!(callers(&server, "total"), ["report"]);
    assert_eq!(callers(&server, "price"), ["cart"]);
    let edit =
        json!({"path": "src/lib.rs", "edits": [{"old_text": "area(side) * 2", "new_text": "side * 2"}]});
    let edited = server.call("file_edit", edit);
    assert_eq!(edited["ok"], true, "{edited:#}");
    assert_eq!(callers(&server, "area"), Vec::<String>::new());
    // Half of a file: what is whole of it stays.
    fixture.write("tools/report.py", "import shapes\n\ndef report():\n    return shapes.total()\n\ndef ma");
    assert_eq!(callers(&server, "total"), ["report"]);
    assert_eq!(callers(&server, "report"), Vec::<String>::new());
    std::fs::remove_file(fixture.workspace().join("web/cart.ts")).unwrap();
    assert_eq!(callers(&server, "price"), Vec::<String>::new());
    let found =
        server.call("graph_query", json!({"query": "MATCH (f:File) RETURN f.path AS path ORDER BY path"}));
    assert_eq!(column(&found, "path"), ["src/lib.rs", "tools/report.py", "tools/shapes.py", "web/price.ts"]);
    assert_eq!(found["data"]["freshness"]["indexed"], 4, "{found:#}");
}

#[test]
fn the_other_tools_answer_from_the_same_graph() {
    let fixture = repository();
    let impact = fixture.data("code_impact", json!({"file": "tools/shapes.py", "line": 2}));
    assert_eq!(impact["symbol"], "tools/shapes.py#total");
    let ids = impact["affected"].to_string();
    assert!(ids.contains("tools/report.py#report") && ids.contains("tools/report.py#main"), "{impact:#}");
    let map = fixture.data("code_map", json!({"path": "web"}));
    assert!(map["map"].as_str().unwrap().contains("function price :1 (1)"), "{map:#}");
    let schema = fixture.data("graph_schema", json!({}));
    assert!(schema["labels"].as_array().unwrap().iter().any(|one| one["label"] == "Function"), "{schema:#}");
}

#[test]
fn what_a_rule_denies_is_in_no_answer_of_a_graph_that_had_it_before() {
    let fixture = repository();
    fixture.write("tools/hidden_part.py", "import shapes\n\ndef covert():\n    return shapes.total()\n");
    // Another name of the denied file is denied, too.
    let at = |path: &str| fixture.workspace().join(path);
    std::fs::hard_link(at("tools/hidden_part.py"), at("web/second_name.py")).unwrap();
    // Old enough that its time tells whether it has changed.
    let file = std::fs::File::options().append(true).open(at("web/second_name.py")).unwrap();
    file.set_modified(std::time::SystemTime::now() - Duration::from_hours(1)).unwrap();
    let asked = [
        ("graph_query", json!({"query": "MATCH (n) RETURN n"})),
        ("graph_query", json!({"query": "MATCH (n)-[r]->(m) RETURN n, type(r), m"})),
        ("graph_schema", json!({})),
        ("code_map", json!({})),
        ("code_impact", json!({"symbol": "tools/shapes.py#total"})),
    ];
    let server = Up::start(&fixture, &[]);
    let telling = |server: &Up| -> Vec<bool> {
        let all = asked.iter().map(|(tool, arguments)| server.call(tool, arguments.clone()).to_string());
        all.map(|text| text.contains("covert") || text.contains("hidden_part")).collect()
    };
    assert_eq!(telling(&server), [true, true, false, true, true], "the control");
    let count = |server: &Up| {
        let schema = server.call("graph_schema", json!({}));
        (schema["data"]["nodes"].clone(), schema["data"]["freshness"].clone())
    };
    let open = count(&server);
    fixture.write(
        "handfast.yaml",
        "sandbox_config:\n  normal:\n    deny_read_paths: [\"./tools/hidden_part.py\"]\n",
    );
    // One process takes the rules, and still has the graph in memory.
    eventually("the rules", || !telling(&server).contains(&true));
    let closed = count(&server);
    assert_ne!(open, closed);
    std::fs::remove_file(at("web/second_name.py")).unwrap();
    std::fs::remove_file(at("tools/hidden_part.py")).unwrap();
    assert_eq!(count(&server), closed, "a denied file counts as little as one that is not there");
}

#[test]
fn hostile_queries_are_refused_quickly_and_parameters_are_data() {
    let fixture = repository();
    let server = Up::start(&fixture, &[]);
    let ask = |server: &Up, arguments: Value| server.call("graph_query", arguments);
    let deep = format!("RETURN {}1{}", "(".repeat(10_000), ")".repeat(10_000));
    let long = format!("MATCH (n) RETURN '{}'", "x".repeat(1 << 20));
    for (query, said) in [
        ("CREATE (n:Function {name: 'x'})", "CREATE"),
        ("MATCH (n) DETACH DELETE n", "line 1, column 11"),
        ("MATCH (n) SET n.name = 'x' RETURN n", "SET"),
        ("MERGE (n:File)", "MERGE"),
        ("MATCH (n:Functoin) RETURN n", "Function"),
        ("MATCH (n) RETURN n.nmae", "name"),
        ("MATCH (n)-[:CALS]->() RETURN n", "CALLS"),
        ("RETURN 'never closed", "line 1"),
        (deep.as_str(), "query"),
        (long.as_str(), "query"),
        ("CALL dbms.procedures()", "procedure"),
        ("LOAD CSV FROM 'file:///etc/passwd' AS l RETURN l", "line 1"),
    ] {
        let refused = ask(&server, json!({ "query": query }));
        assert_eq!(refused["error"]["code"], "EVALIDATION", "{}: {refused:#}", &query[..query.len().min(60)]);
        assert!(refused["error"]["message"].as_str().unwrap().contains(said), "{refused:#}");
    }
    let hostile = "x'}) DETACH DELETE n // \" \\ `";
    let query = "MATCH (f:Function) WHERE f.name = $name OR $name = $name RETURN $name AS said LIMIT 1";
    let answer = ask(&server, json!({"query": query, "params": {"name": hostile}}));
    assert_eq!(column(&answer, "said"), [hostile]);
    let rows = ask(&server, json!({"query": "UNWIND range(1, 2000) AS n RETURN n"}));
    assert_eq!((column(&rows, "n").len(), &rows["data"]["truncated"]), (1000, &json!(true)));
    let product = "MATCH (a), (b), (c), (d), (e), (f), (g), (h) RETURN count(*)";
    let ended = ask(&server, json!({ "query": product }));
    assert_eq!(ended["error"]["code"], "ETIMEOUT", "{ended:#}");
    let wide = "UNWIND range(1, 100000) AS a UNWIND range(1, 100000) AS b RETURN collect(a + b)";
    let ended = ask(&server, json!({ "query": wide }));
    assert!(["EQUOTA", "ETIMEOUT"].contains(&ended["error"]["code"].as_str().unwrap()), "{ended:#}");
    assert_eq!(callers(&server, "area"), ["double"], "the server goes on");
}

#[test]
fn links_and_odd_files_neither_loop_nor_fail() {
    let fixture = repository();
    let at = |path: &str| fixture.workspace().join(path);
    std::os::unix::fs::symlink("..", at("src/up")).unwrap();
    std::os::unix::fs::symlink("round", at("src/round")).unwrap();
    std::os::unix::fs::symlink("/etc", at("etc")).unwrap();
    std::fs::write(fixture.outside().join("out.py"), "def outer():\n    pass\n").unwrap();
    std::os::unix::fs::symlink(fixture.outside().join("out.py"), at("out.py")).unwrap();
    std::fs::write(at("src/bytes.rs"), b"fn odd() {} \xff\xfe\n").unwrap();
    std::fs::write(at("src/deep.py"), format!("x = {}1{}\n", "(".repeat(50_000), ")".repeat(50_000)))
        .unwrap();
    std::fs::write(at("web/min.js"), "function f(){return 1};".repeat(300_000)).unwrap();
    let made = Command::new("mkfifo").arg(at("src/pipe.rs")).status().unwrap();
    assert!(made.success());
    let answer = fixture.call(
        "graph_query",
        json!({"query": "MATCH (f:File) RETURN f.path AS path, f.gap AS gap ORDER BY path"}),
    );
    let paths = column(&answer, "path");
    assert_eq!(
        paths,
        [
            "src/bytes.rs",
            "src/deep.py",
            "src/lib.rs",
            "tools/report.py",
            "tools/shapes.py",
            "web/cart.ts",
            "web/min.js",
            "web/price.ts"
        ]
    );
    let gaps: Vec<String> = column(&answer, "gap").into_iter().filter(|gap| gap != "null").collect();
    assert!(gaps.contains(&"too_large".to_owned()), "{answer:#}");
}

#[test]
fn a_kill_while_the_graph_is_made_loses_only_work() {
    let fixture = repository();
    for number in 0..400 {
        let body: String = (0..60)
            .map(|at| format!("def f{number}_{at}():\n    return f{number}_{}()\n\n", at + 1))
            .collect();
        fixture.write(&format!("many/m{number}.py"), &body);
    }
    let query = "MATCH (f:Function)<-[:CALLS]-(g) RETURN count(*) AS calls";
    let arguments = json!({ "query": query }).to_string();
    let mut killed = 0;
    for milliseconds in [40, 80, 160, 320] {
        let mut command = fixture.command();
        let mut child = command
            .args(["call", "graph_query", &arguments])
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(milliseconds) && child.try_wait().unwrap().is_none() {
            std::thread::park_timeout(Duration::from_millis(1));
        }
        if child.try_wait().unwrap().is_none() {
            child.kill().unwrap();
            killed += 1;
        }
        child.wait().unwrap();
    }
    assert!(killed > 0, "the control: no run was killed");
    let after = fixture.call("graph_query", json!({ "query": query }));
    let other = Fixture::new();
    for number in 0..400 {
        let path = format!("many/m{number}.py");
        other.write(&path, &fixture.read(&path));
    }
    for path in ["src/lib.rs", "tools/report.py", "tools/shapes.py", "web/cart.ts", "web/price.ts"] {
        other.write(path, &fixture.read(path));
    }
    let clean = other.call("graph_query", json!({ "query": query }));
    assert_eq!(column(&after, "calls"), column(&clean, "calls"));
    assert!(column(&clean, "calls")[0].parse::<u32>().unwrap() >= 400 * 59, "{clean:#}");
    assert_eq!(after["data"]["freshness"], clean["data"]["freshness"], "equal files, equal generations");
}

#[test]
fn a_commit_is_asked_without_a_checkout() {
    let fixture = repository();
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        command.current_dir(fixture.workspace()).env("HOME", fixture.home()).env("GIT_CONFIG_NOSYSTEM", "1");
        command.args(["-c", "user.name=a", "-c", "user.email=a@example.com"]).args(words);
        assert!(command.status().unwrap().success(), "{words:?}");
    };
    git(&["init", "-q"]);
    git(&["add", "-A"]);
    git(&["commit", "-qm", "one"]);
    fixture.write("src/lib.rs", "pub fn other() {}\n");
    let names = "MATCH (f:Function {language: 'rust'}) RETURN f.name AS name ORDER BY name";
    let asked = |commit: Option<&str>| {
        let mut arguments = json!({ "query": names });
        if let Some(commit) = commit {
            arguments["commit"] = json!(commit);
        }
        column(&fixture.call("graph_query", arguments), "name")
    };
    assert_eq!(asked(None), ["other"]);
    assert_eq!(asked(Some("HEAD")), ["area", "double"]);
    let sage = json!({"query": names, "commit": "HEAD"}).to_string();
    let answer = fixture.run(&["--dialect", "sage", "call", "GraphQuery", &sage]).json();
    assert_eq!(
        (&answer["ok"], &answer["data"]["rows"][0]["name"]),
        (&json!(true), &json!("area")),
        "{answer:#}"
    );
    let missing = fixture.error("graph_query", json!({"query": names, "commit": "nowhere"}));
    assert_eq!(missing["code"], "ENOTFOUND", "{missing:#}");
}

#[test]
fn the_command_line_asks_maps_counts_and_draws() {
    let fixture = repository();
    let query = "MATCH (f:Function {name: $n})<-[:CALLS]-(g) RETURN g.name AS caller";
    let run = fixture.run(&["graph", "query", query, "--param", "n=price"]);
    assert_eq!((run.code, run.stdout.as_str()), (0, "CALLER\ncart\n"), "{}", run.stderr);
    assert!(run.stderr.contains("5 files are in the graph"), "{}", run.stderr);
    let json = fixture.run(&["graph", "query", query, "--param", "n=price", "--json"]).json();
    assert_eq!(json["rows"], json!([{"caller": "cart"}]));
    let refused = fixture.run(&["graph", "query", "CREATE (n)"]);
    assert!(refused.code == 2 && refused.stderr.contains("CREATE"), "{}", refused.stderr);
    assert!(fixture.run(&["graph", "schema"]).stdout.contains("Function"));
    assert_eq!(fixture.run(&["graph", "schema", "--json"]).json()["examples"].as_array().unwrap().len(), 3);
    assert!(fixture.run(&["graph", "map", "web"]).stdout.contains("web/price.ts (3 lines)"));
    assert_eq!(fixture.run(&["graph", "index", "--json"]).json()["indexed"], 5);
    let stats = fixture.run(&["graph", "stats", "--json"]).json();
    assert!(stats["nodes"].as_u64().unwrap() > 10 && stats["files"] == 5, "{stats:#}");
    let svg = fixture.run(&["graph", "view", "price"]);
    assert!(svg.stdout.starts_with("<svg ") && svg.stdout.contains("web/cart.ts#cart"), "{}", svg.stderr);
    let file = fixture.outside().join("view.svg");
    assert_eq!(fixture.run(&["graph", "view", "price", "--output", file.to_str().unwrap()]).code, 0);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), svg.stdout);
    let unknown = fixture.run(&["graph", "view", "prise"]);
    assert!(unknown.code == 2 && unknown.stderr.contains("price"), "{}", unknown.stderr);
}

#[test]
fn a_graph_is_a_resource_of_its_runtime() {
    let fixture = repository();
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let runtime = fixture.builder().build().unwrap();
    let kinds = |runtime: &handfast::Runtime| {
        runtime
            .resources()
            .iter()
            .filter(|one| one.kind == "code graph")
            .map(|one| one.description.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(kinds(&runtime), Vec::<String>::new(), "nothing is opened before the first query");
    let ask = || tokio.block_on(async { runtime.call("graph_query", json!({"query": "RETURN 1"})).await });
    assert!(ask().ok());
    assert_eq!(kinds(&runtime), ["the graph of 5 files"]);
    tokio.block_on(runtime.shutdown()).unwrap();
}

#[test]
fn other_calls_are_answered_while_a_query_works() {
    let fixture = repository();
    let up = Up::start(&fixture, &[]);
    let product = "MATCH (a), (b), (c), (d), (e), (f), (g), (h) RETURN count(*)";
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| up.call("graph_query", json!({ "query": product })));
        let mut answered = 0;
        while !slow.is_finished() {
            assert_eq!(up.call("file_read", json!({"path": "web/price.ts"}))["ok"], true);
            answered += 1;
        }
        assert!(answered > 1, "{answered}");
        assert_eq!(slow.join().unwrap()["error"]["code"], "ETIMEOUT");
    });
}

#[test]
fn the_code_watcher_reads_changes_before_somebody_asks_and_only_once_somebody_has() {
    let fixture = repository();
    let up = Up::start(&fixture, &[]);
    let updates = || {
        let rows = fixture.recorded().into_iter().filter(|row| row["tool"] == "graph_query");
        rows.map(|row| row["door"].as_str().unwrap().to_owned()).filter(|door| door == "code-watcher").count()
    };
    fixture.write("src/early.rs", "pub fn early() {}\n");
    assert_eq!(callers(&up, "area"), ["double"]);
    assert_eq!(updates(), 0, "nothing is watched before the first query");
    // Repeated, because the watch may not be active yet; rarely, because an update waits for a quiet moment.
    let mut written: Option<Instant> = None;
    let mut change = |text: &str| {
        if written.is_none_or(|written| written.elapsed() > Duration::from_secs(3)) {
            fixture.write("src/fresh/deep.rs", text);
            written = Some(Instant::now());
        }
    };
    eventually("an update", || {
        change("pub fn deep() {}\n");
        updates() > 0
    });
    // The update has found the new folder, which is watched from then on.
    let before = updates();
    eventually("an update of the new folder", || {
        change("pub fn deeper() {}\n");
        updates() > before
    });
}
