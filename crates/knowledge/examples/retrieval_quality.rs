//! Quality of the search on a collection in BEIR's layout: by words, by meaning, by both, and by
//! both with half of the vectors. `cargo xtask eval FOLDER` runs this program; by hand: `cargo run
//! --release --package knowledge --example retrieval_quality -- FOLDER [MODEL]`.

#![allow(clippy::print_stdout, reason = "it prints what it measured")]

#[path = "../tests/knowledge/evaluation.rs"]
mod evaluation;

use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

use evaluation::{Collection, Quality};
use knowledge::{Index, Mode};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let folder = arguments.next().ok_or("name the folder of a collection")?;
    let model = arguments.next();
    let collection = Collection::read(&folder)?;
    let work = tempfile::tempdir()?;
    let index = Index::new(work.path().join("index"), model.map(opener));
    let began = Instant::now();
    let progress = |done, total| eprint!("\r{done} of {total} sections");
    collection.index_upto(&index, 0.5, &progress)?;
    let half_made = index.has_model().then(|| collection.quality(&index, Mode::Hybrid, "")).transpose()?;
    collection.index(&index, &progress)?;
    eprintln!();
    let without = collection.questions.iter().filter(|(id, _)| !collection.has_answer(id)).count();
    println!(
        "{} documents, {} questions ({without} without an answer), indexed in {:.1} s\n",
        collection.documents(),
        collection.questions.len(),
        began.elapsed().as_secs_f64()
    );
    println!(
        "| way       | nDCG@10 | recall@50 | success@1 | success@3 | ms a question |\n\
         |-----------|---------|-----------|-----------|-----------|---------------|"
    );
    let print = |way: &str, quality: &Quality, milliseconds: &str| {
        let [first, three] = quality.success;
        let (ndcg, recall) = (quality.ndcg_10, quality.recall_50);
        println!(
            "| {way:<9} | {ndcg:.4}  | {recall:.4}    | {first:.4}    | {three:.4}    | {milliseconds:>13} |"
        );
    };
    for (mode, way) in [(Mode::Keyword, "words"), (Mode::Vector, "vectors"), (Mode::Hybrid, "both")] {
        if mode != Mode::Keyword && !index.has_model() {
            continue;
        }
        let began = Instant::now();
        let quality = collection.quality(&index, mode, "")?;
        let each =
            began.elapsed().as_secs_f64() * 1_000.0 / f64::from(u32::try_from(quality.questions.max(1))?);
        print(way, &quality, &format!("{each:.1}"));
    }
    if let Some(quality) = &half_made {
        print("half-made", quality, "");
    }
    for (sure, which) in collection.confidence(&index)?.iter().zip(["without", "with"]) {
        if let [lowest, .., highest] = sure.as_slice() {
            let middle = sure[sure.len() / 2];
            println!(
                "\nconfidence of questions {which} an answer: {lowest:.2} to {highest:.2}, the middle one {middle:.2}"
            );
        }
    }
    if !index.has_model() {
        println!("\nby words alone: name the folder of a model to measure meaning too");
    }
    Ok(())
}

/// Returns a function that opens the model in a folder.
fn opener(folder: PathBuf) -> knowledge::OpenModel {
    std::sync::Arc::new(move || {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        embed_bert::open(&folder, threads).map_err(|error| error.to_string())
    })
}
