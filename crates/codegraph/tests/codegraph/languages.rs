//! Projects of several languages: what is in one does not change what another one means.

use std::path::Path;

use crate::files::{Files, rows};

/// Languages whose files cannot name each other's definitions.
const LANGUAGES: [&str; 10] =
    ["bash", "cpp", "csharp", "go", "java", "javascript", "php", "python", "ruby", "rust"];

/// Everything that starts somewhere, without the folders and without what the name alone says.
const EDGES: &str = "MATCH (a)-[r]->(b) WHERE NOT type(r) IN ['CONTAINS', 'DEFINES'] \
                     RETURN a.id, type(r), r.line, r.confidence, b.id";

fn fixture(language: &str) -> Files {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/resolution").join(language);
    let mut files = Files::in_folder(&folder);
    files.0.remove("expected-edges.json");
    Files(files.0.into_iter().map(|(path, content)| (format!("{language}/{path}"), content)).collect())
}

#[test]
fn a_language_means_the_same_beside_all_others() {
    let mut all = Files::default();
    let mut alone = Vec::new();
    for language in LANGUAGES {
        let files = fixture(language);
        let found = rows(&files.graph(), EDGES);
        assert!(found.len() > 5, "{language}");
        alone.extend(found);
        all.0.extend(files.0);
    }
    alone.sort();
    let together = rows(&all.graph(), EDGES);
    let differs = alone.iter().zip(&together).find(|(one, other)| one != other);
    assert!(alone == together, "{differs:?}");
}

#[test]
fn equal_names_in_different_languages_are_different_things() {
    let graph = Files::of(&[
        ("a/tool.py", "import os\nimport path\ndef helper(x):\n    x.unclear()\n    os.platform()\n    path.join()\n"),
        ("a/tool.js", "import os from 'os';\nimport path from 'path';\nexport function helper(x) { x.unclear(); os.platform(); path.join(); }\nclass Base { unclear() {} }\n"),
        ("a/tool.rb", "class Base\n  def unclear\n    helper(1)\n  end\nend\n"),
        ("a/tool.sh", "helper() {\n  unclear\n}\nhelper\n"),
        ("a/tool.php", "<?php\nclass Base { function unclear() { helper(1); } }\nfunction f($x) { $x->unclear(); }\n"),
    ])
    .graph();
    let between =
        rows(&graph, "MATCH (a)-[r]->(b) WHERE a.language <> b.language RETURN a.id, type(r), b.id");
    assert_eq!(between, Vec::<String>::new());
    let shared = rows(
        &graph,
        "MATCH (a)-[]->(e:External) WITH e, collect(DISTINCT a.language) AS languages \
         WHERE size(languages) > 1 RETURN e.qualified_name, languages",
    );
    assert_eq!(shared, Vec::<String>::new());
    assert_eq!(
        rows(&graph, "MATCH (e:External {package: 'os'}) RETURN DISTINCT e.language"),
        ["javascript", "python"]
    );
}
