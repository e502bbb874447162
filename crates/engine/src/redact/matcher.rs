//! Finds many texts at once, as fast as memory is read.
//!
//! A text of at least [`LEAST`] bytes holds, wherever it lies, one of its first [`STRIDE`] pieces of [`PIECE`] bytes at a place that
//! is a multiple of [`STRIDE`]. So only each such place is looked at: whether a bit is set for the six bytes there. Where it is, the
//! few texts that have these bytes there are compared.
//!
//! Where a text may be written in pieces ([`Spelling`]), its first [`LEAST`] characters may have something between them. Wherever
//! something of that kind stands, the six characters from each place before it on are looked up without it.
//! An automaton for ten thousand texts does not fit into the processor's caches; these bits do.

mod begun;
mod pieces;
mod spelling;

use std::ops::Range;

use vault::Locked;

use self::begun::Beginnings;
use self::pieces::Dump;
pub(super) use self::spelling::Spelling;
use self::spelling::{LONGEST_GAP, Reach, follow};
use super::forms::Form;

/// The shortest text that is found, in bytes.
pub(super) const LEAST: usize = 12;
const PIECE: usize = 6;
const STRIDE: usize = LEAST - PIECE + 1;
/// Bits for each piece: one in so many places is looked at more closely in vain.
const BITS_EACH: usize = 32;
/// Fewest and most bits, as powers of two: 8 KiB, and 1 MiB, which is the second cache of most processors.
const BITS: Range<u32> = 16..23;
/// Bits that one bucket of entries is for.
const BUCKET: usize = 8;
/// The texts, and what finds them.
pub(super) struct Matcher {
    bytes: Locked,
    texts: Vec<Text>,
    /// A bit for each piece, by its hash.
    bits: Vec<u64>,
    /// By hash as well: where the entries of a bucket begin in `entries`.
    buckets: Vec<u32>,
    entries: Vec<Entry>,
    beginnings: Beginnings,
    multiplier: u64,
    /// How far a text may reach, line breaks within it included.
    reach: usize,
}

struct Text {
    at: Range<usize>,
    /// To whom it belongs.
    owner: usize,
    spelling: Spelling,
}

impl Text {
    /// Bytes that it may take where it is found.
    fn most(&self) -> usize {
        let length = self.at.len();
        match self.spelling {
            Spelling::Exact => length,
            Spelling::Percent => 3 * length,
            Spelling::Lines => 3 * length + 2 * LONGEST_GAP,
            Spelling::Digits => 4 * length + 3 * LONGEST_GAP,
        }
    }
}

/// A piece: in which text, and where in it.
#[derive(Clone, Copy)]
struct Entry {
    text: u32,
    offset: u8,
}

/// Where a text was found, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) at: Range<usize>,
    pub(super) owner: usize,
}

impl Matcher {
    /// Of forms, each with its owner. Those under [`LEAST`] bytes are never found.
    pub(super) fn new(forms: &[(usize, Form)]) -> Self {
        let forms = || forms.iter().filter(|(_, form)| form.text.len() >= LEAST);
        let mut bytes = Locked::zeroed(forms().map(|(_, form)| form.text.len()).sum());
        let mut texts = Vec::new();
        let mut filled = 0;
        for (owner, form) in forms() {
            let at = filled..filled + form.text.len();
            bytes[at.clone()].copy_from_slice(&form.text);
            filled = at.end;
            texts.push(Text { at, owner: *owner, spelling: form.spelling });
        }
        let pieces = texts.len() * STRIDE;
        let log = (pieces * BITS_EACH).next_power_of_two().ilog2().clamp(BITS.start, BITS.end);
        let mut seed = [0_u8; 8];
        // Without chance it finds the same; only which texts fall together can then be foreseen.
        let _ = getrandom::fill(&mut seed);
        let multiplier = u64::from_le_bytes(seed) | 1 << 63 | 1;
        let reach = texts.iter().map(Text::most).max().unwrap_or(0);
        let beginnings = Beginnings::of(&texts, &bytes);
        let mut matcher = Self {
            bytes,
            texts,
            bits: vec![0; 1 << (log - 6)],
            buckets: Vec::new(),
            entries: Vec::new(),
            beginnings,
            multiplier,
            reach,
        };
        matcher.fill();
        matcher
    }

    fn fill(&mut self) {
        let mut placed = Vec::with_capacity(self.texts.len() * STRIDE);
        for (number, text) in (0_u32..).zip(&self.texts) {
            let bytes = &self.bytes[text.at.clone()];
            for offset in 0..STRIDE {
                let Some(piece) = bytes.get(offset..offset + PIECE) else { continue };
                let hash = self.hash(word(piece));
                placed.push((hash, Entry { text: number, offset: u8::try_from(offset).unwrap_or(0) }));
            }
        }
        placed.sort_unstable_by_key(|(hash, _)| *hash);
        self.buckets = vec![0; self.bits.len() * 64 / BUCKET + 1];
        for (hash, entry) in placed {
            self.bits[hash / 64] |= 1 << (hash % 64);
            self.buckets[hash / BUCKET + 1] += 1;
            self.entries.push(entry);
        }
        let mut before = 0;
        for bucket in &mut self.buckets {
            before += *bucket;
            *bucket = before;
        }
    }

    /// Of six bytes; the two above them are left out.
    #[expect(clippy::cast_possible_truncation, reason = "fewer bits are left than an address has")]
    fn hash(&self, word: u64) -> usize {
        let log = self.bits.len().ilog2() + 6;
        ((word << 16).wrapping_mul(self.multiplier) >> (u64::BITS - log)) as usize
    }

    /// Bytes at the end of what has come so far that what comes next may still belong to.
    pub(super) fn reach(&self) -> usize {
        self.reach
    }

    /// Whether nothing is ever found.
    pub(super) fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Whether anything is there to be found.
    pub(super) fn finds_any(&self, within: &[u8]) -> bool {
        let mut any = false;
        self.look(within, |_, reach| {
            any = reach != Reach::Begun;
            !any
        });
        any
    }

    /// Everything that is found, in order; what overlaps is one, of the one that begins first and of those the longest.
    pub(super) fn find(&self, within: &[u8]) -> Vec<Found> {
        let mut all = Vec::new();
        self.look(within, |found, reach| {
            all.extend(Some(found).filter(|_| reach != Reach::Begun));
            true
        });
        all.sort_by(|one, other| (one.at.start, other.at.end).cmp(&(other.at.start, one.at.end)));
        let mut merged: Vec<Found> = Vec::new();
        for found in all {
            match merged.last_mut() {
                Some(last) if found.at.start < last.at.end => last.at.end = last.at.end.max(found.at.end),
                _ => merged.push(found),
            }
        }
        merged
    }

    /// Tells of each place where a text lies, or lies as far as it has come, until that is enough.
    fn look(&self, within: &[u8], mut tell: impl FnMut(Found, Reach) -> bool) {
        if self.is_empty() || within.len() < PIECE {
            return;
        }
        let (mut place, mut dump) = (0, Dump::default());
        // Eight bytes are read at once, of which six count.
        while let Some(word) = within.get(place..).and_then(|rest| rest.first_chunk::<8>()) {
            let word = u64::from_le_bytes(*word);
            let hash = self.hash(word);
            if self.is_set(hash) && !self.compare(within, place, hash, &mut tell) {
                return;
            }
            if Dump::may_hold(word) && !self.look_in_dump(within, place, &mut dump, &mut tell) {
                return;
            }
            place += STRIDE;
        }
        let mut last = [0_u8; 8];
        let rest = within.get(place..).unwrap_or_default();
        if rest.len() >= PIECE {
            last[..rest.len()].copy_from_slice(rest);
            let hash = self.hash(u64::from_le_bytes(last));
            if !self.compare(within, place, hash, &mut tell) {
                return;
            }
        }
        self.look_in_pieces(within, &mut tell);
    }

    fn is_set(&self, hash: usize) -> bool {
        self.bits[hash / 64] >> (hash % 64) & 1 == 1
    }

    /// The texts that may have a piece of this hash.
    fn entries_of(&self, hash: usize) -> &[Entry] {
        let (first, last) = (self.buckets[hash / BUCKET] as usize, self.buckets[hash / BUCKET + 1] as usize);
        self.entries.get(first..last).unwrap_or_default()
    }

    #[cold]
    fn compare(
        &self,
        within: &[u8],
        place: usize,
        hash: usize,
        tell: &mut impl FnMut(Found, Reach) -> bool,
    ) -> bool {
        self.entries_of(hash).iter().all(|entry| {
            let text = &self.texts[entry.text as usize];
            let offset = usize::from(entry.offset);
            let bytes = &self.bytes[text.at.clone()];
            let start = place.checked_sub(offset);
            let start = start.filter(|start| within[*start..place] == bytes[..offset]);
            start.is_none_or(|start| self.compare_from(within, start, text, tell))
        })
    }

    fn compare_from(
        &self,
        within: &[u8],
        start: usize,
        text: &Text,
        tell: &mut impl FnMut(Found, Reach) -> bool,
    ) -> bool {
        let bytes = &self.bytes[text.at.clone()];
        let rest = &within[start..];
        let there = rest.len().min(bytes.len());
        let reach = if rest[..there] != bytes[..there] {
            follow(within, start, bytes, text.spelling, text.most())
        } else if there == bytes.len() {
            Some(Reach::Whole(start + there))
        } else {
            Some(Reach::Begun)
        };
        let Some(reach) = reach else { return true };
        let end = match reach {
            Reach::Whole(end) | Reach::Open(end) => end,
            Reach::Begun => within.len(),
        };
        tell(Found { at: start..end, owner: text.owner }, reach)
    }
}

/// Six bytes as they are hashed.
fn word(piece: &[u8]) -> u64 {
    let mut word = [0_u8; 8];
    word[..PIECE].copy_from_slice(piece);
    u64::from_le_bytes(word)
}
