//! Files that no one would write, and some that everyone has: none is dropped, and none takes the program down.

use codegraph::{Change, CodeIndex, ExtractLimits, Gap, Language, NoStore, extract};

use crate::files::{Files, add_grammars, rows};

const LANGUAGES: [(Language, &str); 13] = [
    (Language::Bash, "sh"),
    (Language::C, "c"),
    (Language::CSharp, "cs"),
    (Language::Cpp, "cpp"),
    (Language::Go, "go"),
    (Language::Java, "java"),
    (Language::JavaScript, "js"),
    (Language::Php, "php"),
    (Language::Python, "py"),
    (Language::Ruby, "rb"),
    (Language::Rust, "rs"),
    (Language::TypeScript, "ts"),
    (Language::Tsx, "tsx"),
];

/// Indexes one file, and returns the facts' gap.
fn index(extension: &str, content: &[u8]) -> Option<Gap> {
    add_grammars();
    let path = format!("a.{extension}");
    // Without its tag, the rest of a file of PHP is text.
    let content =
        if extension == "php" { [b"<?php\n".as_slice(), content].concat() } else { content.to_vec() };
    let mut index = CodeIndex::new(ExtractLimits::default());
    index.apply(vec![Change::Written { path: path.clone(), content }], &mut NoStore);
    let graph = index.graph("project").unwrap();
    assert_eq!(rows(&graph, "MATCH (f:File) RETURN f.path"), [path.as_str()], "the file is there");
    index.facts(&path).unwrap().gap
}

#[test]
fn every_language_takes_any_bytes() {
    let bytes: Vec<u8> = (0..=255).cycle().take(5000).collect();
    let half = b"class A { def f( \xff\xfe fn g(x: int { return x.y( \"";
    let texts: [&[u8]; 7] =
        [b"", b"\0", b"\xef\xbb\xbf", b"\r\n\r", &bytes, half, "\u{202e}\u{1f600} = \u{fe0f}".as_bytes()];
    for (_, extension) in LANGUAGES {
        for text in texts {
            assert_eq!(index(extension, text), None, "{extension}");
        }
    }
}

#[test]
fn deep_nesting_does_not_overflow() {
    for (_, extension) in LANGUAGES {
        for (open, close) in
            [("(", ")"), ("[", "]"), ("{", "}"), ("f(", ")"), ("-", ""), ("a.b(", ")"), ("if x { ", "}")]
        {
            let text = format!("x = {}1{};\n", open.repeat(20_000), close.repeat(20_000));
            index(extension, text.as_bytes());
        }
    }
}

#[test]
fn long_chains_do_not_overflow() {
    let chain = format!("x = a{};\n", ".b()".repeat(50_000));
    let sum = format!("x = 1{};\n", " + f(2)".repeat(50_000));
    let choice = format!("x = a{};\n", " ? b : c".repeat(5_000));
    for (_, extension) in LANGUAGES {
        for text in [&chain, &sum, &choice] {
            index(extension, text.as_bytes());
        }
    }
}

#[test]
fn a_hundred_thousand_functions_are_all_there() {
    let text: String =
        (0..100_000).map(|number| format!("fn f{number}() {{ f{}() }}\n", number / 2)).collect();
    let graph = Files::of(&[("lib.rs", &text)]).graph();
    assert_eq!(rows(&graph, "MATCH (f:Function) RETURN count(*)"), ["100000"]);
    assert_eq!(
        rows(&graph, "MATCH (:Function {name: 'f50000'})<-[:CALLS]-(g) RETURN g.name"),
        ["f100000"; 0]
    );
    assert_eq!(
        rows(&graph, "MATCH (:Function {name: 'f49999'})<-[:CALLS]-(g) RETURN g.name"),
        ["f99998", "f99999"]
    );
}

#[test]
fn a_file_of_fifty_megabytes_is_a_node_with_a_gap() {
    let text = vec![b'a'; 50 << 20];
    assert_eq!(index("js", &text), Some(Gap::TooLarge));
    let graph = {
        let mut index = CodeIndex::new(ExtractLimits::default());
        index.apply(vec![Change::Written { path: "a.js".to_owned(), content: text }], &mut NoStore);
        index.graph("project").unwrap()
    };
    assert_eq!(rows(&graph, "MATCH (f:File) RETURN f.gap, f.size"), ["too_large 52428800"]);
}

#[test]
fn a_parse_that_may_do_no_work_is_a_gap() {
    let text = "function f(a) { return g(a); }\n".repeat(20_000);
    let limits = ExtractLimits { work_per_byte: 0, ..ExtractLimits::default() };
    let facts = extract(Language::JavaScript, text.as_bytes(), &limits).unwrap();
    assert_eq!(facts.gap, Some(Gap::TooMuchWork));
    assert_eq!(facts.line_count, 20_000);
}

#[test]
fn a_scanner_that_reads_to_the_end_at_every_token_is_stopped() {
    // The scanner of Bash looks for the end of an expression. A hundred of them are fine; fifty thousand would
    // read the text fifty thousand times.
    let chain = |length: usize| format!("x = a{};\n", ".b()".repeat(length));
    assert_eq!(index("sh", chain(100).as_bytes()), None);
    assert_eq!(index("sh", chain(50_000).as_bytes()), Some(Gap::TooMuchWork));
}

#[test]
fn the_work_of_real_code_is_far_below_the_limit() {
    let half =
        ExtractLimits { work_per_byte: ExtractLimits::default().work_per_byte / 2, ..Default::default() };
    for (language, text) in [
        (Language::Rust, include_str!("../../src/world/lookup.rs")),
        (Language::Python, include_str!("../fixtures/resolution/python/service.py")),
        (Language::CSharp, include_str!("../fixtures/resolution/csharp/Service.cs")),
        (Language::Bash, include_str!("../fixtures/resolution/bash/main.sh")),
    ] {
        assert_eq!(extract(language, text.as_bytes(), &half).unwrap().gap, None, "{language:?}");
    }
}

#[test]
fn a_minified_line_keeps_its_functions() {
    let text: String = (0..5_000).map(|number| format!("function f{number}(a){{return f0(a)}};")).collect();
    let graph = Files::of(&[("a.min.js", &text)]).graph();
    assert_eq!(rows(&graph, "MATCH (f:Function) RETURN count(*)"), ["5000"]);
    assert_eq!(rows(&graph, "MATCH (f)-[:CALLS]->({name: 'f0'}) RETURN count(*)"), ["5000"]);
}

#[test]
fn an_error_in_a_file_keeps_what_is_right_in_it() {
    let text = "fn one() { two() }\nfn broken( { let = ; }\nfn two() {}\n";
    let graph = Files::of(&[("lib.rs", text)]).graph();
    assert_eq!(rows(&graph, "MATCH (f:File) WHERE f.parse_errors > 0 RETURN f.path"), ["lib.rs"]);
    assert_eq!(rows(&graph, "MATCH (a)-[:CALLS]->(b) RETURN a.name, b.name"), ["one two"]);
}

#[test]
fn circles_of_imports_and_bases_end() {
    let graph = Files::of(&[
        ("a.py", "from b import *\nfrom b import x\nclass A(B): pass\n"),
        ("b.py", "from a import *\nfrom a import x\nclass B(A):\n    def f(self):\n        self.g()\n"),
        ("c.py", "from c import c\nfrom c import *\nclass C(C): pass\nx = x\ny = [y]\ny = y[0]\n"),
        ("a.ts", "export * from './b';\nexport { z } from './b';\n"),
        ("b.ts", "export * from './a';\nexport { z } from './a';\nclass X extends X {}\n"),
        (
            "src/lib.rs",
            "pub use self::a::*;\npub mod a { pub use super::*; pub use super::a::b as b; }\ntype T = T;\n",
        ),
        ("A.java", "import a.A; class A extends B {} class B extends A { void f() { g(); } }\n"),
    ])
    .graph();
    assert_eq!(rows(&graph, "MATCH (f:File) RETURN count(*)"), ["7"]);
    assert_eq!(
        rows(&graph, "MATCH (:Class {name: 'A'})-[:INHERITS]->(b {name: 'B'}) RETURN b.file"),
        ["A.java", "b.py"]
    );
}

#[test]
fn names_that_differ_in_case_alone_stay_apart() {
    let graph = Files::of(&[("Main.py", "def f(): pass\n"), ("main.py", "def f(): pass\nf()\n")]).graph();
    assert_eq!(rows(&graph, "MATCH (a)-[:CALLS]->(b) RETURN a.file, b.file"), ["main.py main.py"]);
}

#[test]
fn values_that_grow_without_end_stop() {
    let graph = Files::of(&[(
        "a.py",
        "import os\nx = os\nfor i in range(3):\n    x = x.path\n    x()\ndef f(g):\n    return f([g])\nf(f)\n",
    )])
    .graph();
    assert!(!rows(&graph, "MATCH (a)-[:CALLS]->(b:External) RETURN b.id").is_empty());
}
