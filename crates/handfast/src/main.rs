//! The `handfast` program.

use std::process::ExitCode;

/// The allocator of the static program. That of musl takes a lock for each call, and made the start of a
/// server slower (`docs/TRIED.md`).
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    handfast::main()
}
