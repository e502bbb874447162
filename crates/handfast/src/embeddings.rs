//! The model that turns texts into vectors: where its files lie, and the knowledge that is found with it.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use knowledge::{Index, OpenModel};
use store::Hash;
use tools_knowledge::Base;

use crate::commands::Failure;
use crate::places::create_private;
use crate::report::chain;

/// The model that `handfast setup embeddings` gets.
pub(crate) const MODEL: &str = "all-MiniLM-L6-v2";

/// One file of the model: its name, its size in bytes where that is known, and its SHA-256.
pub(crate) struct ModelFile {
    pub(crate) name: &'static str,
    /// The most bytes that it may have.
    pub(crate) most_bytes: u64,
    pub(crate) sha256: &'static str,
}

/// The files, as their authors published them (revision 1110a243fdf4706b3f48f1d95db1a4f5529b4d41).
pub(crate) const FILES: [ModelFile; 3] = [
    ModelFile {
        name: "model.safetensors",
        most_bytes: 90_868_376,
        sha256: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    },
    ModelFile {
        name: "tokenizer.json",
        most_bytes: 466_247,
        sha256: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    },
    ModelFile {
        name: "config.json",
        most_bytes: 64 * 1024,
        sha256: "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    },
];

/// The folder of the models in the state folder.
const MODELS: &str = "models";

/// Where the models lie.
pub(crate) fn models(state: &Path) -> PathBuf {
    state.join(MODELS)
}

/// The folder of the model, where it is there. It has its name only when it is whole.
pub(crate) fn folder(state: &Path) -> Option<PathBuf> {
    let folder = models(state).join(MODEL);
    FILES.iter().all(|file| folder.join(file.name).is_file()).then_some(folder)
}

/// The knowledge of a workspace: its index lies in the state, so that nothing in the workspace can change it.
pub(crate) fn knowledge(state: &Path, workspace: &Path) -> Result<Arc<Base>, Failure> {
    let indexes = state.join("knowledge");
    create_private(&indexes)?;
    let name: String =
        Hash::of(workspace.as_os_str().as_encoded_bytes()).to_string().chars().take(32).collect();
    let index = Index::new(indexes.join(format!("{name}.db")), opener(state));
    Ok(Arc::new(Base::new(index)))
}

/// What opens the model; none where there is none. An endpoint that is asked over HTTP has its place here beside it.
pub(crate) fn opener(state: &Path) -> Option<OpenModel> {
    let folder = folder(state)?;
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    Some(Arc::new(move || embed_bert::open_pinned(&folder, threads).map_err(|error| chain(&error))))
}
