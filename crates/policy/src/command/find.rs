//! `find`, whose words are an expression of their own.

use shell_syntax::Word;

use super::matching::{Operand, Use};
use super::table::Kind;

/// Tests and actions without a value.
const PLAIN: [&str; 27] = [
    "-a",
    "-and",
    "-o",
    "-or",
    "!",
    "-not",
    "(",
    ")",
    ",",
    "-print",
    "-print0",
    "-prune",
    "-quit",
    "-ls",
    "-empty",
    "-readable",
    "-writable",
    "-executable",
    "-true",
    "-false",
    "-depth",
    "-d",
    "-mount",
    "-xdev",
    "-nouser",
    "-nogroup",
    "-daystart",
];

/// Tests and actions with a value that is only compared or printed.
const WITH_VALUE: [&str; 32] = [
    "-name",
    "-iname",
    "-path",
    "-ipath",
    "-wholename",
    "-iwholename",
    "-regex",
    "-iregex",
    "-regextype",
    "-type",
    "-xtype",
    "-size",
    "-mtime",
    "-mmin",
    "-atime",
    "-amin",
    "-ctime",
    "-cmin",
    "-maxdepth",
    "-mindepth",
    "-perm",
    "-user",
    "-group",
    "-uid",
    "-gid",
    "-links",
    "-inum",
    "-used",
    "-newermt",
    "-lname",
    "-ilname",
    "-printf",
];

/// Tests whose value is a path that is looked at.
const WITH_PATH: [&str; 5] = ["-newer", "-anewer", "-cnewer", "-samefile", "-newermm"];

/// An expression of known tests; no action but printing.
pub(super) fn only_finds(words: &[Word], found: &mut Use) -> Result<(), &'static str> {
    // A file may be named `-delete`, and the shell would put its name where the glob stands.
    if words.iter().any(|word| !word.is_literal()) {
        return Err("`find` with a pattern of file names could be given any option");
    }
    let mut words = words.iter().peekable();
    while words
        .next_if(|word| ["-H", "-L", "-P"].contains(&word.text.as_str()) || word.text.starts_with("-O"))
        .is_some()
    {}
    let mut starts = 0;
    while let Some(start) =
        words.next_if(|word| !word.text.starts_with('-') && !["(", "!"].contains(&word.text.as_str()))
    {
        found.operands.push(Operand::of(start, Kind::Names));
        starts += 1;
    }
    if starts == 0 {
        found.operands.push(Operand::directory(Kind::Names));
    }
    while let Some(word) = words.next() {
        let text = word.text.as_str();
        if PLAIN.contains(&text) {
            continue;
        }
        let value = words.next().ok_or("a test of `find` has no value")?;
        if WITH_PATH.contains(&text) {
            found.operands.push(Operand::of(value, Kind::Names));
        } else if !WITH_VALUE.contains(&text) {
            return Err("`find` is told to write or to run something, or more than is known");
        }
    }
    Ok(())
}
