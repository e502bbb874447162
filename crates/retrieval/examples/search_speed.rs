//! Time to find the nearest ten of 100,000 vectors, for `cargo xtask bench --only vectors`. A plain
//! scan over the same vectors as floats runs in turn with it, and the results of both are compared.

#![allow(clippy::print_stdout, reason = "the figures are this program's only result")]
#![allow(clippy::cast_precision_loss, reason = "figures to look at")]

use std::convert::Infallible;
use std::error::Error;
use std::time::{Duration, Instant};

use retrieval::nearest::{Index, dot};

const VECTORS: usize = 100_000;
const DIMENSIONS: usize = 384;
const QUERIES: usize = 100;
const NEAREST: usize = 10;

fn main() -> Result<(), Box<dyn Error>> {
    let mut next = numbers(1);
    // Texts are about a few hundred topics, and texts about the same topic lie near each other.
    let topics: Vec<Vec<f32>> = (0..300).map(|_| (0..DIMENSIONS).map(|_| next()).collect()).collect();
    let mut mixed = |number: usize| {
        let (one, other) = (&topics[number % 300], &topics[number / 300 % 300]);
        let mix = one.iter().zip(other).map(|(one, other)| one + 0.7 * other + 0.9 * next());
        unit(mix.collect())
    };
    let rows: Vec<Vec<f32>> = (0..VECTORS).map(&mut mixed).collect();
    let queries: Vec<Vec<f32>> = (0..QUERIES).map(|number| mixed(number * 997)).collect();
    let before = resident()?;
    let mut index = Index::new(DIMENSIONS);
    for (id, row) in (0_i64..).zip(&rows) {
        // The note is as large as that of a knowledge base.
        index.add(id, [id; 2], row);
    }
    let (mut ours, mut plain, mut same, mut asked) = (Vec::new(), Vec::new(), 0, 0);
    for query in &queries {
        let began = Instant::now();
        let mut row = |id: i64, _: &[i64; 2]| {
            asked += 1;
            Ok::<_, Infallible>(usize::try_from(id).ok().and_then(|id| rows.get(id).cloned()))
        };
        let found = index.search(query, NEAREST, &mut |_, _| Ok(true), &mut row)?.found;
        ours.push(began.elapsed());
        let began = Instant::now();
        let exact = scan(&rows, query);
        plain.push(began.elapsed());
        same += found.iter().filter(|(id, _)| exact.contains(id)).count();
    }
    let resident = resident()? - before;
    let (ours, plain) = (median(ours), median(plain));
    println!("search, nearest {NEAREST} of {VECTORS} vectors of {DIMENSIONS}");
    println!("  index       {:>8.2} ms median (at most 6)", ours.as_secs_f64() * 1e3);
    println!(
        "  plain scan  {:>8.2} ms median, ratio {:.2}",
        plain.as_secs_f64() * 1e3,
        ours.as_secs_f64() / plain.as_secs_f64()
    );
    println!("  recall      {:>8.3}", same as f64 / (QUERIES * NEAREST) as f64);
    println!("  compared    {:>8.1} vectors a query as they are", f64::from(asked) / QUERIES as f64);
    println!("  resident    {:>8.1} MB (at most 45)", resident as f64 / 1e6);
    Ok(())
}

/// Returns the identifiers of the nearest vectors, from a scan over all of them.
fn scan(rows: &[Vec<f32>], query: &[f32]) -> Vec<i64> {
    let mut all: Vec<(f32, i64)> = (0..).zip(rows).map(|(id, row)| (dot(query, row), id)).collect();
    all.select_nth_unstable_by(NEAREST, |one, other| other.0.total_cmp(&one.0));
    all.into_iter().take(NEAREST).map(|(_, id)| id).collect()
}

fn unit(mut vector: Vec<f32>) -> Vec<f32> {
    let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
    for number in &mut vector {
        *number /= length;
    }
    vector
}

/// Returns a source of pseudo-random numbers that are the same on each run.
fn numbers(seed: u64) -> impl FnMut() -> f32 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f32::from(u16::try_from(state >> 48).unwrap_or(0)) / 32_768.0 - 1.0
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Returns the resident memory of this process, in bytes.
fn resident() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/statm")?;
    let pages = status.split_whitespace().nth(1).ok_or("no pages")?;
    Ok(pages.parse::<u64>()? * u64::try_from(rustix::param::page_size())?)
}
