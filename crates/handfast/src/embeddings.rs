//! The model that turns texts into vectors: the location of its files, and the knowledge base that
//! uses it.

use std::path::Path;
#[cfg(feature = "embeddings")]
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

#[cfg(feature = "embeddings")]
use embed_bert::{PINNED, PINNED_NAME};
use fetch::Uri;
use knowledge::Index;
use retrieval::embedder::{OpenModel, OpenedModel};
use store_api::Hash;
use tool::Clock as _;
use tools_knowledge::KnowledgeBase;
use vault::{RequestPart, Vault};

use crate::clock::SystemClock;
use crate::config::EmbeddingsPlace;
use crate::failure::Failure;
use crate::places::create_private;

#[cfg(feature = "embeddings")]
/// Name of the folder for models within the state folder.
const MODELS: &str = "models";

#[cfg(feature = "embeddings")]
/// Returns the folder of the models.
pub(crate) fn models(state: &Path) -> PathBuf {
    state.join(MODELS)
}

#[cfg(feature = "embeddings")]
/// Returns the folder of the model if it exists. The folder gets its final name only when it is complete.
pub(crate) fn folder(state: &Path) -> Option<PathBuf> {
    let folder = models(state).join(PINNED_NAME);
    PINNED.iter().all(|file| folder.join(file.name).is_file()).then_some(folder)
}

/// Opens the knowledge base of a workspace. Its index lies in the state folder, so that nothing in
/// the workspace can change it.
pub(crate) fn knowledge(
    state: &Path,
    workspace: &Path,
    opens: Option<OpenModel>,
) -> Result<Arc<KnowledgeBase>, Failure> {
    let indexes = state.join("knowledge");
    create_private(&indexes)?;
    let name: String =
        Hash::of(workspace.as_os_str().as_encoded_bytes()).to_string().chars().take(32).collect();
    Ok(Arc::new(KnowledgeBase::new(Index::new(indexes.join(format!("{name}.db")), opens))))
}

/// Slot for the vault, which is opened after the tools are created.
pub(crate) type LaterVault = Arc<OnceLock<Arc<Vault>>>;

/// Returns the function that opens the model: on a configured server, or else on this machine.
/// Returns `None` if neither exists.
pub(crate) fn opener(
    state: &Path,
    place: Option<EmbeddingsPlace>,
    vault: LaterVault,
) -> Result<Option<OpenModel>, Failure> {
    if let Some(place) = place {
        let host = place.endpoint.parse::<Uri>().ok().and_then(|url| url.host().map(str::to_owned));
        let host = host.ok_or_else(|| {
            Failure::usage(format!("`embeddings.endpoint`: {} is not a URL with a host", place.endpoint))
        })?;
        return Ok(Some(once(move || open_server(&place, &host, &vault))));
    }
    Ok(local(state))
}

/// Returns the function that opens the model of this machine, if it is set up.
#[cfg(feature = "embeddings")]
fn local(state: &Path) -> Option<OpenModel> {
    let folder = folder(state)?;
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Some(once(move || {
        embed_bert::open_pinned(&folder, threads).map_err(|error| crate::report::chain(&error))
    }))
}

/// Returns `None`: this build has no model.
#[cfg(not(feature = "embeddings"))]
fn local(_state: &Path) -> Option<OpenModel> {
    None
}

/// Makes an opener that opens the model once for all users.
fn once(opens: impl Fn() -> OpenedModel + Send + Sync + 'static) -> OpenModel {
    let opened = OnceLock::new();
    Arc::new(move || opened.get_or_init(&opens).clone())
}

fn open_server(place: &EmbeddingsPlace, host: &str, vault: &LaterVault) -> OpenedModel {
    let key = place.key.as_ref().map(|name| {
        let vault = vault.get().ok_or_else(|| "there is no vault yet".to_owned())?;
        let value = vault
            .value_for(name, host, RequestPart::Header, SystemClock.now())
            .map_err(|error| format!("`embeddings.key`, the secret {name}: {error}"))?;
        String::from_utf8(value.to_vec()).map_err(|_| format!("the secret {name} is not text"))
    });
    let settings = embed_http::Settings {
        url: place.endpoint.clone(),
        model: place.model.clone(),
        dimensions: place.dimensions,
        key: key.transpose()?,
    };
    let remote = embed_http::Remote::open(settings, &|| false).map_err(|error| error.to_string())?;
    Ok(Arc::new(remote))
}
