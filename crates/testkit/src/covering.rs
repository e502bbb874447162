//! Redaction of the secrets of a test.

use tool::{CoveredStream, Redaction};

/// Secrets of a test, by name and value. Only their literal values are covered.
#[derive(Clone, Default)]
pub struct TestSecrets(Vec<(String, Vec<u8>)>);

impl TestSecrets {
    /// Covers these secrets, given by name and value.
    pub fn of(secrets: &[(&str, &str)]) -> Self {
        Self(secrets.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect())
    }

    fn begins<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = (&'a str, &'a [u8], bool)> {
        self.0.iter().filter_map(move |(name, value)| {
            let there = value.len().min(bytes.len());
            (bytes[..there] == value[..there]).then_some((
                name.as_str(),
                value.as_slice(),
                there == value.len(),
            ))
        })
    }
}

impl Redaction for TestSecrets {
    fn text(&self, text: &str) -> Option<String> {
        let mut stream = Stream { covers: self.clone(), pending: Vec::new(), covered: 0 };
        let covered = stream.next(text.as_bytes(), true);
        (stream.covered > 0).then(|| String::from_utf8_lossy(&covered).into_owned())
    }

    fn stream(&self) -> Box<dyn CoveredStream> {
        Box::new(Stream { covers: self.clone(), pending: Vec::new(), covered: 0 })
    }
}

struct Stream {
    covers: TestSecrets,
    pending: Vec<u8>,
    covered: u64,
}

impl CoveredStream for Stream {
    fn next(&mut self, piece: &[u8], ended: bool) -> Vec<u8> {
        self.pending.extend_from_slice(piece);
        if self.covers.0.is_empty() {
            return std::mem::take(&mut self.pending);
        }
        let (mut settled, mut at) = (Vec::new(), 0);
        while at < self.pending.len() {
            let rest = &self.pending[at..];
            if let Some((name, value, _)) = self.covers.begins(rest).find(|(.., is_whole)| *is_whole) {
                settled.extend_from_slice(format!("[SECRET:{name}]").as_bytes());
                (at, self.covered) = (at + value.len(), self.covered + 1);
            } else if !ended && self.covers.begins(rest).next().is_some() {
                break;
            } else {
                settled.push(self.pending[at]);
                at += 1;
            }
        }
        self.pending.drain(..at);
        settled
    }

    fn held(&self) -> usize {
        self.pending.len()
    }

    fn covered(&self) -> u64 {
        self.covered
    }
}
