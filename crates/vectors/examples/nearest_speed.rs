//! What a search of 100,000 vectors costs, beside comparing all of them as they are, in turns; and what memory they take.
//! `cargo xtask bench` runs it; by hand: `cargo run --release --package vectors --example nearest_speed`.

#![allow(clippy::print_stdout, reason = "a benchmark: it prints what it measured")]

use std::convert::Infallible;
use std::error::Error;
use std::time::{Duration, Instant};

use vectors::Index;

const VECTORS: usize = 100_000;
const NUMBERS: usize = 384;
const SEARCHES: usize = 200;
const MOST: usize = 10;
/// Of the whole search, and of the memory in bytes.
const TARGETS: (Duration, f64) = (Duration::from_millis(6), 45e6);

fn main() -> Result<(), Box<dyn Error>> {
    let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
    // Texts about the same things lie close together: what is near is told apart by little.
    let topics: Vec<Vec<f32>> = (0..500).map(|_| chance.vector()).collect();
    let mut about = |noise: f32| {
        let topic = &topics[chance.below(topics.len())];
        let own = chance.vector();
        unit(topic.iter().zip(&own).map(|(one, other)| one + noise * other).collect())
    };
    let rows: Vec<Vec<f32>> = (0..VECTORS).map(|_| about(1.0)).collect();
    let before = resident()?;
    let mut index = Index::new(NUMBERS);
    for (id, row) in (0..).zip(&rows) {
        index.add(id, row);
    }
    let memory = resident()?.saturating_sub(before);
    let (mut ours, mut plain, mut right, mut compared) = (Vec::new(), Vec::new(), 0, 0);
    for _ in 0..SEARCHES {
        let vector = about(0.5);
        let began = Instant::now();
        let found = index.search::<Infallible>(&vector, MOST, &mut |_| Ok(true), &mut |id| {
            compared += 1;
            Ok(usize::try_from(id).ok().and_then(|id| rows.get(id)).cloned())
        });
        ours.push(began.elapsed());
        let began = Instant::now();
        let mut all: Vec<(f32, usize)> = rows.iter().map(|row| cosine(row, &vector)).zip(0..).collect();
        all.select_nth_unstable_by(MOST, |one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
        plain.push(began.elapsed());
        let mut expected: Vec<usize> = all[..MOST].iter().map(|(_, id)| *id).collect();
        let Ok(found) = found;
        let mut found: Vec<usize> = found.iter().filter_map(|(id, _)| usize::try_from(*id).ok()).collect();
        expected.sort_unstable();
        found.sort_unstable();
        right += usize::from(expected == found);
    }
    let [ours, plain] = [ours, plain].map(|mut all| {
        all.sort();
        all[all.len() / 2]
    });
    println!("\n| {VECTORS} vectors of {NUMBERS} numbers | all as they are | vectors | target | ratio |");
    println!("|---|---:|---:|---:|---:|");
    let share = |one: Duration, other: Duration| one.as_secs_f64() / other.as_secs_f64();
    println!(
        "| nearest {MOST} p50 | {plain:.1?} | {ours:.1?} | {:?} | {:.2} |",
        TARGETS.0,
        share(ours, TARGETS.0)
    );
    println!("| beside comparing all | 1.00 | {:.2} | | |", share(ours, plain));
    println!("| searches with the same result | {SEARCHES} | {right} | {SEARCHES} | |");
    println!("| compared as they are, each | {VECTORS} | {} | | |", compared / SEARCHES);
    let bytes = memory as f64;
    println!(
        "| resident, in MB | | {:.1} | {:.0} | {:.2} |",
        bytes / 1e6,
        TARGETS.1 / 1e6,
        bytes / TARGETS.1
    );
    if right == SEARCHES { Ok(()) } else { Err("a search found something else".into()) }
}

fn cosine(one: &[f32], other: &[f32]) -> f32 {
    // Eight sums beside each other, so that they need not wait for one another.
    let mut sums = [0.0; 8];
    for (one, other) in one.as_chunks::<8>().0.iter().zip(other.as_chunks::<8>().0) {
        sums.iter_mut().zip(one.iter().zip(other)).for_each(|(sum, (one, other))| *sum += one * other);
    }
    sums.iter().sum()
}

fn unit(vector: Vec<f32>) -> Vec<f32> {
    let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
    vector.into_iter().map(|number| number / length).collect()
}

/// The resident memory of this process in bytes.
fn resident() -> Result<usize, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<usize>()? * 1024)
}

/// The same numbers each time.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 16).unwrap_or_default() % end
    }

    /// Of the length one, into any direction.
    fn vector(&mut self) -> Vec<f32> {
        // The sum of several is close to what has no direction of its own.
        let mut one = || (0..6).map(|_| (self.next() >> 40) as f32 / (1_u64 << 24) as f32 - 0.5).sum();
        unit((0..NUMBERS).map(|_| one()).collect())
    }
}
