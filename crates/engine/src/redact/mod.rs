//! Redaction of secrets: known values are replaced by their names in everything that is shown or
//! stored, in each of these forms.
//!
//! | form | found in |
//! |---|---|
//! | unchanged, and each long line of a multi-line value | a file, a message |
//! | in JSON, also within JSON, in ASCII alone, and escaped for pages | a log, a body |
//! | in UTF-16 | a file of Windows |
//! | in HTML or XML, with named or numbered quotation marks | a page |
//! | quoted for a shell, in four ways | a trace, a script |
//! | percent-encoded, in either case, in part or in full | a URL, a form |
//! | hexadecimal, also broken into lines | `xxd -p` |
//! | base64 in all three alignments and both alphabets, also broken into lines | a header, `base64 FILE` |
//!
//! A value that is transformed in any other way is not found. Redaction prevents accidental leaks;
//! it does not stop a process that has a secret and wants to leak it. Such a process never gets the
//! secret, because the value is inserted on the way out.

mod forms;
mod json;
mod matcher;

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use serde_json::Value;
use tool::{CoveredStream, Data, Progress, Redaction};
use vault::{Contents, SecretBytes, Vault};

use matcher::{LEAST, Matcher, Occurrence};

/// Secrets of this runtime with their replacements. Clones share the same secrets.
#[derive(Clone)]
pub struct Redactor(Arc<Shared>);

struct Shared {
    vault: Option<Arc<Vault>>,
    /// Contents of the vault at the last refresh.
    seen: Mutex<Option<Arc<Contents>>>,
    known: RwLock<Arc<KnownSecrets>>,
}

/// All secrets so far, with their matcher. A secret that was replaced or removed is redacted until
/// this runtime ends.
struct KnownSecrets {
    names: Vec<(String, Range<usize>)>,
    values: SecretBytes,
    matcher: Matcher,
}

/// Progress receiver that redacts every secret.
pub(crate) struct CoveredProgress {
    /// Receiver of the redacted messages.
    pub(crate) to: Arc<dyn Progress>,
    /// Redactor for the messages.
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
    /// Creates a redactor for named values. Values under 12 bytes are left out, because the
    /// replacement of a common short text would disclose it.
    pub fn new(secrets: impl IntoIterator<Item = (String, String)>) -> Self {
        let secrets: Vec<_> = secrets.into_iter().collect();
        Self::of(
            None,
            KnownSecrets::new(secrets.iter().map(|(name, value)| (name.as_str(), value.as_bytes()))),
        )
    }

    /// Returns a redactor that also covers every value of the vault, as of the last
    /// [`Redactor::refresh`].
    #[must_use]
    pub fn with_vault(self, vault: Arc<Vault>) -> Self {
        let redactor = Self::of(Some(vault), KnownSecrets::new(self.known().iter()));
        redactor.refresh();
        redactor
    }

    fn of(vault: Option<Arc<Vault>>, known: KnownSecrets) -> Self {
        Self(Arc::new(Shared { vault, seen: Mutex::default(), known: RwLock::new(Arc::new(known)) }))
    }

    fn known(&self) -> Arc<KnownSecrets> {
        self.0.known.read().clone()
    }

    /// Adds the secrets that others have put into the vault. The values of a locked vault are
    /// unknown to this process, so it cannot leak them.
    pub fn refresh(&self) {
        let Some(Ok(contents)) = self.0.vault.as_ref().map(|vault| vault.contents()) else { return };
        let mut seen = self.0.seen.lock();
        if seen.as_ref().is_some_and(|seen| Arc::ptr_eq(seen, &contents)) {
            return;
        }
        let known = self.known();
        let is_new = |value: &[u8]| !known.iter().any(|(_, known)| known == value);
        let new: Vec<_> = contents.iter().filter(|(_, value)| is_new(value)).collect();
        if !new.is_empty() {
            let new = new.into_iter().map(|(entry, value)| (entry.name.as_str(), value));
            let all = Arc::new(KnownSecrets::new(known.iter().chain(new)));
            *self.0.known.write() = all;
        }
        *seen = Some(contents);
    }

    /// Redacts every secret in a text. Returns `None` if the text holds no secret.
    pub fn text(&self, text: &str) -> Option<String> {
        self.known().text(text)
    }

    /// Redacts data of either form like [`Redactor::value`]. Written JSON stays unchanged if it
    /// holds no secret.
    ///
    /// # Errors
    /// Returns an error if written JSON cannot be parsed.
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

    /// Redacts every secret in every string of a value, including keys.
    pub fn value(&self, value: &mut Value) {
        self.known().value(value);
    }

    /// Returns the secrets that a caller has sent in these arguments.
    pub(crate) fn sent_in(&self, arguments: &Value) -> SentSecrets {
        let mut sent = SentSecrets::default();
        let known = self.known();
        if !known.matcher.is_empty() {
            known.sent_in(arguments, &mut sent);
        }
        sent
    }

    /// Returns the secrets in these texts of a caller.
    pub fn sent_among<'a>(&self, texts: impl IntoIterator<Item = &'a str>) -> SentSecrets {
        let known = self.known();
        let found = |text: &str| known.matcher.find(text.as_bytes()).into_iter().map(|found| found.owner);
        SentSecrets(texts.into_iter().flat_map(found).collect())
    }

    /// Redacts every secret in a text, and also prefixes of the secrets that the caller has sent. A
    /// text that repeats the caller's text may have truncated it.
    pub fn text_for(&self, text: &str, sent: &SentSecrets) -> Option<String> {
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

    /// Redacts every secret in a message that leaves through a door, whoever wrote it. A JSON
    /// message is redacted value by value, so that it stays JSON; any other message is redacted as
    /// text. Returns `None` if the message holds no secret.
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

    /// Returns true if the redactor knows no secret.
    pub fn is_empty(&self) -> bool {
        self.known().matcher.is_empty()
    }

    /// Returns a redactor for a stream that arrives in chunks.
    pub fn pieces(&self) -> Pieces {
        self.refresh();
        Pieces { known: self.known(), pending: Vec::new(), found: 0 }
    }

    /// Returns a reader that redacts every secret, including secrets that are split between two reads.
    pub fn reader<R: Read>(&self, from: R) -> RedactingReader<R> {
        self.refresh();
        let known = self.known();
        RedactingReader { known, from, pending: Vec::new(), ready: Vec::new(), given: 0, ended: false }
    }
}

impl KnownSecrets {
    fn new<'a>(secrets: impl Iterator<Item = (&'a str, &'a [u8])>) -> Self {
        let secrets: Vec<_> = secrets.filter(|(_, value)| value.len() >= LEAST).collect();
        let mut values = SecretBytes::zeroed(secrets.iter().map(|(_, value)| value.len()).sum());
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
    fn sent_in(&self, arguments: &Value, sent: &mut SentSecrets) {
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

    fn covered(&self, text: &str, all: Vec<Occurrence>) -> Option<String> {
        if all.is_empty() {
            return None;
        }
        let mut covered = String::with_capacity(text.len());
        let mut at = 0;
        for found in all {
            // A value begins and ends between characters. So does a part of base64 or hexadecimal,
            // which is ASCII.
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
            // A value of digits alone may appear as a number.
            Value::Number(number) if number.as_f64().is_none_or(is_long) => {
                if let Some(covered) = self.text(&number.to_string()) {
                    *value = covered.into();
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Moves the final bytes from `pending` to `covered`: all bytes if the stream has ended,
    /// otherwise all but those that may still be part of a secret. Returns the number of secrets in
    /// them.
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

impl KnownSecrets {
    /// Returns the number of bytes that can be passed on: all but a possible beginning of a secret,
    /// and a secret that overlaps with this beginning.
    fn settled(&self, pending: &[u8], all: &[Occurrence]) -> usize {
        let begun = self.matcher.begun(pending);
        let across = all.iter().find(|found| found.at.start < begun && found.at.end > begun);
        // If one occurrence overlaps with the next without end, bytes are passed on all the same:
        // everything before twice the reach is complete.
        let most = pending.len().saturating_sub(2 * self.matcher.reach());
        across.map_or(begun, |found| found.at.start).max(most)
    }
}

/// Minimum number of bytes of a secret's prefix that is redacted if the caller has sent the secret.
const PART: usize = 6;

/// Secrets that a caller has sent, by their numbers in the redactor. A number never changes.
#[derive(Debug, Default)]
pub struct SentSecrets(BTreeSet<usize>);

/// Returns true if a number may be written with at least as many characters as the shortest secret has.
fn is_long(number: f64) -> bool {
    number.abs() >= 1e10 || number.fract() != 0.0
}

/// Redactor for a stream of chunks; see [`Redactor::pieces`].
pub struct Pieces {
    known: Arc<KnownSecrets>,
    pending: Vec<u8>,
    found: u64,
}

impl Pieces {
    /// Takes the next chunk and returns the bytes that are final. If `ended` is true, every byte is
    /// final.
    pub fn next(&mut self, piece: &[u8], ended: bool) -> Vec<u8> {
        self.pending.extend_from_slice(piece);
        let mut covered = Vec::with_capacity(self.pending.len());
        self.found += self.known.settle(&mut self.pending, &mut covered, ended);
        covered
    }

    /// Redacts every secret in a text next to the stream. Returns `None` if the text holds no secret.
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

impl Redaction for Redactor {
    fn text(&self, text: &str) -> Option<String> {
        self.refresh();
        Self::text(self, text)
    }

    fn stream(&self) -> Box<dyn CoveredStream> {
        Box::new(self.pieces())
    }
}

/// Reader that redacts secrets; see [`Redactor::reader`].
pub struct RedactingReader<R> {
    known: Arc<KnownSecrets>,
    from: R,
    pending: Vec<u8>,
    ready: Vec<u8>,
    given: usize,
    ended: bool,
}

/// Minimum number of bytes per read.
const READ_AT_ONCE: usize = 64 * 1024;

impl<R: Read> Read for RedactingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.given == self.ready.len() && !self.ended {
            self.ready.clear();
            self.given = 0;
            // Large reads limit how often held-back bytes are searched again.
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
