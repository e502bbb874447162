//! Makes one attempt of a probe: what the tests of `probe` run in cells, as `handfast` runs itself.

use std::ffi::OsString;

fn main() -> std::io::Result<()> {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    sandbox::attempt(&arguments)
}
