//! Secrets never leave: known values are replaced by their names in everything that is shown or stored.

use std::io::{self, Read};
use std::sync::Arc;

use memchr::memmem;
use serde_json::Value;
use tool::{Data, Progress};

/// The secrets of this runtime and what stands in their place.
#[derive(Default, Clone)]
pub struct Redactor(Arc<[Secret]>);

#[derive(Clone)]
struct Secret {
    value: Vec<u8>,
    /// As it stands in JSON. Escaping goes character by character, so a text that holds the secret holds this, written.
    escaped: memmem::Finder<'static>,
    cover: String,
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

/// Shorter values are left alone: replacing a common short text would tell what the secret is.
const SHORTEST_SECRET: usize = 12;

impl Redactor {
    /// A redactor for named values. Values under 12 bytes are left out.
    pub fn new(secrets: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut known: Vec<Secret> = secrets
            .into_iter()
            .filter(|(_, value)| value.len() >= SHORTEST_SECRET)
            .map(|(name, value)| Secret {
                escaped: memmem::Finder::new(&escaped(&value)).into_owned(),
                value: value.into_bytes(),
                cover: format!("[SECRET:{name}]"),
            })
            .collect();
        // The longest first: a secret that is a part of another must not break the longer one's match.
        known.sort_by_key(|secret| std::cmp::Reverse(secret.value.len()));
        Self(known.into())
    }

    /// The text with every secret covered.
    pub fn text(&self, text: &str) -> Option<String> {
        let mut covered: Option<String> = None;
        for secret in self.0.iter() {
            let Ok(value) = std::str::from_utf8(&secret.value) else { continue };
            let current = covered.as_deref().unwrap_or(text);
            if memmem::find(current.as_bytes(), &secret.value).is_some() {
                covered = Some(current.replace(value, &secret.cover));
            }
        }
        covered
    }

    /// [`Redactor::value`] for data of either form. What its tool has written stays so where no secret is in it.
    ///
    /// # Errors
    /// Where what was written cannot be read.
    pub fn data(&self, data: Data) -> serde_json::Result<Data> {
        if let Data::Written(written) = &data
            && !self.0.iter().any(|secret| secret.escaped.find(written.as_str().as_bytes()).is_some())
        {
            return Ok(data);
        }
        let mut value = data.into_value()?;
        self.value(&mut value);
        Ok(value.into())
    }

    /// Covers every secret in every string of a value, keys included.
    pub fn value(&self, value: &mut Value) {
        if self.0.is_empty() {
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
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Whether there is nothing to cover.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A stream with every secret covered, also where one lies across two reads.
    pub fn reader<R: Read>(&self, from: R) -> Covered<'_, R> {
        Covered { redactor: self, from, pending: Vec::new(), ready: Vec::new(), given: 0, ended: false }
    }

    /// Moves what is settled from `pending` to `covered`: everything, or all but what could still be the start of a secret.
    fn settle(&self, pending: &mut Vec<u8>, covered: &mut Vec<u8>, ended: bool) {
        let longest = self.0.first().map_or(1, |secret| secret.value.len());
        let settled = if ended { pending.len() } else { pending.len().saturating_sub(longest - 1) };
        let mut at = 0;
        while at < settled {
            let found =
                |secret: &'_ Secret| memmem::find(&pending[at..], &secret.value).map(|found| at + found);
            let next = self
                .0
                .iter()
                .filter_map(|secret| {
                    found(secret).filter(|found| *found < settled).map(|found| (found, secret))
                })
                .min_by_key(|(found, secret)| (*found, std::cmp::Reverse(secret.value.len())));
            let Some((found, secret)) = next else {
                covered.extend_from_slice(&pending[at..settled]);
                at = settled;
                break;
            };
            covered.extend_from_slice(&pending[at..found]);
            covered.extend_from_slice(secret.cover.as_bytes());
            at = found + secret.value.len();
        }
        pending.drain(..at);
    }
}

/// See [`Redactor::reader`].
pub struct Covered<'a, R> {
    redactor: &'a Redactor,
    from: R,
    pending: Vec<u8>,
    ready: Vec<u8>,
    given: usize,
    ended: bool,
}

impl<R: Read> Read for Covered<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.given == self.ready.len() && !self.ended {
            self.ready.clear();
            self.given = 0;
            let before = self.pending.len();
            self.pending.resize(before + 64 * 1024, 0);
            let read = self.from.read(&mut self.pending[before..])?;
            self.pending.truncate(before + read);
            self.ended = read == 0;
            self.redactor.settle(&mut self.pending, &mut self.ready, self.ended);
        }
        let count = buffer.len().min(self.ready.len() - self.given);
        buffer[..count].copy_from_slice(&self.ready[self.given..self.given + count]);
        self.given += count;
        Ok(count)
    }
}

/// A text as `serde_json` writes it, without the quotes around it.
fn escaped(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Redactor").field(&self.0.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redactor() -> Redactor {
        Redactor::new([
            ("TOKEN".to_owned(), "sk-1234567890abcdef".to_owned()),
            ("LONG".to_owned(), "sk-1234567890abcdef-and-more".to_owned()),
            ("SHORT".to_owned(), "abc".to_owned()),
        ])
    }

    #[test]
    fn a_secret_is_covered_in_values_and_keys_and_the_longer_one_wins() {
        let mut value = serde_json::json!({
            "a sk-1234567890abcdef": ["x sk-1234567890abcdef-and-more y", "abc"],
        });
        redactor().value(&mut value);
        assert_eq!(value, serde_json::json!({"a [SECRET:TOKEN]": ["x [SECRET:LONG] y", "abc"]}));
    }

    #[test]
    fn a_secret_is_covered_in_what_was_written_however_it_is_escaped() {
        let secrets =
            ["sk-1234567890abcdef", "pass \"word\\ \n\t\u{1}\u{7f} \u{e4}\u{1f600}/</", "\\n\\n\\n\\n\\n\\n"];
        let named = secrets.iter().enumerate().map(|(at, secret)| (format!("S{at}"), (*secret).to_owned()));
        let redactor = Redactor::new(named);
        for secret in secrets {
            let mut value =
                serde_json::json!({"list": ["plain", format!("\\{secret}\""), {(secret): secret}]});
            let written = tool::Written::of(&value, 0).unwrap();
            let covered = redactor.data(Data::Written(written)).unwrap().into_value().unwrap();
            redactor.value(&mut value);
            assert_eq!(covered, value);
            assert!(!covered.to_string().contains(&escaped(secret)), "{covered}");
        }
        // Line breaks are written as one of the secrets reads, and are none: the answer stays as it is.
        let breaks = serde_json::json!(["\n\n\n\n\n\n\n"]);
        let written = tool::Written::of(&breaks, 0).unwrap();
        assert_eq!(redactor.data(Data::Written(written)).unwrap().into_value().unwrap(), breaks);
        let written = tool::Written::of(&["nothing to cover"], 0).unwrap();
        assert!(matches!(redactor.data(Data::Written(written)).unwrap(), Data::Written(_)));
    }

    #[test]
    fn a_secret_across_two_reads_is_covered() {
        struct OneByte<'a>(&'a [u8]);
        impl Read for OneByte<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let Some((first, rest)) = self.0.split_first() else { return Ok(0) };
                buffer[0] = *first;
                self.0 = rest;
                Ok(1)
            }
        }
        let text = "before sk-1234567890abcdef between sk-1234567890abcdef-and-more after sk-12345";
        let mut out = String::new();
        redactor().reader(OneByte(text.as_bytes())).read_to_string(&mut out).unwrap();
        assert_eq!(out, "before [SECRET:TOKEN] between [SECRET:LONG] after sk-12345");
    }
}
