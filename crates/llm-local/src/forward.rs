//! Passes of tokens through the network, which keep the keys and values of all tokens before.

use simd::Level;

use crate::matrix::Rows;
use crate::weights::{Layer, Network, Sizes};

/// Keys and values of the tokens so far.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    tokens: usize,
    /// Keys and values of each layer, token by token.
    layers: Vec<[Vec<f32>; 2]>,
}

/// Buffers of a pass, which the next one uses again.
#[derive(Debug, Default)]
pub(crate) struct Room {
    rows: Rows,
    state: Vec<f32>,
    normed: Vec<f32>,
    query: Vec<f32>,
    key: Vec<f32>,
    value: Vec<f32>,
    context: Vec<f32>,
    gate: Vec<f32>,
    up: Vec<f32>,
    added: Vec<f32>,
    scores: Vec<f32>,
    /// Cosine and sine of each pair of a head, for each token of the pass.
    angles: Vec<[f32; 2]>,
}

impl Cache {
    /// Forgets everything after the first `tokens` tokens.
    pub(crate) fn truncate(&mut self, tokens: usize, sizes: &Sizes) {
        self.tokens = self.tokens.min(tokens);
        for part in self.layers.iter_mut().flatten() {
            part.truncate(self.tokens * sizes.head * sizes.shared_heads);
        }
    }
}

/// Takes tokens through the network. The numbers of the last one remain in `room`, for [`logits`].
pub(crate) fn pass(network: &Network, level: Level, tokens: &[u32], cache: &mut Cache, room: &mut Room) {
    let sizes = &network.sizes;
    room.state.clear();
    for token in tokens {
        network.words.row(usize::try_from(*token).unwrap_or(0), &mut room.state);
    }
    find_angles(sizes, cache.tokens, tokens.len(), &mut room.angles);
    cache.layers.resize_with(network.layers.len(), Default::default);
    for (layer, kept) in network.layers.iter().zip(&mut cache.layers) {
        attend(layer, sizes, level, cache.tokens, kept, room);
        widen(layer, sizes, level, room);
    }
    cache.tokens += tokens.len();
}

/// Computes the score of every token of the vocabulary to come next.
pub(crate) fn logits(network: &Network, level: Level, room: &mut Room, out: &mut Vec<f32>) {
    let width = network.sizes.width;
    let first = room.state.len().saturating_sub(width);
    normalise(&room.state[first..], &network.norm, network.sizes.epsilon, &mut room.normed);
    room.rows.set(&room.normed, width);
    network.last().multiply(level, &room.rows, out);
}

/// Computes the angles of positions from `first` on.
fn find_angles(sizes: &Sizes, first: usize, count: usize, angles: &mut Vec<[f32; 2]>) {
    let exact = |number: usize| f64::from(u32::try_from(number).unwrap_or(u32::MAX));
    angles.clear();
    for position in first..first + count {
        for pair in 0..sizes.head / 2 {
            let power = -2.0 * exact(pair) / exact(sizes.head);
            let (sine, cosine) = (exact(position) * f64::from(sizes.base).powf(power)).sin_cos();
            angles.push([narrow(cosine), narrow(sine)]);
        }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the network computes in floats of 32 bits")]
fn narrow(number: f64) -> f32 {
    number as f32
}

/// Turns each pair of numbers of each head by the angle of its token's position.
fn turn(rows: &mut [f32], width: usize, head: usize, angles: &[[f32; 2]]) {
    for (row, angles) in rows.chunks_exact_mut(width).zip(angles.chunks_exact(head / 2)) {
        for head in row.chunks_exact_mut(head) {
            for ([one, other], [cosine, sine]) in head.as_chunks_mut::<2>().0.iter_mut().zip(angles) {
                (*one, *other) = (*one * cosine - *other * sine, *one * sine + *other * cosine);
            }
        }
    }
}

/// Divides each row by the root of its mean square, and multiplies it by `gain`.
fn normalise(rows: &[f32], gain: &[f32], epsilon: f32, out: &mut Vec<f32>) {
    out.clear();
    let width = gain.len().max(1);
    let share = 1.0 / f32::from(u16::try_from(width).unwrap_or(u16::MAX));
    for row in rows.chunks_exact(width) {
        let squares: f32 = row.iter().map(|number| number * number).sum();
        let factor = 1.0 / (squares * share + epsilon).sqrt();
        out.extend(row.iter().zip(gain).map(|(number, gain)| number * factor * gain));
    }
}

fn add(state: &mut [f32], added: &[f32]) {
    state.iter_mut().zip(added).for_each(|(number, added)| *number += added);
}

fn attend(
    layer: &Layer,
    sizes: &Sizes,
    level: Level,
    before: usize,
    kept: &mut [Vec<f32>; 2],
    room: &mut Room,
) {
    let (width, head) = (sizes.width, sizes.head);
    let shared = head * sizes.shared_heads;
    normalise(&room.state, &layer.attention_norm, sizes.epsilon, &mut room.normed);
    room.rows.set(&room.normed, width);
    layer.query.multiply(level, &room.rows, &mut room.query);
    layer.key.multiply(level, &room.rows, &mut room.key);
    layer.value.multiply(level, &room.rows, &mut room.value);
    turn(&mut room.query, width, head, &room.angles);
    turn(&mut room.key, shared, head, &room.angles);
    let [keys, values] = kept;
    keys.extend_from_slice(&room.key);
    values.extend_from_slice(&room.value);
    room.context.clear();
    room.context.resize(room.query.len(), 0.0);
    let scale = 1.0 / f32::from(u16::try_from(head).unwrap_or(u16::MAX)).sqrt();
    let group = sizes.heads / sizes.shared_heads;
    let rows = room.query.chunks_exact(width).zip(room.context.chunks_exact_mut(width));
    for (token, (queries, contexts)) in rows.enumerate() {
        let heads = queries.chunks_exact(head).zip(contexts.chunks_exact_mut(head));
        for (number, (query, context)) in heads.enumerate() {
            let at = number / group * head;
            let seen = (before + token + 1) * shared;
            let of_head = |all| -> std::iter::Take<_> { parts(all, shared, at, head).take(seen / shared) };
            room.scores.clear();
            room.scores.extend(of_head(keys).map(|key| simd::dot(level, query, key) * scale));
            soften(&mut room.scores);
            for (score, value) in room.scores.iter().zip(of_head(values)) {
                context.iter_mut().zip(value).for_each(|(sum, number)| *sum += score * number);
            }
        }
    }
    room.rows.set(&room.context, width);
    layer.output.multiply(level, &room.rows, &mut room.added);
    add(&mut room.state, &room.added);
}

/// Returns the numbers from `at` of each row.
fn parts(rows: &[f32], width: usize, at: usize, length: usize) -> impl Iterator<Item = &[f32]> {
    rows.chunks_exact(width).map(move |row| row.get(at..at + length).unwrap_or_default())
}

/// Makes scores shares of 1.
fn soften(scores: &mut [f32]) {
    let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for score in &mut *scores {
        *score = (*score - largest).exp();
        sum += *score;
    }
    let inverse = 1.0 / sum;
    for score in scores {
        *score *= inverse;
    }
}

fn widen(layer: &Layer, sizes: &Sizes, level: Level, room: &mut Room) {
    normalise(&room.state, &layer.wide_norm, sizes.epsilon, &mut room.normed);
    room.rows.set(&room.normed, sizes.width);
    layer.gate.multiply(level, &room.rows, &mut room.gate);
    layer.up.multiply(level, &room.rows, &mut room.up);
    for (gate, up) in room.gate.iter_mut().zip(&room.up) {
        *gate = *gate / (1.0 + (-*gate).exp()) * up;
    }
    room.rows.set(&room.gate, sizes.wide);
    layer.down.multiply(level, &room.rows, &mut room.added);
    add(&mut room.state, &room.added);
}
