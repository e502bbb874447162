//! Vectors of texts from a BERT network, which is read from a folder and computed in this process.
//!
//! There are two ways through the same layers. [`Precision::Exact`] computes in floats, exactly as
//! the model was made. [`Precision::Bytes`] turns matrices and rows into bytes: it is several times
//! quicker, and its vectors have a cosine of at least 0.999 to the exact ones. The byte matrices
//! are stored in a file next to the model, so that later opening takes milliseconds.
//!
//! Nothing is padded: the tokens of several texts are stacked, and only attention separates the
//! texts. So the length of a text costs its neighbours nothing, and texts need not be sorted.
//!
//! This crate downloads nothing, and knows nothing about tools.

mod config;
mod error;
mod files;
mod forward;
mod tensors;
mod tokens;
mod weights;
mod work;

pub use error::OpenError;
pub use files::{CONFIG, MODEL, POOLING, PinnedFile, TOKENIZER, check};
pub use work::{Precision, open, open_pinned, open_with};

/// Maximum number of tokens of a text, including its first and last marker. Further tokens are cut off.
pub const MAX_TOKENS: usize = 256;

/// Name of the pinned model, as people know it.
pub const PINNED_NAME: &str = "all-MiniLM-L6-v2";

/// Files of the pinned model, as its authors published them (revision
/// 1110a243fdf4706b3f48f1d95db1a4f5529b4d41).
pub const PINNED: [PinnedFile; 3] = [
    PinnedFile {
        name: MODEL,
        bytes: 90_868_376,
        sha256: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    },
    PinnedFile {
        name: TOKENIZER,
        bytes: 466_247,
        sha256: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    },
    PinnedFile {
        name: CONFIG,
        bytes: 612,
        sha256: "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    },
];
