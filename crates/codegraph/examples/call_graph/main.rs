//! Scores the calls that are found in programs of Python with known call graphs, in the layout of the `PyCG`
//! micro-benchmark. Fails if too few of them are right or found.
//!
//! `cargo run --release -p codegraph --example call_graph -- FOLDER`

#![allow(clippy::print_stdout, reason = "an example prints its results")]

mod score;

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use score::{PRECISION, RECALL, Score, compare, programs};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).ok_or("name the folder of the programs")?;
    let programs = programs(Path::new(&folder))?;
    if programs.is_empty() {
        return Err("the folder has no program with a callgraph.json".into());
    }
    let mut all = Score::default();
    let mut classes: BTreeMap<String, Score> = BTreeMap::new();
    for program in &programs {
        let compared = compare(program)?;
        let title = program.strip_prefix(&folder).unwrap_or(program).display().to_string();
        for (caller, callee) in &compared.wrong {
            println!("{title}: wrong   {caller} -> {callee}");
        }
        for (caller, callee) in &compared.missing {
            println!("{title}: missing {caller} -> {callee}");
        }
        let class =
            program.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        classes.entry(class.unwrap_or_default()).or_default().add(compared.score);
        all.add(compared.score);
    }
    println!(
        "{:<16} {:>6} {:>6} {:>8} {:>10} {:>7}",
        "class", "right", "wrong", "missing", "precision", "recall"
    );
    for (class, score) in classes.iter().map(|(class, score)| (class.as_str(), *score)).chain([("all", all)])
    {
        let Score { right, wrong, missing } = score;
        let (precision, recall) = (score.precision(), score.recall());
        println!("{class:<16} {right:>6} {wrong:>6} {missing:>8} {precision:>10.3} {recall:>7.3}");
    }
    if all.is_enough() {
        return Ok(());
    }
    Err(format!("the precision must be at least {PRECISION} and the recall at least {RECALL}").into())
}
