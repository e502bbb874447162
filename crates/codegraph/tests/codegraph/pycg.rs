//! The micro-benchmark of `PyCG`: the edges of small programs of Python, compared one by one.

#[path = "../../examples/call_graph/score.rs"]
mod score;

use std::path::Path;

use score::{Score, compare, programs};

#[test]
fn calls_of_the_pycg_micro_benchmark_are_found() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/pycg");
    let programs = programs(&folder).unwrap();
    assert_eq!(programs.len(), 119);
    let mut all = Score::default();
    for program in programs {
        let compared = compare(&program).unwrap();
        let title = program.strip_prefix(&folder).unwrap().display();
        for (caller, callee) in &compared.wrong {
            println!("{title}: wrong   {caller} -> {callee}");
        }
        for (caller, callee) in &compared.missing {
            println!("{title}: missing {caller} -> {callee}");
        }
        all.add(compared.score);
    }
    assert!(all.is_enough(), "precision {:.3}, recall {:.3}", all.precision(), all.recall());
}

#[test]
fn edges_that_are_not_there_and_edges_that_are_missed_both_count() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("class/program");
    std::fs::create_dir_all(&program).unwrap();
    std::fs::write(program.join("main.py"), "def a():\n    pass\n\ndef b():\n    a()\n\nb()\n").unwrap();
    let known = r#"{"main": ["main.b"], "main.b": ["main.gone"], "main.a": []}"#;
    std::fs::write(program.join("callgraph.json"), known).unwrap();
    assert_eq!(programs(folder.path()).unwrap(), std::slice::from_ref(&program));
    let Score { right, wrong, missing } = compare(&program).unwrap().score;
    assert_eq!((right, wrong, missing), (1, 1, 1));
    assert!(!compare(&program).unwrap().score.is_enough());
    std::fs::write(program.join("callgraph.json"), "[]").unwrap();
    assert!(compare(&program).is_err());
}
