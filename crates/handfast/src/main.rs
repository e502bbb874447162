//! The `handfast` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    handfast::main()
}
