//! Secrets never leave: known values are replaced by their names in everything that is shown or stored, in whatever form they come.
//!
//! | form | where it comes from |
//! |---|---|
//! | as it is, and of several lines each long one | a file, a message |
//! | in JSON, also within JSON, also in ASCII alone | a log, a body |
//! | quoted for a shell, in four ways | a trace, a script |
//! | percent-encoded, in either case, however much of it | a URL, a form |
//! | hexadecimal, base64 in all three alignments, both alphabets, also broken into lines | a header, `base64 FILE`, `xxd -p` |
//!
//! What somebody transforms in any other way is not found: this keeps secrets from slipping out, and holds nobody who means to
//! get them out and has them. Such a one never gets them: they are put in on the way out.

mod forms;
mod json;
mod matcher;

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use serde_json::Value;
use tool::{CoveredStream, Covering, Data, Progress};
use vault::{Contents, Locked, Vault};

use matcher::{Found, LEAST, Matcher};

/// The secrets of this runtime and what stands in their place. Copies know the same.
#[derive(Clone)]
pub struct Redactor(Arc<Shared>);

struct Shared {
    vault: Option<Arc<Vault>>,
    /// What was last read of the vault.
    seen: Mutex<Option<Arc<Contents>>>,
    known: RwLock<Arc<Known>>,
}

/// All secrets so far, and what finds them. One that was replaced or removed is still covered as long as this runtime lives.
struct Known {
    names: Vec<(String, Range<usize>)>,
    values: Locked,
    matcher: Matcher,
}

/// Progress with every secret covered.
pub(crate) struct CoveredProgress {
    /// Where it goes.
    pub(crate) to: Arc<dyn Progress>,
    /// What covers it.
    pub(crate) redactor: Redactor,
}

impl Progress for CoveredProgress {
    fn report(&self, done: u64, total: Option<u64>, message: &str) {
        let covered = self.redactor.text(message);
        self.to.report(done, total, covered.as_deref().unwrap_or(message));
    }
}

impl Default for Redactor {
    fn default() -> Self {
        Self::new([])
    }
}

impl Redactor {
    /// A redactor for named values. Values under 12 bytes are left out: replacing a common short text would tell what it is.
    pub fn new(secrets: impl IntoIterator<Item = (String, String)>) -> Self {
        let secrets: Vec<_> = secrets.into_iter().collect();
        Self::of(None, Known::new(secrets.iter().map(|(name, value)| (name.as_str(), value.as_bytes()))))
    }

    /// The same, and every value of the vault, as it is each time that [`Redactor::refresh`] looks.
    #[must_use]
    pub fn with_vault(self, vault: Arc<Vault>) -> Self {
        let redactor = Self::of(Some(vault), Known::new(self.known().iter()));
        redactor.refresh();
        redactor
    }

    fn of(vault: Option<Arc<Vault>>, known: Known) -> Self {
        Self(Arc::new(Shared { vault, seen: Mutex::default(), known: RwLock::new(Arc::new(known)) }))
    }

    fn known(&self) -> Arc<Known> {
        self.0.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gets to know what others have put into the vault. What cannot be read because it is locked is not known to this process at
    /// all, so that nothing of it can leave here.
    pub fn refresh(&self) {
        let Some(Ok(contents)) = self.0.vault.as_ref().map(|vault| vault.contents()) else { return };
        let mut seen = self.0.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.as_ref().is_some_and(|seen| Arc::ptr_eq(seen, &contents)) {
            return;
        }
        let known = self.known();
        let is_new = |value: &[u8]| !known.iter().any(|(_, known)| known == value);
        let new: Vec<_> = contents.iter().filter(|(_, value)| is_new(value)).collect();
        if !new.is_empty() {
            let new = new.into_iter().map(|(entry, value)| (entry.name.as_str(), value));
            let all = Arc::new(Known::new(known.iter().chain(new)));
            *self.0.known.write().unwrap_or_else(PoisonError::into_inner) = all;
        }
        *seen = Some(contents);
    }

    /// The text with every secret covered.
    pub fn text(&self, text: &str) -> Option<String> {
        self.known().text(text)
    }

    /// [`Redactor::value`] for data of either form. What its tool has written stays so where no secret is in it.
    ///
    /// # Errors
    /// Where what was written cannot be read.
    pub fn data(&self, data: Data) -> serde_json::Result<Data> {
        let known = self.known();
        if let Data::Written(written) = &data
            && !known.matcher.finds_any(written.as_str().as_bytes())
        {
            return Ok(data);
        }
        let mut value = data.into_value()?;
        known.value(&mut value);
        Ok(value.into())
    }

    /// Covers every secret in every string of a value, keys included.
    pub fn value(&self, value: &mut Value) {
        self.known().value(value);
    }

    /// Finds the secrets that a caller has sent in these arguments.
    pub(crate) fn sent_in(&self, arguments: &Value) -> Sent {
        let mut sent = Sent::default();
        let known = self.known();
        if !known.matcher.is_empty() {
            known.sent_in(arguments, &mut sent);
        }
        sent
    }

    /// Finds the secrets in these texts of a caller.
    pub fn sent_among<'a>(&self, texts: impl IntoIterator<Item = &'a str>) -> Sent {
        let known = self.known();
        let found = |text: &str| known.matcher.find(text.as_bytes()).into_iter().map(|found| found.owner);
        Sent(texts.into_iter().flat_map(found).collect())
    }

    /// Covers every secret in a text, and the beginnings of those that its caller has sent: what repeats a text of a caller may have cut
    /// it.
    pub fn text_for(&self, text: &str, sent: &Sent) -> Option<String> {
        let known = self.known();
        if sent.0.is_empty() {
            return known.text(text);
        }
        let mut parts = known.matcher.find_parts(text.as_bytes(), &sent.0, PART);
        // Two characters may begin with the same bytes.
        for found in &mut parts {
            found.at.end = text.floor_char_boundary(found.at.end);
        }
        known.covered(text, parts)
    }

    /// Covers every secret in what leaves through a door, whoever put it there: a message of JSON value by value, so that it stays JSON,
    /// and any other text as it stands. None where it holds no secret.
    pub fn message(&self, message: &[u8]) -> Option<Vec<u8>> {
        let known = self.known();
        if !known.matcher.finds_any(message) {
            return None;
        }
        if let Some(covered) = std::str::from_utf8(message).ok().and_then(|message| known.json(message)) {
            return Some(covered.into_bytes());
        }
        let (mut pending, mut covered) = (message.to_vec(), Vec::with_capacity(message.len()));
        known.settle(&mut pending, &mut covered, true);
        Some(covered)
    }

    /// Whether there is nothing to cover.
    pub fn is_empty(&self) -> bool {
        self.known().matcher.is_empty()
    }

    /// The same for a stream that is handed in piece by piece.
    pub fn pieces(&self) -> Pieces {
        self.refresh();
        Pieces { known: self.known(), pending: Vec::new(), found: 0 }
    }

    /// A stream with every secret covered, also where one lies across two reads.
    pub fn reader<R: Read>(&self, from: R) -> Covered<R> {
        self.refresh();
        let known = self.known();
        Covered { known, from, pending: Vec::new(), ready: Vec::new(), given: 0, ended: false }
    }
}

impl Known {
    fn new<'a>(secrets: impl Iterator<Item = (&'a str, &'a [u8])>) -> Self {
        let secrets: Vec<_> = secrets.filter(|(_, value)| value.len() >= LEAST).collect();
        let mut values = Locked::zeroed(secrets.iter().map(|(_, value)| value.len()).sum());
        let (mut names, mut forms, mut filled) = (Vec::new(), Vec::new(), 0);
        for (owner, (name, value)) in secrets.into_iter().enumerate() {
            let at = filled..filled + value.len();
            values[at.clone()].copy_from_slice(value);
            filled = at.end;
            names.push((name.to_owned(), at));
            forms.extend(forms::forms(value, LEAST).into_iter().map(|form| (owner, form)));
        }
        Self { matcher: Matcher::new(&forms), names, values }
    }

    fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.names.iter().map(|(name, at)| (name.as_str(), &self.values[at.clone()]))
    }

    fn cover(&self, owner: usize) -> String {
        let name = self.names.get(owner).map_or("", |(name, _)| name.as_str());
        format!("[SECRET:{name}]")
    }

    // BOUNDED: by the depth of JSON that is read, 128.
    fn sent_in(&self, arguments: &Value, sent: &mut Sent) {
        let mut look = |text: &str| {
            sent.0.extend(self.matcher.find(text.as_bytes()).into_iter().map(|found| found.owner));
        };
        match arguments {
            Value::String(text) => look(text),
            Value::Array(items) => items.iter().for_each(|item| self.sent_in(item, sent)),
            Value::Object(map) => {
                map.keys().for_each(|key| look(key));
                map.values().for_each(|item| self.sent_in(item, sent));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn text(&self, text: &str) -> Option<String> {
        self.covered(text, self.matcher.find(text.as_bytes()))
    }

    fn covered(&self, text: &str, all: Vec<Found>) -> Option<String> {
        if all.is_empty() {
            return None;
        }
        let mut covered = String::with_capacity(text.len());
        let mut at = 0;
        for found in all {
            // A value begins and ends between characters; a part of base64 or of hexadecimal does too, being ASCII.
            covered.push_str(text.get(at..found.at.start).unwrap_or_default());
            covered.push_str(&self.cover(found.owner));
            at = found.at.end;
        }
        covered.push_str(text.get(at..).unwrap_or_default());
        Some(covered)
    }

    // BOUNDED: by the depth of JSON that is read, 128.
    fn value(&self, value: &mut Value) {
        if self.matcher.is_empty() {
            return;
        }
        match value {
            Value::String(text) => {
                if let Some(covered) = self.text(text) {
                    *text = covered;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(map) => {
                let keys: Vec<String> = map.keys().filter(|key| self.text(key).is_some()).cloned().collect();
                for key in keys {
                    if let (Some(covered), Some(item)) = (self.text(&key), map.shift_remove(&key)) {
                        map.insert(covered, item);
                    }
                }
                map.values_mut().for_each(|item| self.value(item));
            }
            // A value of digits alone may come as a number.
            Value::Number(number) if number.as_f64().is_none_or(is_long) => {
                if let Some(covered) = self.text(&number.to_string()) {
                    *value = covered.into();
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Moves what is settled from `pending` to `covered`: everything, or all but what could still be a part of a secret. Counts the
    /// secrets in it.
    fn settle(&self, pending: &mut Vec<u8>, covered: &mut Vec<u8>, ended: bool) -> u64 {
        let all = self.matcher.find(pending);
        let settled = if ended { pending.len() } else { self.settled(pending, &all) };
        let (mut at, mut count) = (0, 0);
        for found in all.into_iter().take_while(|found| found.at.start < settled) {
            covered.extend_from_slice(&pending[at..found.at.start]);
            covered.extend_from_slice(self.cover(found.owner).as_bytes());
            at = found.at.end;
            count += 1;
        }
        if at < settled {
            covered.extend_from_slice(&pending[at..settled]);
            at = settled;
        }
        pending.drain(..at);
        count
    }
}

impl Known {
    /// How much of what has come can go on: all but what may be the beginning of a secret, and what a secret overlaps with that may
    /// be one.
    fn settled(&self, pending: &[u8], all: &[Found]) -> usize {
        let begun = self.matcher.begun(pending);
        let across = all.iter().find(|found| found.at.start < begun && found.at.end > begun);
        // Where one overlaps with the next for ever, it goes on all the same: what is behind so much is there as a whole.
        let most = pending.len().saturating_sub(2 * self.matcher.reach());
        across.map_or(begun, |found| found.at.start).max(most)
    }
}

/// Bytes of the beginning of a secret that are covered where its caller has sent it.
const PART: usize = 6;

/// The secrets that a caller has sent, as the redactor numbers them. A number stays that of its secret.
#[derive(Debug, Default)]
pub struct Sent(BTreeSet<usize>);

/// Tells whether a number may be written with as many characters as the shortest secret has.
fn is_long(number: f64) -> bool {
    number.abs() >= 1e10 || number.fract() != 0.0
}

/// See [`Redactor::pieces`].
pub struct Pieces {
    known: Arc<Known>,
    pending: Vec<u8>,
    found: u64,
}

impl Pieces {
    /// What of the stream is settled, now that this piece has come, or nothing comes any more.
    pub fn next(&mut self, piece: &[u8], ended: bool) -> Vec<u8> {
        self.pending.extend_from_slice(piece);
        let mut covered = Vec::with_capacity(self.pending.len());
        self.found += self.known.settle(&mut self.pending, &mut covered, ended);
        covered
    }

    /// A text beside the stream with every secret covered; none where there is none in it.
    pub fn text(&self, text: &str) -> Option<String> {
        self.known.text(text)
    }
}

impl CoveredStream for Pieces {
    fn next(&mut self, piece: &[u8], ended: bool) -> Vec<u8> {
        Self::next(self, piece, ended)
    }

    fn held(&self) -> usize {
        self.pending.len()
    }

    fn covered(&self) -> u64 {
        self.found
    }
}

impl Covering for Redactor {
    fn text(&self, text: &str) -> Option<String> {
        self.refresh();
        Self::text(self, text)
    }

    fn stream(&self) -> Box<dyn CoveredStream> {
        Box::new(self.pieces())
    }
}

/// See [`Redactor::reader`].
pub struct Covered<R> {
    known: Arc<Known>,
    from: R,
    pending: Vec<u8>,
    ready: Vec<u8>,
    given: usize,
    ended: bool,
}

/// Bytes that are read at a time, at least.
const READ_AT_ONCE: usize = 64 * 1024;

impl<R: Read> Read for Covered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.given == self.ready.len() && !self.ended {
            self.ready.clear();
            self.given = 0;
            // So much that what is held back is not looked at again for little.
            let more = READ_AT_ONCE.max(4 * self.known.matcher.reach());
            let read = (&mut self.from).take(more as u64).read_to_end(&mut self.pending)?;
            self.ended = read == 0;
            let _found = self.known.settle(&mut self.pending, &mut self.ready, self.ended);
        }
        let count = buffer.len().min(self.ready.len() - self.given);
        buffer[..count].copy_from_slice(&self.ready[self.given..self.given + count]);
        self.given += count;
        Ok(count)
    }
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Redactor").field(&self.known().names.len()).finish()
    }
}

#[cfg(test)]
mod tests;
