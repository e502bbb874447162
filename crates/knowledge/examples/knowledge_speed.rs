//! Cost of indexing and searching, compared with reading the same files and searching the same
//! words in plain SQLite. `cargo xtask bench` runs this program; by hand: `cargo run --release
//! --package knowledge --example knowledge_speed -- FOLDER`.

#![allow(clippy::print_stdout, reason = "a benchmark: it prints what it measured")]

use std::error::Error;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use knowledge::{Index, ListedKind, Mode, SearchQuery, Shelf, ShelfError, Stamp, SyncRequest};
use retrieval::embedder::{Embedder, Failure, Model};

/// Files of a base, and sections per file: of the base that is indexed, and of the large one that
/// is searched.
const FILES: usize = 10_000;
const SECTIONS_OF_LARGE: usize = 10;
const WORDS_OF_SECTION: usize = 140;
/// Size of the vocabulary, and number of its most frequent words that no query contains.
const VOCABULARY: f64 = 200_000.0;
const STOP: f64 = 100.0;
const QUERIES: usize = 40;

const TARGETS: [(&str, Duration); 3] = [
    ("10,000 sections found by their words", Duration::from_secs(5)),
    ("10,000 files looked at, none changed", Duration::from_millis(300)),
    ("a search of 100,000 sections, without the question's vector", Duration::from_millis(15)),
];

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from).ok_or("name a folder to work in")?;
    let base = folder.join("base");
    fs::create_dir_all(&base)?;
    for file in 0..FILES {
        fs::write(base.join(format!("{file}.md")), section(file))?;
    }
    let shelf = Folder(base);
    let began = Instant::now();
    let mut bytes = 0;
    shelf.list(None, &mut |path, _| {
        let mut text = Vec::new();
        bytes += shelf.open(path)?.1.read_to_end(&mut text)?;
        Ok(())
    })?;
    let read = began.elapsed();
    let index = Index::new(folder.join("small.db"), None);
    let began = Instant::now();
    sync(&index, &shelf)?;
    found(&index, "w17", Mode::Keyword)?;
    show(
        0,
        began.elapsed(),
        &format!("reading the {} MB alone {:.2} s", bytes / 1_000_000, read.as_secs_f64()),
    );
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..5 {
        let began = Instant::now();
        sync(&index, &shelf)?;
        times.push(began.elapsed());
    }
    times.sort();
    show(1, times[2], "median of 5");
    let large = Index::new(
        folder.join("large.db"),
        Some(Arc::new(|| Ok(Arc::new(Hashed::new()) as Arc<dyn Embedder>))),
    );
    let began = Instant::now();
    sync(&large, &Large)?;
    let indexed = began.elapsed();
    let began = Instant::now();
    large.embed(&|| false, &|_, _| {})?;
    println!(
        "100,000 sections indexed in {:.1} s, vectors without a model in {:.1} s",
        indexed.as_secs_f64(),
        began.elapsed().as_secs_f64()
    );
    let began = Instant::now();
    found(&large, "w1 w2", Mode::Vector)?;
    println!("the first search, which loads the vectors: {:.0} ms", began.elapsed().as_secs_f64() * 1e3);
    for (name, mode) in [("words", Mode::Keyword), ("vectors", Mode::Vector), ("both", Mode::Hybrid)] {
        let mut times: Vec<Duration> = Vec::new();
        for query in 0..QUERIES {
            let words: Vec<String> = (0..8).map(|place| word(query * 31 + place, STOP)).collect();
            let began = Instant::now();
            found(&large, &words.join(" "), mode)?;
            times.push(began.elapsed());
        }
        times.sort();
        show(2, times[QUERIES / 2], &format!("by {name}, median of {QUERIES}"));
    }
    Ok(())
}

fn show(target: usize, took: Duration, beside: &str) {
    let (name, most) = TARGETS[target];
    let verdict = if took <= most { "within" } else { "ABOVE" };
    println!(
        "{name}: {:.1} ms, {verdict} {:.0} ms ({beside})",
        took.as_secs_f64() * 1e3,
        most.as_secs_f64() * 1e3
    );
}

fn sync(index: &Index, shelf: &dyn Shelf) -> Result<(), Box<dyn Error>> {
    index.sync(
        shelf,
        &SyncRequest {
            all: false,
            under: None,
            now_seconds: i64::MAX,
            stop: &|| false,
            progress: &|_, _| {},
        },
    )?;
    Ok(())
}

fn found(index: &Index, query: &str, mode: Mode) -> Result<(), Box<dyn Error>> {
    let sought =
        SearchQuery { query, scope: None, mode: Some(mode), most: 5, may_read: &|_| true, stop: &|| false };
    if index.find(&sought)?.hits.is_empty() {
        return Err("nothing was found".into());
    }
    Ok(())
}

/// Returns a word with natural frequency: the word of rank n occurs in a text with a probability of
/// one in n.
fn word(seed: usize, from: f64) -> String {
    let mixed = (seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) % 65_536;
    let share = f64::from(u32::try_from(mixed).unwrap_or_default()) / 65_536.0;
    format!("w{:.0}", from * (VOCABULARY / from).powf(share))
}

fn section(which: usize) -> String {
    let words: Vec<String> = (0..WORDS_OF_SECTION).map(|place| word(which * 997 + place, 1.0)).collect();
    format!("# Section {which}\n\n{}\n", words.join(" "))
}

struct Folder(PathBuf);

impl Shelf for Folder {
    fn list(
        &self,
        _under: Option<&Path>,
        each: &mut dyn FnMut(&Path, ListedKind) -> Result<(), ShelfError>,
    ) -> Result<(), ShelfError> {
        for entry in fs::read_dir(&self.0)? {
            let name = entry?.file_name();
            each(Path::new(&name), ListedKind::File(self.stamp(Path::new(&name))?))?;
        }
        Ok(())
    }

    fn open(&self, path: &Path) -> Result<(Stamp, Box<dyn Read + '_>), ShelfError> {
        Ok((self.stamp(path)?, Box::new(fs::File::open(self.0.join(path))?)))
    }

    fn stamp(&self, path: &Path) -> Result<Stamp, ShelfError> {
        let metadata = fs::symlink_metadata(self.0.join(path))?;
        let modified = metadata.modified()?.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Ok(Stamp {
            size: metadata.len(),
            modified_seconds: i64::try_from(modified.as_secs()).unwrap_or(i64::MAX),
            modified_nanoseconds: modified.subsec_nanos(),
        })
    }
}

/// A shelf of generated files with ten sections each.
struct Large;

impl Shelf for Large {
    fn list(
        &self,
        _under: Option<&Path>,
        each: &mut dyn FnMut(&Path, ListedKind) -> Result<(), ShelfError>,
    ) -> Result<(), ShelfError> {
        (0..FILES).try_for_each(|file| {
            let path = format!("{file}.md");
            each(Path::new(&path), ListedKind::File(self.stamp(Path::new(&path))?))
        })
    }

    fn open(&self, path: &Path) -> Result<(Stamp, Box<dyn Read + '_>), ShelfError> {
        let file: usize =
            path.file_stem().and_then(|name| name.to_str()?.parse().ok()).ok_or(ShelfError::Gone)?;
        let sections = file * SECTIONS_OF_LARGE..(file + 1) * SECTIONS_OF_LARGE;
        let text: String = sections.map(section).collect();
        Ok((self.stamp(path)?, Box::new(std::io::Cursor::new(text))))
    }

    fn stamp(&self, _path: &Path) -> Result<Stamp, ShelfError> {
        Ok(Stamp { size: 0, modified_seconds: 0, modified_nanoseconds: 0 })
    }
}

/// Embedder without cost: vectors of the usual length, derived from the bytes of the text.
struct Hashed(Model);

impl Hashed {
    fn new() -> Self {
        Self(Model { name: "none".to_owned(), hash: [0; 32], dimensions: 384 })
    }
}

impl Embedder for Hashed {
    fn model(&self) -> &Model {
        &self.0
    }

    fn embed(&self, texts: &[&str], _stop: &dyn Fn() -> bool) -> Result<Vec<Vec<f32>>, Failure> {
        let of = |text: &&str| {
            let mut seed = text
                .bytes()
                .fold(7_u64, |seed, byte| (seed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
            let mut vector: Vec<f32> = (0..384)
                .map(|_| {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    f32::from(u8::try_from(seed >> 56).unwrap_or_default()) - 127.5
                })
                .collect();
            let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
            for number in &mut vector {
                *number /= length;
            }
            vector
        };
        Ok(texts.iter().map(of).collect())
    }
}
