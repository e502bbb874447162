//! Evaluation of the search on a collection in BEIR's layout: `corpus.jsonl`, `queries.jsonl`,
//! `qrels/test.tsv`.
//!
//! Every document is a file of a base, searched like any other base. The rank of a document is that
//! of its best chunk.

use std::cell::Cell;
use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::path::Path;

use knowledge::{Index, ListedKind, Mode, SearchQuery, Shelf, ShelfError, Stamp, SyncRequest};
use serde_json::Value;

/// A test collection.
pub(crate) struct Collection {
    /// Id and text of each document, as markdown.
    documents: Vec<(String, String)>,
    /// Id and text of each query.
    pub(crate) questions: Vec<(String, String)>,
    /// Relevance, by query and document.
    right: HashMap<String, HashMap<String, f64>>,
}

/// Measures of quality, averaged over the queries with an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quality {
    /// nDCG of the first ten documents.
    pub(crate) ndcg_10: f64,
    /// Share of the relevant documents among the first fifty.
    pub(crate) recall_50: f64,
    /// Share of queries with a relevant document first, and among the first three.
    pub(crate) success: [f64; 2],
    /// Number of queries.
    pub(crate) questions: usize,
}

type Failure = Box<dyn std::error::Error>;

impl Collection {
    pub(crate) fn read(folder: &Path) -> Result<Self, Failure> {
        let lines = |name: &str| -> Result<Vec<Value>, Failure> {
            let path = folder.join(name);
            let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            text.lines().filter(|line| !line.is_empty()).map(|line| Ok(serde_json::from_str(line)?)).collect()
        };
        let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().trim().to_owned();
        let document = |value: &Value| {
            let title = text(value, "title").split_whitespace().collect::<Vec<_>>().join(" ");
            let body = text(value, "text");
            (text(value, "_id"), if title.is_empty() { body } else { format!("# {title}\n\n{body}\n") })
        };
        let mut right: HashMap<String, HashMap<String, f64>> = HashMap::new();
        for line in fs::read_to_string(folder.join("qrels/test.tsv"))?.lines().skip(1) {
            let mut parts = line.split('\t');
            if let (Some(question), Some(document), Some(score)) = (parts.next(), parts.next(), parts.next())
            {
                let score: f64 = score.trim().parse()?;
                if score > 0.0 {
                    right.entry(question.to_owned()).or_default().insert(document.to_owned(), score);
                }
            }
        }
        Ok(Self {
            documents: lines("corpus.jsonl")?.iter().map(document).collect(),
            questions: lines("queries.jsonl")?
                .iter()
                .map(|value| (text(value, "_id"), text(value, "text")))
                .collect(),
            right,
        })
    }

    /// Builds a collection of sections, and of queries with one relevant section each.
    #[allow(dead_code, reason = "not every program that measures asks for it")]
    pub(crate) fn of(documents: Vec<String>, questions: Vec<(String, usize)>) -> Self {
        let named = |(number, text)| (format!("{number}"), text);
        let right = questions.iter().enumerate();
        let right = right.map(|(question, (_, document))| {
            (question.to_string(), HashMap::from([(document.to_string(), 1.0)]))
        });
        Self {
            right: right.collect(),
            documents: documents.into_iter().enumerate().map(named).collect(),
            questions: questions
                .into_iter()
                .enumerate()
                .map(|(id, (text, _))| (id.to_string(), text))
                .collect(),
        }
    }

    pub(crate) fn documents(&self) -> usize {
        self.documents.len()
    }

    /// Returns true if a query has an answer in the collection.
    pub(crate) fn has_answer(&self, question: &str) -> bool {
        self.right.contains_key(question)
    }

    /// Adds all documents to an index, with vectors if it has a model.
    pub(crate) fn index(&self, index: &Index, progress: &dyn Fn(u64, u64)) -> Result<(), Failure> {
        self.index_upto(index, 1.0, progress)
    }

    /// Adds all documents, and stops embedding at this share of the sections.
    pub(crate) fn index_upto(
        &self,
        index: &Index,
        share: f64,
        progress: &dyn Fn(u64, u64),
    ) -> Result<(), Failure> {
        let wanted = SyncRequest {
            all: false,
            under: None,
            now_seconds: i64::MAX,
            stop: &|| false,
            progress: &|_, _| {},
        };
        index.sync(self, &wanted)?;
        let is_enough = Cell::new(share <= 0.0);
        let count = |done: u64, total: u64| {
            #[allow(clippy::cast_precision_loss, reason = "a share")]
            is_enough.set(share < 1.0 && done as f64 >= total as f64 * share);
            progress(done, total);
        };
        if index.has_model() {
            index.embed(&|| is_enough.get(), &count)?;
        }
        Ok(())
    }

    /// Returns the confidence of each query: first of those without an answer, then of those with one.
    #[allow(dead_code, reason = "not every program that measures asks for it")]
    pub(crate) fn confidence(&self, index: &Index) -> Result<[Vec<f64>; 2], Failure> {
        let mut sure = [Vec::new(), Vec::new()];
        for (id, query) in &self.questions {
            let (may_read, stop) = (&|_: &Path| true, &|| false);
            let sought = SearchQuery { query, scope: None, mode: None, most: 1, may_read, stop };
            sure[usize::from(self.has_answer(id))].push(index.find(&sought)?.confidence);
        }
        for sure in &mut sure {
            sure.sort_by(f64::total_cmp);
        }
        Ok(sure)
    }

    /// Returns the ids of documents for a query, the best first.
    pub(crate) fn ranked(&self, index: &Index, question: &str, mode: Mode) -> Result<Vec<&str>, Failure> {
        let sought = SearchQuery {
            query: question,
            scope: None,
            mode: Some(mode),
            most: usize::MAX,
            may_read: &|_| true,
            stop: &|| false,
        };
        let mut ranked: Vec<&str> = Vec::new();
        for hit in index.find(&sought)?.hits {
            let number: usize =
                hit.path.file_stem().and_then(|name| name.to_str()).unwrap_or_default().parse()?;
            let id = self.documents[number].0.as_str();
            if !ranked.contains(&id) {
                ranked.push(id);
            }
        }
        Ok(ranked)
    }

    /// Measures one mode, over the queries whose ids begin with `which`.
    pub(crate) fn quality(&self, index: &Index, mode: Mode, which: &str) -> Result<Quality, Failure> {
        let mut quality = Quality { ndcg_10: 0.0, recall_50: 0.0, success: [0.0; 2], questions: 0 };
        for (id, question) in self.questions.iter().filter(|(id, _)| id.starts_with(which)) {
            let Some(right) = self.right.get(id) else { continue };
            let ranked = self.ranked(index, question, mode)?;
            quality.questions += 1;
            quality.ndcg_10 += ndcg(&ranked, right, 10);
            let found = ranked.iter().take(50).filter(|id| right.contains_key(**id)).count();
            quality.recall_50 += number(found) / number(right.len());
            for (success, most) in quality.success.iter_mut().zip([1, 3]) {
                *success += number(usize::from(ranked.iter().take(most).any(|id| right.contains_key(*id))));
            }
        }
        let questions = number(quality.questions.max(1));
        quality.ndcg_10 /= questions;
        quality.recall_50 /= questions;
        quality.success = quality.success.map(|success| success / questions);
        Ok(quality)
    }
}

/// Computes nDCG (Järvelin and Kekäläinen) like `trec_eval`: the gain of a document is its score.
fn ndcg(ranked: &[&str], right: &HashMap<String, f64>, most: usize) -> f64 {
    let gain = |scores: &[f64]| -> f64 {
        scores.iter().take(most).enumerate().map(|(rank, score)| score / number(rank + 2).log2()).sum()
    };
    let found: Vec<f64> = ranked.iter().map(|id| right.get(*id).copied().unwrap_or_default()).collect();
    let mut best: Vec<f64> = right.values().copied().collect();
    best.sort_by(|one, other| other.total_cmp(one));
    gain(&found) / gain(&best)
}

#[allow(clippy::cast_precision_loss, reason = "small counts")]
fn number(count: usize) -> f64 {
    count as f64
}

impl Shelf for Collection {
    fn list(
        &self,
        _under: Option<&Path>,
        each: &mut dyn FnMut(&Path, ListedKind) -> Result<(), ShelfError>,
    ) -> Result<(), ShelfError> {
        for number in 0..self.documents.len() {
            let path = format!("{number}.md");
            each(Path::new(&path), ListedKind::File(self.stamp(Path::new(&path))?))?;
        }
        Ok(())
    }

    fn open(&self, path: &Path) -> Result<(Stamp, Box<dyn Read + '_>), ShelfError> {
        let number: usize =
            path.file_stem().and_then(|name| name.to_str()?.parse().ok()).ok_or(ShelfError::Gone)?;
        let (_, text) = self.documents.get(number).ok_or(ShelfError::Gone)?;
        Ok((self.stamp(path)?, Box::new(text.as_bytes())))
    }

    fn stamp(&self, _path: &Path) -> Result<Stamp, ShelfError> {
        Ok(Stamp { size: 0, modified_seconds: 0, modified_nanoseconds: 0 })
    }
}
