//! Measures reading and writing on one core: `cargo run --release -p llm-local --example speed -- MODEL.gguf`.
//!
//! The time is that of the processor, so that a busy machine changes it little.

#![allow(clippy::print_stdout, clippy::cast_precision_loss, reason = "a program that prints rates")]

use std::error::Error;
use std::path::Path;

use llm::{ChatRequest, Message};
use llm_local::LocalModel;

/// Tokens that are written.
const WRITTEN: usize = 48;

/// Returns the processor time of this process, in seconds.
fn processor() -> Result<f64, Box<dyn Error>> {
    let stat = std::fs::read_to_string("/proc/self/schedstat")?;
    let spent: f64 = stat.split_whitespace().next().unwrap_or_default().parse()?;
    Ok(spent / 1e9)
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("the path of a model is missing")?;
    let started = processor()?;
    let model = LocalModel::open(Path::new(&path))?;
    println!("opened in {:.2} s", processor()? - started);
    let text = "The quick brown fox jumps over the lazy dog while the rain falls. ".repeat(20);
    let request = ChatRequest { messages: vec![Message::user(text)], ..ChatRequest::default() };
    let mut tokens = model.prompt(&request)?;
    let started = processor()?;
    let mut scores = model.scores(&tokens).ok_or("no scores")?;
    let took = processor()? - started;
    println!("{} tokens read, {:.1} a second", tokens.len(), tokens.len() as f64 / took);
    let started = processor()?;
    for _ in 0..WRITTEN {
        let best = (0_u32..).zip(&scores).max_by(|one, other| one.1.total_cmp(other.1)).ok_or("no scores")?.0;
        tokens.push(best);
        scores = model.scores(&tokens).ok_or("no scores")?;
    }
    println!("{WRITTEN} tokens written, {:.1} a second", WRITTEN as f64 / (processor()? - started));
    Ok(())
}
