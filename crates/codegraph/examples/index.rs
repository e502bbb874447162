//! Indexes a folder, prints the time of each part, and answers queries in openCypher.
//!
//! `cargo run --release -p codegraph --example index -- FOLDER [QUERY...]`

#![allow(clippy::print_stdout, reason = "an example prints its results")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;

use codegraph::{
    Change, CodeIndex, ExtractLimits, FactsFolder, FactsKey, FactsStore, Language, LiveGraph, NoStore,
    Sources, extract, is_indexed,
};

/// A folder of this machine.
struct Folder(PathBuf);

impl Sources for Folder {
    fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        let mut open = vec![self.0.clone()];
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                let Ok(kind) = entry.file_type() else { continue };
                let name = entry.file_name();
                if kind.is_dir() && name != ".git" && name != "target" && name != "node_modules" {
                    open.push(entry.path());
                } else if kind.is_file()
                    && let Ok(path) = entry.path().strip_prefix(&self.0)
                {
                    paths.push(path.to_string_lossy().into_owned());
                }
            }
        }
        paths
    }

    fn read(&self, path: &str) -> Option<Vec<u8>> {
        std::fs::read(self.0.join(Path::new(path))).ok()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = Folder(arguments.next().ok_or("name a folder")?.into());
    let contents: Vec<(String, Vec<u8>)> = folder
        .paths()
        .into_iter()
        .filter(|path| is_indexed(path))
        .filter_map(|path| folder.read(&path).map(|content| (path, content)))
        .collect();
    let started = Instant::now();
    let limits = ExtractLimits::default();
    for (path, content) in &contents {
        if let Some(language) = Language::of_path(path) {
            extract(language, content, &limits);
        }
    }
    println!("facts alone: {:.2?}", started.elapsed());
    let started = Instant::now();
    let changes = contents.iter().cloned().map(|(path, content)| Change::Written { path, content }).collect();
    let mut index = CodeIndex::new(ExtractLimits::default());
    let update = index.apply(changes, &mut NoStore);
    let indexed = started.elapsed();
    let graph = index.graph("folder")?;
    let all = started.elapsed();
    let lines = index.line_count();
    let rate = u128::from(lines) * 1000 / all.as_millis().max(1);
    println!(
        "{} files, {lines} lines: {} extracted, {} resolved in {indexed:.2?}, with the graph {all:.2?}: {rate} lines/s",
        index.file_count(),
        update.extracted,
        update.resolved
    );
    let mut by_size: Vec<&(String, Vec<u8>)> = contents
        .iter()
        .filter(|(path, _)| index.facts(path).is_some_and(|facts| !facts.definitions.is_empty()))
        .collect();
    by_size.sort_by_key(|(_, content)| content.len());
    let mut live = LiveGraph::new("folder");
    live.rebuild(&index)?;
    if let Some((path, content)) = by_size.get(by_size.len() * 3 / 4) {
        let mut times: Vec<_> = (2..22)
            .map(|lines| {
                let content = [b"\n".repeat(lines).as_slice(), content].concat();
                let started = Instant::now();
                index.apply(vec![Change::Written { path: path.clone(), content }], &mut NoStore);
                let graph = live.graph(&index);
                let all = started.elapsed();
                drop(graph);
                all
            })
            .collect();
        times.sort_unstable();
        let (first, middle) =
            (times.first().copied().unwrap_or_default(), times.get(10).copied().unwrap_or_default());
        println!("new lines before, 20 times: {first:.2?} at best, {middle:.2?} in the middle");
        for (what, before, after) in [
            ("a new line before", "\n", ""),
            ("a new function", "", "\nfn a_new_function() { println!() }\n"),
            ("the old text", "", ""),
        ] {
            let content = [before.as_bytes(), content, after.as_bytes()].concat();
            let started = Instant::now();
            let update = index.apply(vec![Change::Written { path: path.clone(), content }], &mut NoStore);
            let applied = started.elapsed();
            let graph = live.graph(&index)?;
            let all = started.elapsed();
            drop(graph);
            println!(
                "{what} in {path}: {} resolved in {applied:.2?}, with the graph {all:.2?}",
                update.resolved
            );
        }
    }
    let kept = tempfile::tempdir()?;
    let changes =
        || contents.iter().cloned().map(|(path, content)| Change::Written { path, content }).collect();
    let mut store = FactsFolder::open(kept.path(), 1 << 30)?;
    CodeIndex::new(limits).apply(changes(), &mut store);
    let started = Instant::now();
    store.flush()?;
    println!("facts written in {:.2?}", started.elapsed());
    let started = Instant::now();
    let store = FactsFolder::open(kept.path(), 1 << 30)?;
    let opened = started.elapsed();
    let keys = contents.iter().filter_map(|(path, content)| {
        Language::of_path(path).map(|language| FactsKey::new(language, content, &limits))
    });
    let keys: Vec<_> = keys.collect();
    let started = Instant::now();
    let found = keys.iter().filter(|key| store.load(key).is_some()).count();
    println!(
        "a folder of {} facts opened in {opened:.2?}, {found} loaded in {:.2?}",
        store.entry_count(),
        started.elapsed()
    );
    let mut options = cypher::Options::default();
    options.limits.rows = 1_000_000;
    for query in arguments {
        let started = Instant::now();
        match cypher::query(&graph, &query, &cypher::Parameters::new(), &options) {
            Ok(answer) => {
                println!("{}", answer.columns.join("\t"));
                for row in &answer.rows {
                    println!("{}", row.iter().map(ToString::to_string).collect::<Vec<_>>().join("\t"));
                }
                println!("-- {} rows, {:.2?}", answer.rows.len(), started.elapsed());
            }
            Err(error) => println!("{error}"),
        }
    }
    Ok(())
}
