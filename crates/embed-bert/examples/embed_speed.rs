//! How fast texts become vectors, for `cargo xtask bench --only embedding`: `embed_speed MODEL_FOLDER TEXTS.json [OTHER ...]`, where
//! `TEXTS.json` is a list of texts and `OTHER` a program that answers lines of JSON, lists of texts, with one line each:
//! `{"seconds": CPU_SECONDS, "vectors": [[...]]}`. Both are asked in turns.

#![allow(clippy::print_stdout, reason = "the figures are this program's only result")]

fn main() {}
