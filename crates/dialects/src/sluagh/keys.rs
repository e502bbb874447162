//! Environment variables that a command of the worker may not set.

use tool::{ToolError, is_credential_name};

/// Variables that a call may not set: those that select programs or loaded code, and the worker's key.
pub(super) const PROTECTED_KEYS: [&str; 32] = [
    "WORKER_API_KEY",
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "PWD",
    "OLDPWD",
    "TMPDIR",
    "IFS",
    "ENV",
    "BASH_ENV",
    "BASHOPTS",
    "SHELLOPTS",
    "CDPATH",
    "PS4",
    "PROMPT_COMMAND",
    "GCONV_PATH",
    "HOSTALIASES",
    "NODE_OPTIONS",
    "NODE_PATH",
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONSTARTUP",
    "PERL5LIB",
    "PERL5OPT",
    "PERL5DB",
    "RUBYLIB",
    "RUBYOPT",
    "JAVA_TOOL_OPTIONS",
    "GLIBC_TUNABLES",
    "XDG_CONFIG_HOME",
];

/// Prefixes of keys that a call may not set.
const PROTECTED_BEGINNINGS: [&str; 5] = ["LD_", "DYLD_", "BASH_FUNC_", "GIT_", "HANDFAST_"];

/// Returns an error if a call may not set this variable.
pub(super) fn require_free(key: &str) -> Result<(), ToolError> {
    let field = format!("env.{}", key.chars().take(100).collect::<String>());
    let is_name = key.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && key.chars().all(|character| character.is_ascii_alphanumeric() || character == '_');
    if !is_name {
        return Err(ToolError::validation(&field, "this is not a valid environment variable name"));
    }
    let begins = PROTECTED_BEGINNINGS.iter().any(|beginning| key.starts_with(beginning));
    if begins || PROTECTED_KEYS.contains(&key) {
        let problem = "this key is system-critical and cannot be set";
        return Err(ToolError::validation(&field, problem).hint("leave it out"));
    }
    if is_credential_name(key) {
        let problem = "this key is a credential, which only the worker sets";
        return Err(ToolError::validation(&field, problem)
            .hint("leave it out; fetch_url and linear_action add keys on sending"));
    }
    Ok(())
}
