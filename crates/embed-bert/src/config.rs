//! Values of a model's `config.json`, checked before any memory is reserved for them.

use std::path::Path;

use serde::Deserialize;

use crate::OpenError;

/// Dimensions of a network.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Config {
    pub(crate) hidden_size: usize,
    pub(crate) num_hidden_layers: usize,
    pub(crate) num_attention_heads: usize,
    pub(crate) intermediate_size: usize,
    pub(crate) max_position_embeddings: usize,
    pub(crate) vocab_size: usize,
    #[serde(default = "one")]
    pub(crate) type_vocab_size: usize,
    #[serde(default = "epsilon")]
    pub(crate) layer_norm_eps: f32,
    model_type: String,
    hidden_act: String,
    position_embedding_type: Option<String>,
}

fn one() -> usize {
    1
}

fn epsilon() -> f32 {
    1e-12
}

/// Content of `1_Pooling/config.json`, if the file exists.
#[derive(Deserialize)]
#[allow(clippy::struct_field_names, reason = "the names of the file")]
struct Pooling {
    #[serde(default)]
    pooling_mode_cls_token: bool,
    #[serde(default)]
    pooling_mode_mean_tokens: bool,
    #[serde(default)]
    pooling_mode_max_tokens: bool,
}

/// Method that combines the vectors of the tokens into one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pool {
    /// Mean of all vectors.
    Mean,
    /// Vector of the first token.
    First,
}

impl Config {
    pub(crate) fn read(path: &Path, bytes: &[u8]) -> Result<Self, OpenError> {
        let config: Self =
            serde_json::from_slice(bytes).map_err(|error| OpenError::damaged(path, error.to_string()))?;
        let refuse = |what: String| Err(OpenError::unsupported(path, what));
        if config.model_type != "bert" {
            return refuse(format!("model_type is {:?}, but only \"bert\" is supported", config.model_type));
        }
        if config.hidden_act != "gelu" {
            return refuse(format!("hidden_act is {:?}, but only \"gelu\" is supported", config.hidden_act));
        }
        if let Some(kind) = &config.position_embedding_type
            && kind != "absolute"
        {
            return refuse(format!(
                "position_embedding_type is {kind:?}, but only \"absolute\" is supported"
            ));
        }
        let bounds = [
            ("hidden_size", config.hidden_size, 32, 4096),
            ("num_hidden_layers", config.num_hidden_layers, 1, 64),
            ("num_attention_heads", config.num_attention_heads, 1, 128),
            ("intermediate_size", config.intermediate_size, 32, 16384),
            ("max_position_embeddings", config.max_position_embeddings, 3, 65536),
            ("vocab_size", config.vocab_size, 4, 1_000_000),
            ("type_vocab_size", config.type_vocab_size, 1, 1024),
        ];
        for (name, value, least, most) in bounds {
            if value < least || value > most {
                return refuse(format!("{name} is {value}, but must be {least} to {most}"));
            }
        }
        let heads = config.num_attention_heads;
        if !config.hidden_size.is_multiple_of(heads) || !(config.hidden_size / heads).is_multiple_of(32) {
            let size = config.hidden_size;
            return refuse(format!("hidden_size {size} over {heads} heads is no multiple of 32 for each"));
        }
        Ok(config)
    }

    /// Returns the number of components of one attention head.
    pub(crate) fn head(&self) -> usize {
        self.hidden_size / self.num_attention_heads
    }
}

impl Pool {
    pub(crate) fn read(path: &Path, bytes: &[u8]) -> Result<Self, OpenError> {
        let pooling: Pooling =
            serde_json::from_slice(bytes).map_err(|error| OpenError::damaged(path, error.to_string()))?;
        match pooling {
            Pooling {
                pooling_mode_mean_tokens: true,
                pooling_mode_cls_token: false,
                pooling_mode_max_tokens: false,
            } => Ok(Self::Mean),
            Pooling {
                pooling_mode_cls_token: true,
                pooling_mode_mean_tokens: false,
                pooling_mode_max_tokens: false,
            } => Ok(Self::First),
            _ => Err(OpenError::unsupported(path, "its pooling is neither the mean nor the first token")),
        }
    }
}
