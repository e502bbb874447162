//! Vectors of texts by a network of BERT's family, read from a folder and computed here: no other program, no network.
//!
//! Two ways through the same layers: in floats, exactly as the model was made ([`Precision::Exact`]), and with matrices and rows made
//! bytes ([`Precision::Bytes`]), which is several times quicker and has a cosine of at least 0.999 to the other. The second one's
//! matrices are kept in a file beside the model, so that later opening is a matter of milliseconds.
//!
//! Nothing is padded: the tokens of several texts lie one below the other, and only attention knows where one ends. So the length of
//! a text costs nothing to its neighbours, and texts need not be sorted.
//!
//! It fetches nothing, and knows no tools.

mod config;
mod error;
mod files;
mod forward;
mod tensors;
mod tokens;
mod weights;
mod work;

pub use error::OpenError;
pub use files::{CONFIG, MODEL, POOLING, Pinned, TOKENIZER, check};
pub use work::{Precision, open, open_pinned, open_with};

/// Tokens of a text that count, those of its begin and end included; what is beyond is cut off.
pub const MOST_TOKENS: usize = 256;

/// What people call the model that is pinned.
pub const PINNED_NAME: &str = "all-MiniLM-L6-v2";

/// Its files, as their authors published them (revision 1110a243fdf4706b3f48f1d95db1a4f5529b4d41).
pub const PINNED: [Pinned; 3] = [
    Pinned {
        name: MODEL,
        bytes: 90_868_376,
        sha256: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    },
    Pinned {
        name: TOKENIZER,
        bytes: 466_247,
        sha256: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    },
    Pinned {
        name: CONFIG,
        bytes: 612,
        sha256: "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    },
];
