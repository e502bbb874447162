//! Network of a file: its sizes, and its matrices.

use crate::error::{OpenError, damaged, unsupported};
use crate::gguf::{Gguf, Value};
use crate::matrix::{BLOCK, Matrix, floats};

/// Maximum of every size of a network. The largest of known models is a vocabulary of 256,000 tokens.
const LARGEST: usize = 1 << 20;

/// Sizes of a network.
#[derive(Debug, Clone)]
pub(crate) struct Sizes {
    pub(crate) layers: usize,
    /// Numbers of a token between the layers.
    pub(crate) width: usize,
    /// Numbers within the feed-forward step.
    pub(crate) wide: usize,
    /// Heads of queries.
    pub(crate) heads: usize,
    /// Heads of keys and values, each for several heads of queries.
    pub(crate) shared_heads: usize,
    /// Numbers of one head.
    pub(crate) head: usize,
    /// Maximum number of tokens.
    pub(crate) context: usize,
    pub(crate) vocabulary: usize,
    /// Addend below the root of the norm.
    pub(crate) epsilon: f32,
    /// Base of the angles of positions.
    pub(crate) base: f32,
}

/// Network.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) sizes: Sizes,
    pub(crate) words: Matrix,
    /// Matrix of the last step; `None` if it is `words`.
    last: Option<Matrix>,
    pub(crate) norm: Vec<f32>,
    pub(crate) layers: Vec<Layer>,
}

/// Layer of a network.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) attention_norm: Vec<f32>,
    pub(crate) query: Matrix,
    pub(crate) key: Matrix,
    pub(crate) value: Matrix,
    pub(crate) output: Matrix,
    pub(crate) wide_norm: Vec<f32>,
    pub(crate) gate: Matrix,
    pub(crate) up: Matrix,
    pub(crate) down: Matrix,
}

impl Sizes {
    fn read(file: &Gguf) -> Result<Self, OpenError> {
        let kind = file.text("general.architecture").unwrap_or("unnamed");
        if kind != "llama" {
            return Err(unsupported(format!("its architecture is {kind}, and only llama is known")));
        }
        if let Some(kind) = file.text("llama.rope.scaling.type")
            && kind != "none"
        {
            return Err(unsupported(format!("its positions are scaled ({kind})")));
        }
        if file.whole("llama.expert_count").is_some_and(|count| count > 0) {
            return Err(unsupported("it has experts"));
        }
        let size = |name: &str| {
            let found = file.whole(&format!("llama.{name}")).filter(|size| (1..=LARGEST).contains(size));
            found.ok_or_else(|| damaged(format!("llama.{name} is no number from 1 to {LARGEST}")))
        };
        let heads = size("attention.head_count")?;
        let width = size("embedding_length")?;
        let Some(Value::Texts(tokens)) = file.fact("tokenizer.ggml.tokens") else {
            return Err(damaged("it has no tokens"));
        };
        let float = |name: &str, otherwise: Option<f64>| {
            let found = match file.fact(name) {
                Some(Value::Float(number)) => Some(*number),
                _ => otherwise,
            };
            let found = found.filter(|number| *number > 0.0 && *number < 1e12);
            found.map(narrow).ok_or_else(|| damaged(format!("{name} is no usable number")))
        };
        let sizes = Self {
            layers: size("block_count")?,
            width,
            wide: size("feed_forward_length")?,
            heads,
            shared_heads: size("attention.head_count_kv").unwrap_or(heads),
            head: width / heads,
            context: size("context_length")?,
            vocabulary: tokens.len(),
            epsilon: float("llama.attention.layer_norm_rms_epsilon", None)?,
            base: float("llama.rope.freq_base", Some(10_000.0))?,
        };
        sizes.check(file)?;
        Ok(sizes)
    }

    fn check(&self, file: &Gguf) -> Result<(), OpenError> {
        if self.head * self.heads != self.width
            || !self.heads.is_multiple_of(self.shared_heads)
            || !self.head.is_multiple_of(2)
        {
            return Err(damaged("its heads do not divide its width"));
        }
        let own = ["key_length", "value_length"].map(|name| file.whole(&format!("llama.attention.{name}")));
        let rope = file.whole("llama.rope.dimension_count");
        if own.into_iter().chain([rope]).flatten().any(|size| size != self.head) {
            return Err(unsupported("its heads have several sizes"));
        }
        if ![self.width, self.wide].iter().all(|size| size.is_multiple_of(BLOCK)) {
            return Err(unsupported(format!("its width is no multiple of {BLOCK}")));
        }
        Ok(())
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the network computes in floats of 32 bits")]
fn narrow(number: f64) -> f32 {
    number as f32
}

impl Network {
    /// Reads the network of a file.
    pub(crate) fn read(file: &Gguf) -> Result<Self, OpenError> {
        let sizes = Sizes::read(file)?;
        // Each layer must have nine tensors, so that their number is bounded by the file.
        if file.names().count() / 9 < sizes.layers {
            return Err(damaged(format!("it has fewer tensors than {} layers need", sizes.layers)));
        }
        let matrix = |name: &str, depth: usize, outputs: usize| {
            let (form, bytes) = file.tensor(name, &[depth, outputs])?;
            Matrix::read(name, form, &bytes, depth)
        };
        let norm = |name: &str| {
            let (form, bytes) = file.tensor(name, &[sizes.width])?;
            let numbers =
                floats(form, &bytes).filter(|numbers| numbers.iter().all(|number| number.is_finite()));
            numbers.ok_or_else(|| damaged(format!("{name} has values that are no numbers")))
        };
        let (width, wide, shared) = (sizes.width, sizes.wide, sizes.head * sizes.shared_heads);
        let layers = (0..sizes.layers).map(|layer| {
            let name = |what: &str| format!("blk.{layer}.{what}.weight");
            Ok(Layer {
                attention_norm: norm(&name("attn_norm"))?,
                query: matrix(&name("attn_q"), width, width)?,
                key: matrix(&name("attn_k"), width, shared)?,
                value: matrix(&name("attn_v"), width, shared)?,
                output: matrix(&name("attn_output"), width, width)?,
                wide_norm: norm(&name("ffn_norm"))?,
                gate: matrix(&name("ffn_gate"), width, wide)?,
                up: matrix(&name("ffn_up"), width, wide)?,
                down: matrix(&name("ffn_down"), wide, width)?,
            })
        });
        let layers = layers.collect::<Result<Vec<_>, OpenError>>()?;
        let is_tied = !file.has("output.weight");
        // A tensor that is not computed, such as a bias, would silently change every answer.
        let known = layers.len() * 9 + 2 + usize::from(!is_tied);
        if file.names().count() != known {
            return Err(unsupported(format!("it has tensors beyond the {known} of its architecture")));
        }
        Ok(Self {
            words: matrix("token_embd.weight", width, sizes.vocabulary)?,
            last: if is_tied { None } else { Some(matrix("output.weight", width, sizes.vocabulary)?) },
            norm: norm("output_norm.weight")?,
            layers,
            sizes,
        })
    }

    /// Returns the matrix of the last step.
    pub(crate) fn last(&self) -> &Matrix {
        self.last.as_ref().unwrap_or(&self.words)
    }
}
