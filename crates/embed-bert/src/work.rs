//! Opening of a model, and distribution of texts over several threads.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use retrieval::embedder::{Embedder, Failure, Model, TextExtent};
use simd::Level;

use crate::config::{Config, Pool};
use crate::files::{
    CONFIG, MODEL, POOLING, PinnedFile, TOKENIZER, check_hash, check_sizes, hash, hash_of, stamp,
};
use crate::forward::{Fineness, Room, pass};
use crate::tensors::Tensors;
use crate::tokens::Tokens;
use crate::weights::{Original, StoredWeights, Weights, write};
use crate::{MAX_TOKENS, OpenError, PINNED, PINNED_NAME};

/// Name of the file of byte matrices, next to the model.
const KEPT: &str = "weights.bytes";
/// First bytes of that file: its format, whose number increases with each change.
const FORMAT: &[u8; 16] = b"embed-bert 0001\n";
/// Number of tokens at which a batch takes no further text.
const BATCH_TOKENS: usize = 192;
/// Maximum number of tokens of a short text, including its begin and end markers. All rows of a short text
/// use two bytes a number: over few rows noise averages out little, and few rows cost little.
const SHORT_TOKENS: usize = 16;
/// Maximum size of a `config.json` or `tokenizer.json`, in bytes.
const LONGEST_FILE: u64 = 64 << 20;

/// Precision with which a model is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// Floats, as the model was made.
    Exact,
    /// Matrices and rows as bytes.
    Bytes,
}

/// An open model.
#[derive(Debug)]
struct Bert {
    model: Model,
    config: Config,
    pool: Pool,
    tokens: Tokens,
    weights: Weights,
    level: Level,
    threads: usize,
    most: usize,
}

/// Opens the model of a folder, as bytes if this machine multiplies bytes faster. At most `threads`
/// threads work at a time.
///
/// # Errors
/// Returns [`OpenError`] if the folder is not a usable model.
pub fn open(folder: &Path, threads: usize) -> Result<Arc<dyn Embedder>, OpenError> {
    let name = folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy();
    open_as(folder, &name, threads, quickest(), Level::best(), &[])
}

/// Opens [`PINNED`], and no other model.
///
/// # Errors
/// Returns [`OpenError`] if the folder is not a usable model or contains other files.
pub fn open_pinned(folder: &Path, threads: usize) -> Result<Arc<dyn Embedder>, OpenError> {
    open_as(folder, PINNED_NAME, threads, quickest(), Level::best(), &PINNED)
}

/// Opens the model of a folder with the given precision, and with no wider instructions than `level`.
///
/// # Errors
/// Returns [`OpenError`] if the folder is not a usable model.
pub fn open_with(
    folder: &Path,
    threads: usize,
    precision: Precision,
    level: Level,
) -> Result<Arc<dyn Embedder>, OpenError> {
    let name = folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy();
    open_as(folder, &name, threads, precision, level, &[])
}

fn quickest() -> Precision {
    if Level::best().multiplies_bytes() { Precision::Bytes } else { Precision::Exact }
}

fn open_as(
    folder: &Path,
    name: &str,
    threads: usize,
    precision: Precision,
    level: Level,
    pinned: &[PinnedFile],
) -> Result<Arc<dyn Embedder>, OpenError> {
    check_sizes(folder, pinned)?;
    let check = |name: &str, found: [u8; 32]| {
        pinned.iter().find(|file| file.name == name).map_or(Ok(()), |file| check_hash(folder, file, found))
    };
    let of_config = read(&folder.join(CONFIG))?;
    let of_tokens = read(&folder.join(TOKENIZER))?;
    check(CONFIG, hash(&[&of_config]))?;
    check(TOKENIZER, hash(&[&of_tokens]))?;
    let config = Config::read(&folder.join(CONFIG), &of_config)?;
    let tokens = Tokens::read(&folder.join(TOKENIZER), &of_tokens, config.vocab_size)?;
    let path = folder.join(POOLING);
    let of_pool = if path.exists() { read(&path)? } else { Vec::new() };
    let pool = if of_pool.is_empty() { Pool::Mean } else { Pool::read(&path, &of_pool)? };
    let most = MAX_TOKENS.min(config.max_position_embeddings);
    let (weights, of_weights) = match precision {
        Precision::Bytes => of_bytes(folder, &config, most, &check)?,
        Precision::Exact => {
            let found = hash_of(&folder.join(MODEL))?;
            check(MODEL, found)?;
            let tensors = Tensors::open(&folder.join(MODEL))?;
            (Weights::from(&mut Original { tensors: &tensors, bytes: false }, &config, most)?, found)
        }
    };
    let pooled: &[u8] = if pool == Pool::First { b"first" } else { b"mean" };
    let model = Model {
        name: name.to_owned(),
        hash: hash(&[&of_weights, &hash(&[&of_tokens]), &hash(&[&of_config]), pooled]),
        dimensions: config.hidden_size,
    };
    Ok(Arc::new(Bert { model, config, pool, tokens, weights, level, threads: threads.max(1), most }))
}

fn read(path: &Path) -> Result<Vec<u8>, OpenError> {
    let size = std::fs::metadata(path).map_err(OpenError::unreadable(path))?.len();
    if size > LONGEST_FILE {
        return Err(OpenError::unsupported(
            path,
            format!("it has {size} bytes, but the limit is {LONGEST_FILE}"),
        ));
    }
    std::fs::read(path).map_err(OpenError::unreadable(path))
}

/// Check of a file's hash against the pinned one, by the name of the file.
type Check<'pinned> = dyn Fn(&str, [u8; 32]) -> Result<(), OpenError> + 'pinned;

/// Returns the byte weights and the hash of the model: from the stored file if it belongs to this
/// model, else from the model itself, which also stores them.
fn of_bytes(
    folder: &Path,
    config: &Config,
    most: usize,
    check: &Check,
) -> Result<(Weights, [u8; 32]), OpenError> {
    let path = folder.join(MODEL);
    let stamp = stamp(&path)?;
    let of_config = hash(&[format!("{config:?} {most}").as_bytes()]);
    let kept = kept(folder, config, most, &of_config);
    if let Some((weights, found, of_stamp)) = kept {
        if of_stamp == stamp {
            check(MODEL, found)?;
            return Ok((weights, found));
        }
        // The file was copied or touched. Its content shows whether it has changed.
        if hash_of(&path)? == found {
            check(MODEL, found)?;
            keep(folder, &weights, &found, &stamp, &of_config);
            return Ok((weights, found));
        }
    }
    let found = hash_of(&path)?;
    check(MODEL, found)?;
    let tensors = Tensors::open(&path)?;
    let weights = Weights::from(&mut Original { tensors: &tensors, bytes: true }, config, most)?;
    keep(folder, &weights, &found, &stamp, &of_config);
    Ok((weights, found))
}

/// Reads the stored weights of a model with these dimensions. Returns `None` if there are none or
/// they are incomplete.
fn kept(
    folder: &Path,
    config: &Config,
    most: usize,
    of_config: &[u8; 32],
) -> Option<(Weights, [u8; 32], [u8; 40])> {
    let file = File::open(folder.join(KEPT)).ok()?;
    let mut kept = StoredWeights::new(BufReader::with_capacity(1 << 16, file));
    let head = kept.bytes(FORMAT.len() + 32 + 32 + 40).ok()?;
    let (format, rest) = head.split_at_checked(FORMAT.len())?;
    let (measures, rest) = rest.split_at_checked(32)?;
    let (found, stamp) = rest.split_at_checked(32)?;
    if format != FORMAT || measures != of_config {
        return None;
    }
    let (found, stamp) = (found.try_into().ok()?, stamp.try_into().ok()?);
    let weights = Weights::from(&mut kept, config, most).ok()?;
    kept.finish().ok()?.then_some((weights, found, stamp))
}

/// Stores the weights next to the model, on best effort. In a read-only folder only the next
/// opening takes longer.
fn keep(folder: &Path, weights: &Weights, found: &[u8; 32], stamp: &[u8; 40], of_config: &[u8; 32]) {
    let head = [FORMAT.as_slice(), of_config, found, stamp].concat();
    let kept = || -> std::io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        write(weights, &head, &mut std::io::BufWriter::new(file.as_file_mut()))?;
        file.persist(folder.join(KEPT))?;
        Ok(())
    };
    let _left_undone = kept().is_err();
}

/// State that the threads of one call share.
struct Work<'call> {
    texts: &'call [&'call str],
    next: AtomicUsize,
    stopped: AtomicBool,
}

/// Indices of texts, and their tokens.
type Batch = (Vec<usize>, Vec<Vec<u32>>);

impl Bert {
    /// Takes texts until all are taken, and returns their vectors with their indices.
    fn work(&self, work: &Work, stop: &dyn Fn() -> bool) -> Vec<(usize, Vec<f32>)> {
        let mut room = Room::default();
        let mut done = Vec::new();
        loop {
            if stop() {
                work.stopped.store(true, Ordering::Relaxed);
            }
            if work.stopped.load(Ordering::Relaxed) {
                return done;
            }
            let (mut short, mut long, mut tokens) = (Batch::default(), Batch::default(), 0);
            while tokens < BATCH_TOKENS {
                let place = work.next.fetch_add(1, Ordering::Relaxed);
                let Some(text) = work.texts.get(place) else { break };
                let text = self.tokens.of(text, self.most);
                tokens += text.len();
                let batch = if text.len() <= SHORT_TOKENS { &mut short } else { &mut long };
                batch.0.push(place);
                batch.1.push(text);
            }
            if tokens == 0 {
                return done;
            }
            for ((places, texts), fineness) in [(short, Fineness::TwoBytes), (long, Fineness::OneByte)] {
                let ways = (self.level, fineness);
                let vectors = pass(&self.weights, &self.config, self.pool, ways, &texts, &mut room);
                done.extend(places.into_iter().zip(vectors));
            }
        }
    }
}

impl Embedder for Bert {
    fn model(&self) -> &Model {
        &self.model
    }

    fn embed(&self, texts: &[&str], stop: &dyn Fn() -> bool) -> Result<Vec<Vec<f32>>, Failure> {
        let work = Work { texts, next: AtomicUsize::new(0), stopped: AtomicBool::new(false) };
        let mut all = vec![Vec::new(); texts.len()];
        let whole = std::thread::scope(|scope| {
            let others: Vec<_> = (1..self.threads.min(texts.len()))
                .map(|_| scope.spawn(|| self.work(&work, &|| false)))
                .collect();
            let mut done = self.work(&work, stop);
            let mut whole = true;
            for other in others {
                match other.join() {
                    Ok(vectors) => done.extend(vectors),
                    Err(_panicked) => whole = false,
                }
            }
            for (place, vector) in done {
                whole &= vector.iter().all(|number| number.is_finite());
                all[place] = vector;
            }
            whole
        });
        if work.stopped.load(Ordering::Relaxed) {
            return Err(Failure::Stopped);
        }
        if whole { Ok(all) } else { Err(Failure::Failed(format!("{} returned no numbers", self.model.name))) }
    }

    fn extent(&self, text: &str) -> TextExtent {
        // One token of room more tells whether any is cut off.
        let tokens = self.tokens.of(text, self.most.saturating_add(1)).len();
        TextExtent { tokens: Some(tokens.min(self.most)), is_cut: tokens > self.most }
    }
}
