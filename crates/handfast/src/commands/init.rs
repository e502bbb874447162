//! `handfast init`: writes a configuration to start from.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;

use super::Failure;
use crate::cli::Global;
use crate::config::WORKSPACE_FILE;
use crate::host_environment::HostEnvironment;
use crate::places::workspace;
use crate::report::{note, warn};

/// Content of a new `handfast.yaml`: the built-in values, each explained.
pub(crate) const TEMPLATE: &str = include_str!("init.yaml");

pub(super) fn run(global: &Global) -> Result<ExitCode, Failure> {
    let path =
        workspace(&global.run_options(), &HostEnvironment::of_this_process(), &warn)?.join(WORKSPACE_FILE);
    let mut file = match OpenOptions::new().write(true).create_new(true).open(&path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return Err(Failure::usage(format!("{} exists already; nothing was changed", path.display())));
        }
        other => other.map_err(|error| unwritten(&path, &error))?,
    };
    if let Err(error) = file.write_all(TEMPLATE.as_bytes()) {
        // Half a template would be a broken configuration, which prevents every later start.
        let _ = std::fs::remove_file(&path);
        return Err(unwritten(&path, &error));
    }
    note(&format!(
        "wrote {}; it can only tighten rules until you run `handfast trust`, and again after each change",
        path.display()
    ));
    Ok(ExitCode::SUCCESS)
}

fn unwritten(path: &Path, error: &std::io::Error) -> Failure {
    Failure::from(format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_template_is_a_valid_configuration() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("handfast.yaml");
        std::fs::write(&path, super::TEMPLATE).unwrap();
        let file = crate::config::ConfigFile::read(&path).unwrap().unwrap();
        assert!(file.settings.sandbox_config.contains_key("normal"));
    }
}
