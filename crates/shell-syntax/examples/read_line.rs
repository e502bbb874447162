//! Prints the reading of each line of standard input.
#![expect(clippy::print_stdout, reason = "the readings are this program's only result")]
use std::io::Read;
fn main() -> Result<(), std::io::Error> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    for line in text.split('\u{1e}').map(|line| line.trim_end_matches('\n')) {
        println!("{line:?}\n    {:?}", shell_syntax::read(line));
    }
    Ok(())
}
