//! A base in a temporary folder, and an embedding model without weights.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use knowledge::{
    Hit, Index, IndexError, ListedKind, Mode, SearchQuery, SearchResult, Shelf, ShelfError, Stamp,
    SyncRequest, SyncResult,
};
use retrieval::embedder::{Embedder, Failure, Model};

/// A base and its index.
pub(crate) struct Base {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) index: Index,
    /// Files that may not be read.
    pub(crate) denied: RefCell<Vec<PathBuf>>,
}

impl Base {
    pub(crate) fn new() -> Self {
        Self::with_model(None)
    }

    /// Creates an empty base with a model of this name.
    pub(crate) fn with_model(name: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let index = index(&folder.path().join("index"), name);
        fs::create_dir(folder.path().join("knowledge")).unwrap();
        Self { folder, index, denied: RefCell::default() }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("knowledge")
    }

    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn sync(&self) -> SyncResult {
        self.sync_as(false, None).unwrap()
    }

    pub(crate) fn sync_as(&self, all: bool, under: Option<&str>) -> Result<SyncResult, IndexError> {
        let shelf = Folder { root: self.root(), denied: self.denied.borrow().clone() };
        sync(&self.index, &shelf, all, under)
    }

    pub(crate) fn find(&self, query: &str) -> Vec<Hit> {
        self.found(query, None).hits
    }

    pub(crate) fn found(&self, query: &str, mode: Option<Mode>) -> SearchResult {
        let denied = self.denied.borrow();
        let may_read = |path: &Path| !denied.iter().any(|denied| path.starts_with(denied));
        let sought = SearchQuery { query, scope: None, mode, most: 10, may_read: &may_read, stop: &|| false };
        self.index.find(&sought).unwrap()
    }

    pub(crate) fn embed(&self) -> knowledge::EmbeddingResult {
        self.index.embed(&|| false, &|_, _| {}).unwrap()
    }
}

/// Opens the index in a file, with the counting model of this name.
pub(crate) fn index(path: &Path, model: Option<&str>) -> Index {
    let opens = model.map(|name| {
        let name = name.to_owned();
        Arc::new(move || Ok(Arc::new(Counting::new(&name)) as Arc<dyn Embedder>)) as knowledge::OpenModel
    });
    Index::new(path.to_owned(), opens)
}

/// Synchronizes an index. `now` is late enough that no file counts as recently modified.
pub(crate) fn sync(
    index: &Index,
    shelf: &dyn Shelf,
    all: bool,
    under: Option<&str>,
) -> Result<SyncResult, IndexError> {
    let under = under.map(Path::new);
    index.sync(
        shelf,
        &SyncRequest { all, under, now_seconds: i64::MAX, stop: &|| false, progress: &|_, _| {} },
    )
}

/// The files of a folder.
pub(crate) struct Folder {
    pub(crate) root: PathBuf,
    pub(crate) denied: Vec<PathBuf>,
}

impl Folder {
    fn walk(
        &self,
        folder: &Path,
        each: &mut dyn FnMut(&Path, ListedKind) -> Result<(), ShelfError>,
    ) -> Result<(), ShelfError> {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let relative = path.strip_prefix(&self.root).unwrap().to_owned();
            let metadata = fs::symlink_metadata(&path)?;
            if self.denied.iter().any(|denied| relative.starts_with(denied)) {
                continue;
            }
            if metadata.is_dir() {
                self.walk(&path, each)?;
            } else {
                let listed = match metadata {
                    metadata if metadata.is_symlink() => ListedKind::Link,
                    metadata if metadata.is_file() => ListedKind::File(stamp(&metadata)),
                    _ => ListedKind::Special,
                };
                each(&relative, listed)?;
            }
        }
        Ok(())
    }
}

fn stamp(metadata: &fs::Metadata) -> Stamp {
    Stamp {
        size: metadata.len(),
        modified_seconds: metadata.mtime(),
        modified_nanoseconds: u32::try_from(metadata.mtime_nsec()).unwrap(),
    }
}

fn gone(error: std::io::Error) -> ShelfError {
    if error.kind() == std::io::ErrorKind::NotFound { ShelfError::Gone } else { error.into() }
}

impl Shelf for Folder {
    fn list(
        &self,
        under: Option<&Path>,
        each: &mut dyn FnMut(&Path, ListedKind) -> Result<(), ShelfError>,
    ) -> Result<(), ShelfError> {
        let from = under.map_or_else(|| self.root.clone(), |under| self.root.join(under));
        match fs::symlink_metadata(&from) {
            Ok(metadata) if metadata.is_file() => each(under.unwrap(), ListedKind::File(stamp(&metadata))),
            Ok(_) => self.walk(&from, each),
            Err(_) => Ok(()),
        }
    }

    fn open(&self, path: &Path) -> Result<(Stamp, Box<dyn Read + '_>), ShelfError> {
        let stamp = self.stamp(path)?;
        Ok((stamp, Box::new(File::open(self.root.join(path)).map_err(gone)?)))
    }

    fn stamp(&self, path: &Path) -> Result<Stamp, ShelfError> {
        if self.denied.iter().any(|denied| path.starts_with(denied)) {
            return Err(ShelfError::Refused("denied".to_owned()));
        }
        fs::symlink_metadata(self.root.join(path)).map(|metadata| stamp(&metadata)).map_err(gone)
    }
}

/// An embedding model that knows a few groups of synonyms. A vector counts these groups, and also
/// letters, to separate other texts slightly. Under another name, the order of the counts differs.
pub(crate) struct Counting(Model);

const MEANINGS: [&[&str]; 4] = [
    &["car", "automobile", "vehicle"],
    &["ship", "boat", "vessel"],
    &["bread", "loaf", "dough"],
    &["storm", "gale", "wind"],
];

impl Counting {
    pub(crate) fn new(name: &str) -> Self {
        let mut hash = [0; 32];
        hash[..name.len()].copy_from_slice(name.as_bytes());
        Self(Model { name: name.to_owned(), hash, dimensions: 8 })
    }
}

impl Embedder for Counting {
    fn model(&self) -> &Model {
        &self.0
    }

    fn embed(&self, texts: &[&str], stop: &dyn Fn() -> bool) -> Result<Vec<Vec<f32>>, Failure> {
        let shift = self.0.name.len();
        texts
            .iter()
            .map(|text| {
                if stop() {
                    return Err(Failure::Stopped);
                }
                let mut vector = [0.01_f32; 8];
                let text = text.to_lowercase();
                for (meaning, words) in MEANINGS.iter().enumerate() {
                    for word in *words {
                        vector[(meaning + shift) % 8] +=
                            f32::from(u8::try_from(text.matches(word).count()).unwrap());
                    }
                }
                let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
                Ok(vector.iter().map(|number| number / length).collect())
            })
            .collect()
    }
}
