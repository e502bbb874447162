//! A search for the place of a hunk in a file.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;

use super::{Hunk, Line};

/// A strictness of line comparison, the strictest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// Byte by byte.
    Exact,
    /// Line contents without the line end.
    LineEnd,
    /// Line contents without trailing white space.
    Trailing,
    /// Line contents without white space at both ends, and with each inner run of white space as
    /// one blank.
    WhiteSpace,
}

/// Maximum number of line comparisons per file, after which a patch is refused: some seconds of
/// work.
const MAX_WORK: usize = 50_000_000;

/// A place that was found, and the strictness of the match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HunkPlace {
    /// The first line, counted from 0.
    pub(super) at: usize,
    pub(super) level: Level,
}

/// A reason why no place was found for a hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PlaceError {
    Nowhere,
    /// Lines, counted from 0.
    Several(Vec<usize>),
    /// An anchor that the file does not have.
    Anchor(String),
    TooMuchWork,
}

/// Maximum number of places that are reported.
const MAX_PLACES: usize = 5;

/// The lines of a file, indexed for searches.
pub(super) struct Target<'a> {
    pub(super) lines: Vec<&'a [u8]>,
    /// Line numbers by hash of the line, for each level that was needed.
    indexes: [Option<HashMap<u64, Vec<usize>>>; 4],
    work: usize,
}

impl<'a> Target<'a> {
    pub(super) fn of(text: &'a [u8]) -> Self {
        let lines = text.split_inclusive(|byte| *byte == b'\n').collect();
        Self { lines, indexes: [None, None, None, None], work: 0 }
    }

    /// Finds the place of the hunk in the lines from `from` on.
    ///
    /// `said` is the line in the hunk's header, counted from 0. The hunk matches there even if
    /// other places match too; elsewhere the match must be unique.
    pub(super) fn find(
        &mut self,
        hunk: &Hunk,
        from: usize,
        said: Option<usize>,
    ) -> Result<HunkPlace, PlaceError> {
        let old: Vec<&Line> = hunk.old().collect();
        if let Some(said) = said.filter(|said| *said >= from) {
            for level in [Level::Exact, Level::LineEnd] {
                if self.fits(hunk, &old, said, level) {
                    return Ok(HunkPlace { at: said, level });
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
                [at] => return Ok(HunkPlace { at: *at, level }),
                [..] => return Err(PlaceError::Several(places)),
            }
        }
        Err(PlaceError::Nowhere)
    }

    /// Returns the line with the last of the hunk's anchors, if the first anchor is unique. Returns
    /// `None` if the hunk has no anchors, or if the first one is ambiguous.
    pub(super) fn behind(&mut self, hunk: &Hunk, from: usize) -> Result<Option<usize>, PlaceError> {
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
                ([], _) => return Err(PlaceError::Anchor(anchor.clone())),
                ([only], _) => begin = Some(*only),
                // After a first unique anchor, the next match of each further anchor counts.
                ([first, ..], Some(_)) => begin = Some(*first),
                ([..], None) => return Ok(None),
            }
        }
        Ok(begin)
    }

    /// Returns the first places at which the hunk matches, at most [`MAX_PLACES`].
    fn places(
        &mut self,
        hunk: &Hunk,
        old: &[&Line],
        from: usize,
        level: Level,
    ) -> Result<Vec<usize>, PlaceError> {
        let rarest = (0..old.len()).min_by_key(|index| self.positions(old[*index], level).len());
        let Some(rarest) = rarest else { return Ok(Vec::new()) };
        let candidates = self.positions(old[rarest], level).to_vec();
        let mut places = Vec::new();
        for position in candidates {
            self.work += old.len();
            if self.work > MAX_WORK {
                return Err(PlaceError::TooMuchWork);
            }
            let Some(at) = position.checked_sub(rarest).filter(|at| *at >= from) else { continue };
            if self.fits(hunk, old, at, level) {
                places.push(at);
                if places.len() == MAX_PLACES {
                    break;
                }
            }
        }
        Ok(places)
    }

    fn fits(&self, hunk: &Hunk, old: &[&Line], at: usize, level: Level) -> bool {
        let Some(there) = self.lines.get(at..at + old.len()) else { return false };
        let at_end = at + old.len() == self.lines.len();
        // A last line without a line end matches only at the end of the file.
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

/// Returns a line without its LF or CRLF.
pub(super) fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn hash(key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(key);
    hasher.finish()
}
