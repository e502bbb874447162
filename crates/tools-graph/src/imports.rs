//! Findings of compilers in the files of a workspace, as the last import stored it.

use std::path::Path;
use std::sync::Arc;

use codegraph::{ImportFile, ImportStamp, Imported};
use parking_lot::Mutex;
use tool::Context;

/// The stored import, which is read again once its file is another one.
#[derive(Debug)]
pub(crate) struct Imports {
    file: ImportFile,
    last: Mutex<Last>,
}

/// The import that was read last.
#[derive(Debug, Default)]
struct Last {
    stamp: Option<ImportStamp>,
    imported: Arc<Imported>,
}

impl Imports {
    /// Names the folder of the facts. Reads nothing yet.
    pub(crate) fn new(folder: &Path) -> Self {
        Self { file: ImportFile::new(folder), last: Mutex::default() }
    }

    /// Returns what is stored now. A file that cannot be used counts as none, with one warning.
    pub(crate) fn now(&self, context: &Context) -> Arc<Imported> {
        let mut last = self.last.lock();
        // Taken before the file is read, so that a later change of it is seen at the next call.
        let stamp = self.file.stamp();
        if last.stamp != stamp {
            let imported = self.file.load().unwrap_or_else(|problem| {
                context.warn(format!(
                    "the imported index of the code graph is left out: {problem}; remove {} and import the index again",
                    self.file.path().display()
                ));
                Imported::default()
            });
            *last = Last { stamp, imported: Arc::new(imported) };
        }
        last.imported.clone()
    }
}

#[cfg(test)]
mod tests {
    use codegraph::{CodeIndex, ExtractLimits, ImportFile, Imported, ScipImport};
    use scip_index::{IndexReader, ScipLimits};
    use serde_json::{Value, json};
    use testkit::Workspace;

    use crate::tests::World;

    const MAIN: &str = "def run(x):\n    x.go()\n";
    const PARTS: &str =
        "class A:\n    def go(self):\n        pass\n\nclass B:\n    def go(self):\n        pass\n";

    /// Returns a field with a length below 128.
    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, u8::try_from(content.len()).unwrap()], content].concat()
    }

    /// Returns a document with one occurrence of the method `B.go`.
    fn document(path: &str, range: [u8; 3], roles: u8) -> Vec<u8> {
        let symbol = b"scip-python python p 1 `parts`/B#go().";
        let occurrence = [field(1, &range), field(2, symbol), vec![3 << 3, roles]].concat();
        field(2, &[field(1, path.as_bytes()), field(2, &occurrence)].concat())
    }

    /// Returns what a compiler found in the two files.
    fn imported() -> Imported {
        let files = [("main.py", MAIN), ("parts.py", PARTS)];
        let mut index = CodeIndex::new(ExtractLimits::default());
        let changes = files
            .map(|(path, text)| codegraph::Change::Written { path: path.to_owned(), content: text.into() });
        index.apply(changes.into(), &mut codegraph::NoStore);
        let scip = [
            field(1, &field(3, b"file:///p")),
            document("main.py", [1, 6, 8], 8),
            document("parts.py", [5, 8, 10], 1),
        ]
        .concat();
        let content =
            |path: &str| files.iter().find(|(known, _)| *known == path).map(|(_, text)| (*text).into());
        let mut import = ScipImport::new(&index);
        let mut reader = IndexReader::new(&*scip, ScipLimits::default());
        while let Some(document) = reader.next_document().unwrap() {
            import.define(&document, content).unwrap();
        }
        let mut reader = IndexReader::new(&*scip, ScipLimits::default());
        while let Some(document) = reader.next_document().unwrap() {
            import.refer(&document, content).unwrap();
        }
        import.finish().0
    }

    fn world() -> World {
        World::new(Workspace::new().with_files(&[("main.py", MAIN), ("parts.py", PARTS)]))
    }

    fn file(world: &World) -> ImportFile {
        ImportFile::new(&world.workspace.at("../facts"))
    }

    fn calls(world: &World) -> Value {
        let query = "MATCH (f {name: 'run'})-[c]->(g) WHERE type(c) IN ['CALLS', 'MAY_CALL'] \
                     RETURN g.id AS id, c.confidence AS confidence, c.via AS via ORDER BY g.id";
        world.ask(query).unwrap()["rows"].clone()
    }

    fn ours() -> Value {
        let row = |id: &str| json!({"id": id, "confidence": "name_only", "via": "name"});
        json!([row("parts.py#A.go"), row("parts.py#B.go")])
    }

    fn theirs() -> Value {
        json!([{"id": "parts.py#B.go", "confidence": "exact", "via": "compiler"}])
    }

    #[test]
    fn a_running_graph_follows_the_stored_import_and_a_restart_opens_it() {
        let mut world = world();
        assert_eq!(calls(&world), ours());
        file(&world).save(&imported()).unwrap();
        assert_eq!(calls(&world), theirs(), "the running graph");
        for _ in 0..2 {
            world = World::new(world.workspace);
            assert_eq!(calls(&world), theirs(), "after a restart");
        }
        // The graph was opened, so its facts have to be woken.
        assert!(file(&world).remove().unwrap());
        assert_eq!(calls(&world), ours(), "removed");
        assert!(!file(&world).remove().unwrap());
        world = World::new(world.workspace);
        assert_eq!(calls(&world), ours(), "removed before the start");
        file(&world).save(&imported()).unwrap();
        world.workspace.write("main.py", format!("{MAIN}\n"));
        assert_eq!(calls(&world), ours(), "the file is another one");
        world.workspace.write("main.py", MAIN);
        assert_eq!(calls(&world), theirs(), "the file is the imported one again");
    }

    #[test]
    fn a_damaged_or_foreign_import_is_left_out_with_one_warning() {
        let mut world = world();
        let path = file(&world).path();
        file(&world).save(&imported()).unwrap();
        assert_eq!(calls(&world), theirs(), "the control");
        let whole = std::fs::read(&path).unwrap();
        let flipped = |at: usize| {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            bytes
        };
        let cases = [
            (whole[..whole.len() - 1].to_vec(), "damaged"),
            (flipped(whole.len() - 3), "damaged"),
            (flipped(7), "of another version"),
            (Vec::new(), "damaged"),
        ];
        for (bytes, problem) in cases {
            std::fs::write(&path, &bytes).unwrap();
            let error = file(&world).load().unwrap_err();
            assert_eq!(error.to_string(), problem);
            let context = world.workspace.context();
            let imports = super::Imports::new(&world.workspace.at("../facts"));
            assert_eq!(imports.now(&context).file_count(), 0);
            imports.now(&context);
            let warnings = context.take_warnings();
            assert_eq!(warnings.len(), 1, "{warnings:?}");
            assert!(warnings[0].contains(problem) && warnings[0].contains("import the index again"));
            world = World::new(world.workspace);
            assert_eq!(calls(&world), ours(), "{problem}");
        }
    }
}
