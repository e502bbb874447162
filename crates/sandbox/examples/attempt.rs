//! Runs one attempt of a probe: the tests of `probe` run this in cells, as `handfast` runs itself.

use std::ffi::OsString;

fn main() -> std::io::Result<()> {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    sandbox::attempt(&arguments)
}
