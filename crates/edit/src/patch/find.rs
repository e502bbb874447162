//! Where in a file the lines of a hunk are.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;

use super::{Hunk, Line};

/// How exactly lines are compared, from the strictest on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// Byte by byte.
    Exact,
    /// Without what ends the line.
    LineEnd,
    /// Without white space at its end.
    Trailing,
    /// Without the white space around it, and with any run of it within taken for one blank.
    WhiteSpace,
}

/// Comparisons of lines for one file, after which a patch is refused: some seconds of work.
const MOST_WORK: usize = 50_000_000;

/// A place that was found, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    /// The first line, counted from 0.
    pub(super) at: usize,
    pub(super) level: Level,
}

/// Why a hunk has no place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Missing {
    Nowhere,
    /// Lines counted from 0.
    Several(Vec<usize>),
    /// An anchor is not there.
    Anchor(String),
    TooMuchWork,
}

/// How many places are told of.
const MOST_PLACES: usize = 5;

/// The lines of a file, findable.
pub(super) struct Target<'a> {
    pub(super) lines: Vec<&'a [u8]>,
    /// For each level that was needed, where each line is, by its hash.
    indexes: [Option<HashMap<u64, Vec<usize>>>; 4],
    work: usize,
}

impl<'a> Target<'a> {
    pub(super) fn of(text: &'a [u8]) -> Self {
        let lines = text.split_inclusive(|byte| *byte == b'\n').collect();
        Self { lines, indexes: [None, None, None, None], work: 0 }
    }

    /// Where the hunk belongs, in the lines from `from` on.
    ///
    /// `said` is where its header says, counted from 0: there it need not be the only place. Anywhere else it must be.
    pub(super) fn find(&mut self, hunk: &Hunk, from: usize, said: Option<usize>) -> Result<Found, Missing> {
        let old: Vec<&Line> = hunk.old().collect();
        if let Some(said) = said.filter(|said| *said >= from) {
            for level in [Level::Exact, Level::LineEnd] {
                if self.fits(hunk, &old, said, level) {
                    return Ok(Found { at: said, level });
                }
            }
        }
        let begin = self.behind(hunk, from)?;
        for level in [Level::Exact, Level::LineEnd, Level::Trailing, Level::WhiteSpace] {
            let mut places = self.places(hunk, &old, from, level)?;
            if let Some(begin) = begin
                && let Some(first) = places.iter().copied().find(|place| *place >= begin)
            {
                places = vec![first];
            }
            match places.as_slice() {
                [] => {}
                [at] => return Ok(Found { at: *at, level }),
                [..] => return Err(Missing::Several(places)),
            }
        }
        Err(Missing::Nowhere)
    }

    /// The line with the last of the hunk's anchors, where the first of them is there once. None where there are none, or the
    /// anchors do not tell places apart.
    pub(super) fn behind(&mut self, hunk: &Hunk, from: usize) -> Result<Option<usize>, Missing> {
        let mut begin = None;
        for anchor in &hunk.anchors {
            let line = Line { sign: super::Sign::Context, text: anchor.clone(), ended: true };
            let start = begin.unwrap_or(from);
            let mut places = Vec::new();
            for level in [Level::LineEnd, Level::WhiteSpace] {
                places = self.positions(&line, level).iter().copied().filter(|at| *at >= start).collect();
                if !places.is_empty() {
                    break;
                }
            }
            match (places.as_slice(), begin) {
                ([], _) => return Err(Missing::Anchor(anchor.clone())),
                ([only], _) => begin = Some(*only),
                // Within what another anchor found, the next one counts.
                ([first, ..], Some(_)) => begin = Some(*first),
                ([..], None) => return Ok(None),
            }
        }
        Ok(begin)
    }

    /// The first few places at which the hunk fits.
    fn places(
        &mut self,
        hunk: &Hunk,
        old: &[&Line],
        from: usize,
        level: Level,
    ) -> Result<Vec<usize>, Missing> {
        let rarest = (0..old.len()).min_by_key(|index| self.positions(old[*index], level).len());
        let Some(rarest) = rarest else { return Ok(Vec::new()) };
        let candidates = self.positions(old[rarest], level).to_vec();
        let mut places = Vec::new();
        for position in candidates {
            self.work += old.len();
            if self.work > MOST_WORK {
                return Err(Missing::TooMuchWork);
            }
            let Some(at) = position.checked_sub(rarest).filter(|at| *at >= from) else { continue };
            if self.fits(hunk, old, at, level) {
                places.push(at);
                if places.len() == MOST_PLACES {
                    break;
                }
            }
        }
        Ok(places)
    }

    fn fits(&self, hunk: &Hunk, old: &[&Line], at: usize, level: Level) -> bool {
        let Some(there) = self.lines.get(at..at + old.len()) else { return false };
        let at_end = at + old.len() == self.lines.len();
        // A new last line without a line end can stand nowhere but at the end.
        let ends_file = hunk.at_end || hunk.lines.iter().any(|line| !line.ended);
        (at_end || !ends_file) && old.iter().zip(there).all(|(line, there)| is_same(line, there, level))
    }

    fn positions(&mut self, line: &Line, level: Level) -> &[usize] {
        let key = hash(&of_patch(line, level));
        let lines = &self.lines;
        let index = self.indexes[level as usize].get_or_insert_with(|| {
            let mut index: HashMap<u64, Vec<usize>> = HashMap::new();
            for (number, line) in lines.iter().enumerate() {
                index.entry(hash(&of_file(line, level))).or_default().push(number);
            }
            index
        });
        index.get(&key).map_or(&[], Vec::as_slice)
    }
}

fn is_same(line: &Line, there: &[u8], level: Level) -> bool {
    match level {
        Level::Exact => {
            there.strip_suffix(b"\n").map_or((there, false), |there| (there, true))
                == (line.text.as_bytes(), line.ended)
        }
        level => of_patch(line, level) == of_file(there, level),
    }
}

fn of_patch(line: &Line, level: Level) -> Cow<'_, [u8]> {
    if level == Level::Exact && line.ended {
        return Cow::Owned([line.text.as_bytes(), b"\n"].concat());
    }
    of_file(line.text.as_bytes(), level)
}

fn of_file(line: &[u8], level: Level) -> Cow<'_, [u8]> {
    match level {
        Level::Exact => Cow::Borrowed(line),
        Level::LineEnd => Cow::Borrowed(without_end(line)),
        Level::Trailing => Cow::Borrowed(line.trim_ascii_end()),
        Level::WhiteSpace => {
            let words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            Cow::Owned(words.collect::<Vec<_>>().join(&b' '))
        }
    }
}

/// A line without LF or CRLF.
pub(super) fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn hash(key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(key);
    hasher.finish()
}
