//! Choice of the next token.

use std::collections::BinaryHeap;

/// Random numbers from a seed (`SplitMix64`), the same on every machine.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    /// Creates the numbers of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number above 0 and below 1.
    pub(crate) fn share(&mut self) -> f64 {
        let high = u32::try_from(self.next() >> 32).unwrap_or(0);
        (f64::from(high) + 0.5) / 4_294_967_296.0
    }
}

/// Token with its score. Among equal scores the lowest token is first.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Scored {
    score: f64,
    token: u32,
}

impl Eq for Scored {}

impl PartialOrd for Scored {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scored {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.score.total_cmp(&other.score).then(other.token.cmp(&self.token))
    }
}

/// Returns the next token among those that `accepts`: the likeliest at temperature 0, else one at random
/// by its likelihood. `None` if none is accepted.
///
/// The highest of the scores, each with a random addend of Gumbel's distribution, is a fair draw. So the
/// draw among accepted tokens is the first accepted one from the top.
pub(crate) fn pick(
    logits: &[f32],
    temperature: f64,
    dice: &mut Dice,
    mut accepts: impl FnMut(u32) -> bool,
) -> Option<u32> {
    let scored: Vec<Scored> = (0_u32..)
        .zip(logits)
        .filter(|(_, logit)| logit.is_finite())
        .map(|(token, logit)| {
            let logit = f64::from(*logit);
            let score =
                if temperature > 0.0 { logit / temperature - (-dice.share().ln()).ln() } else { logit };
            Scored { score, token }
        })
        .collect();
    let first = scored.iter().max().copied()?;
    if accepts(first.token) {
        return Some(first.token);
    }
    let mut scored = BinaryHeap::from(scored);
    scored.pop();
    while let Some(Scored { token, .. }) = scored.pop() {
        if accepts(token) {
            return Some(token);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likeliest_accepted_token_is_taken_at_temperature_0() {
        let logits = [1.0, 5.0, f32::NAN, 5.0, 3.0];
        let mut dice = Dice::new(1);
        assert_eq!(pick(&logits, 0.0, &mut dice, |_| true), Some(1));
        assert_eq!(pick(&logits, 0.0, &mut dice, |token| token != 1), Some(3));
        assert_eq!(pick(&logits, 0.0, &mut dice, |token| token == 0), Some(0));
        assert_eq!(
            pick(&logits, 0.0, &mut dice, |token| token == 2),
            None,
            "what is no number is no candidate"
        );
        assert_eq!(pick(&[], 0.0, &mut dice, |_| true), None);
    }

    #[test]
    fn draws_follow_the_likelihoods_of_the_accepted_tokens() {
        let logits = [0.0, 2.0_f32.ln(), 9.0, 3.0_f32.ln()];
        let mut dice = Dice::new(7);
        let mut counts = [0_u32; 4];
        for _ in 0..6_000 {
            let token = pick(&logits, 1.0, &mut dice, |token| token != 2).unwrap();
            counts[usize::try_from(token).unwrap()] += 1;
        }
        for (count, right) in counts.iter().zip([1_000_u32, 2_000, 0, 3_000]) {
            assert!(count.abs_diff(right) < 150, "{counts:?}");
        }
    }
}
