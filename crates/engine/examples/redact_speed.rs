//! Measurement of the redactor's speed: `cargo run --release -p engine --example redact_speed`. The
//! redactor reads a stream of words, with one secret and with a thousand.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    reason = "the figures are this program's only result"
)]

use std::io::Read;
use std::time::Instant;

use engine::Redactor;

/// Number of bytes per round.
const LENGTH: usize = 128 << 20;
/// Number of rounds, of which the fastest counts.
const ROUNDS: usize = 5;

fn main() {
    // Pseudo-random numbers that are identical in each run (xorshift).
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).unwrap()
    };
    let words: Vec<String> =
        (0..5_000).map(|_| letters(b"abcdefghijklmnopqrstuvwxyz", &mut next, 2..12)).collect();
    let mut text = String::with_capacity(LENGTH + 16);
    while text.len() < LENGTH {
        text.push_str(&words[next(words.len())]);
        text.push(if next(12) == 0 { '\n' } else { ' ' });
    }
    for count in [1, 1_000] {
        let of_keys = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
        let secrets: Vec<(String, String)> =
            (0..count).map(|number| (format!("S{number}"), letters(of_keys, &mut next, 40..41))).collect();
        let began = Instant::now();
        let redactor = Redactor::new(secrets);
        let built = began.elapsed();
        let mut buffer = vec![0; 1 << 20];
        let mut read_all = || {
            let began = Instant::now();
            let mut covered = redactor.reader(text.as_bytes());
            let mut total = 0;
            loop {
                match covered.read(&mut buffer).unwrap() {
                    0 => break,
                    read => total += read,
                }
            }
            assert_eq!(total, text.len(), "nothing was to be covered");
            began.elapsed()
        };
        let best = (0..ROUNDS).map(|_| read_all()).min().unwrap();
        let speed = text.len() as f64 / best.as_secs_f64() / 1e9;
        println!("{count} secrets: made in {built:.1?}, {speed:.2} GB/s");
    }
}

fn letters(of: &[u8], next: &mut impl FnMut(usize) -> usize, length: std::ops::Range<usize>) -> String {
    let length = length.start + next(length.len());
    (0..length).map(|_| char::from(of[next(of.len())])).collect()
}
