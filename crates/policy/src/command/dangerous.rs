//! Dangerous patterns in command lines.

use std::path::{Path, PathBuf};

use shell_syntax::Word;
use tool::CommandLine;

use super::lenient_split::Segment;
use super::matching::known_form;
use super::programs::{DOWNLOADERS, FED_WRAPPERS, WRAPPERS, base_name, is_cluster, runs_standard_input};
use super::reach::{ReachedCommands, Script};
use super::table::Class;

/// Context in which the dangerous patterns are judged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostEnvironment<'a> {
    /// Directory in which the command starts.
    pub(crate) directory: &'a Path,
    /// Home folder, if known.
    pub(crate) home: Option<&'a Path>,
    /// True if recursive removal of any absolute path counts (the CSP/1 dialect).
    pub(crate) any_absolute: bool,
}

/// Describes the first dangerous pattern in the line.
pub(crate) fn dangerous(reached: &ReachedCommands, around: HostEnvironment<'_>) -> Option<String> {
    reached.scripts.iter().find_map(|script| {
        removal_or_format(script, around)
            .or_else(|| fetched_code(script))
            .or_else(|| fork_bomb(&script.text))
            .or_else(|| statement(script))
    })
}

fn removal_or_format(script: &Script, around: HostEnvironment<'_>) -> Option<String> {
    let mut directory = around.directory.to_owned();
    for segment in &script.segments {
        let mut judged = Vec::new();
        let names_a_device = segment.words.iter().any(|word| word.contains("/dev/"));
        for start in script.starts(segment).filter(|start| !start.inert) {
            // The words after the first `rm` of a segment contain those after the next one. One
            // check is enough, and keeps the work linear.
            let program = start.words.first().map_or("", |word| base_name(word));
            if judged.contains(&program) {
                continue;
            }
            if ["chmod", "dd", "rm", "tee"].contains(&program) {
                judged.push(program);
            }
            let around = HostEnvironment { directory: &directory, ..around };
            if let Some(found) = dangerous_command(start.words, around) {
                return Some(found);
            }
            let first = start.words.get(..MAX_TESTS).unwrap_or(start.words);
            if names_a_device && let Some(device) = written_device(program, first) {
                return Some(format!("it could write to the block device {device}"));
            }
        }
        if let Some(device) = redirected(&segment.words).find(|target| is_block_device(target)) {
            return Some(format!("it writes to the block device {device}"));
        }
        // `cd / && rm -rf *` removes `/`.
        let moves = segment.words.iter().position(|word| word == "cd" || word == "pushd");
        if let Some(target) = moves.and_then(|at| segment.words.get(at + 1)) {
            directory = expanded(target, &directory, around.home);
        }
    }
    None
}

fn dangerous_command(words: &[String], around: HostEnvironment<'_>) -> Option<String> {
    let (program, arguments) = words.split_first()?;
    let operands = || arguments.iter().filter(|word| !word.starts_with('-'));
    let vital = || operands().find(|target| is_vital(target, around));
    match base_name(program) {
        "rm" if is_recursive(arguments) => {
            let target = vital().or_else(|| {
                operands().find(|target| around.any_absolute && target.starts_with(['/', '~', '$']))
            })?;
            Some(format!("it removes {target} and everything below it"))
        }
        "find" if removes_all_found(arguments.get(..MAX_TESTS).unwrap_or(arguments)) => {
            let starts =
                arguments.iter().take(MAX_TESTS).take_while(|word| !word.starts_with(['-', '(', '!']));
            let target = starts.into_iter().find(|target| is_vital(target, around))?;
            Some(format!("it removes {target} and everything below it"))
        }
        "chmod" if is_recursive(arguments) && arguments.iter().any(|mode| opens_to_all(mode)) => {
            Some(format!("it opens {} and everything below it to everyone", vital()?))
        }
        "dd" => {
            let input = arguments.iter().find(|word| word.starts_with("if="));
            let device = arguments.iter().find(|word| word.strip_prefix("of=").is_some_and(is_block_device));
            Some(format!("it copies raw data: dd {}", input.or(device)?))
        }
        "tee" => {
            let device = operands().find(|target| is_block_device(target))?;
            Some(format!("it writes to the block device {device}"))
        }
        name if name == "mkfs" || name == "mke2fs" || name.starts_with("mkfs.") => {
            Some(format!("it makes a file system: {name}"))
        }
        _ => None,
    }
}

/// Programs that look at a block device, in addition to those that are known to only read.
const LOOK_AT_DEVICES: [&str; 8] =
    ["blkid", "df", "findmnt", "lsblk", "mount", "smartctl", "udevadm", "umount"];

/// Returns the block device among the words of a program that is not known to only read it:
/// `cp image /dev/sda`, `shred /dev/sda`.
fn written_device<'a>(name: &str, words: &'a [String]) -> Option<&'a str> {
    if !words.iter().skip(1).any(|word| word.contains("/dev/")) {
        return None;
    }
    let looks = LOOK_AT_DEVICES.contains(&name) || WRAPPERS.contains(&name) || FED_WRAPPERS.contains(&name);
    let literal: Vec<Word> = words.iter().map(Word::literal).collect();
    if looks || known_form(&literal, Class::Reads).is_ok() {
        return None;
    }
    let ends =
        |word: &'a String| std::iter::once(word.as_str()).chain(word.split_once('=').map(|(_, end)| end));
    words.iter().skip(1).flat_map(ends).find(|target| is_block_device(target))
}

/// Maximum number of arguments that are checked, if the check is repeated for each possible start
/// of a command.
const MAX_TESTS: usize = 256;

fn is_recursive(arguments: &[String]) -> bool {
    arguments.iter().any(|word| {
        (is_cluster(word) && word.contains(['r', 'R']))
            || (word.len() > 3 && "--recursive".starts_with(word.as_str()))
    })
}

fn opens_to_all(mode: &str) -> bool {
    let digits = mode.trim_start_matches('0');
    let ugoa = mode.split(['=', '+']).next().unwrap_or_default();
    let everyone =
        ugoa.is_empty() || ugoa.contains('a') || ["u", "g", "o"].iter().all(|who| ugoa.contains(who));
    digits == "777" || digits == "1777" || (everyone && mode.contains(['=', '+']) && mode.contains('w'))
}

/// Returns true if `find` removes the files that it finds, without a condition on names.
fn removes_all_found(arguments: &[String]) -> bool {
    let runs = |pair: &[String]| match pair {
        [option, program] => option.starts_with("-exec") && ["rm", "shred"].contains(&base_name(program)),
        _ => false,
    };
    let chooses = |pair: &[String]| match pair {
        [option, pattern] => {
            let by_name = ["name", "path", "regex"].iter().any(|test| option.ends_with(test));
            option == "-empty" || (by_name && !pattern.starts_with('*'))
        }
        _ => false,
    };
    (arguments.iter().any(|word| word == "-delete") || arguments.windows(2).any(runs))
        && !arguments.windows(2).any(chooses)
}

/// Top-level folders of a system (Filesystem Hierarchy Standard 3.0, section 3), except `/tmp`.
const SYSTEM_FOLDERS: [&str; 19] = [
    "bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "media", "mnt", "opt", "proc",
    "root", "run", "sbin", "srv", "usr", "var",
];

/// Returns true if the target is `/` or a top-level system folder, or the home folder or one above
/// it. The whole content of one of them counts too.
fn is_vital(target: &str, around: HostEnvironment<'_>) -> bool {
    let bare_home = target.trim_end_matches(['/', '*', '.']);
    if bare_home == "~" || bare_home == "$HOME" || (bare_home.starts_with('~') && !bare_home.contains('/')) {
        return true;
    }
    let path = expanded(target, around.directory, around.home);
    let mut components: Vec<String> = path
        .components()
        .filter_map(|component| match component {
            std::path::Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
            _ => None,
        })
        .collect();
    // `/usr/*` and `/usr/.[!.]*` mean the whole content of `/usr`.
    while components.last().is_some_and(|name| {
        name.contains(['*', '?']) && name.chars().all(|character| "*?.[]!^".contains(character))
    }) {
        components.pop();
    }
    let below_home = around.home.is_some_and(|home| {
        let path: std::path::PathBuf =
            std::iter::once("/").chain(components.iter().map(String::as_str)).collect();
        home.starts_with(path)
    });
    match components.as_slice() {
        [] => true,
        [name] => {
            below_home
                || SYSTEM_FOLDERS.contains(&name.as_str())
                || name == "sys"
                || name.contains(['*', '?', '[', '$'])
        }
        _ => below_home,
    }
}

/// Resolves the path in a word of a shell line, by its spelling.
fn expanded(word: &str, directory: &Path, home: Option<&Path>) -> std::path::PathBuf {
    let below_home = ["~", "$HOME"]
        .iter()
        .find_map(|name| word.strip_prefix(name).filter(|rest| rest.is_empty() || rest.starts_with('/')));
    match (below_home, home) {
        (Some(rest), Some(home)) => crate::spell::resolve(home, rest.trim_start_matches('/')).path,
        _ => crate::spell::resolve(directory, word).path,
    }
}

fn redirected(words: &[String]) -> impl Iterator<Item = &String> {
    words.windows(2).filter_map(|pair| match pair {
        [operator, target] if operator.starts_with('>') => Some(target),
        _ => None,
    })
}

/// Prefixes of names of block devices below `/dev` (Linux's `Documentation/admin-guide/devices.txt`).
const BLOCK_DEVICES: [&str; 17] = [
    "block/", "disk/", "dm-", "hd", "loop", "mapper/", "md", "mmcblk", "nbd", "nvme", "pmem", "ram", "sd",
    "sr", "vd", "xvd", "zram",
];

fn is_block_device(target: &str) -> bool {
    let path = crate::spell::resolve(Path::new("/"), target).path;
    let Some(name) = path.to_str().and_then(|path| path.strip_prefix("/dev/")) else { return false };
    target.starts_with('/') && BLOCK_DEVICES.iter().any(|prefix| name.starts_with(prefix))
}

fn fetched_code(script: &Script) -> Option<String> {
    let mut fetched = None;
    let mut awaited = false;
    for segment in &script.segments {
        if !segment.piped && !segment.substituted {
            fetched = None;
        }
        let mut starts = script.starts(segment);
        if let Some(from) = fetched
            && segment.piped
            && starts.any(|start| runs_standard_input(start.words))
        {
            return Some(format!("it runs the download of `{from}`"));
        }
        let downloader = script.starts(segment).filter(|start| !start.inert).find_map(|start| {
            start.words.first().map(|word| base_name(word)).filter(|name| DOWNLOADERS.contains(name))
        });
        if let Some(from) = downloader {
            if segment.substituted && awaited {
                return Some(format!("it runs the download of `{from}`"));
            }
            fetched = Some(from);
        }
        awaited = script.awaits_code(segment);
    }
    None
}

/// Maximum length of a checked function body, in bytes without spaces.
const LONGEST_BOMB: usize = 512;

/// Detects a function that calls itself at least twice, in the background or in a pipe.
fn fork_bomb(text: &str) -> Option<String> {
    let text: String = text.chars().filter(|character| !character.is_whitespace()).collect();
    let text = text.replace("function", "");
    for (at, _) in text.match_indices('{') {
        let (before, body) = text.split_at(at);
        let before = before.strip_suffix("()").unwrap_or(before);
        let name_at = before.char_indices().rev().take(LONGEST_BOMB).last().map_or(0, |(at, _)| at);
        let name = before.get(name_at..).unwrap_or_default();
        let name = name.rsplit([';', '&', '|', '(', ')', '{', '}', '\'', '"']).next().unwrap_or_default();
        let body = body.get(1..).unwrap_or_default();
        let end = body.bytes().take(LONGEST_BOMB).position(|byte| byte == b'}');
        let body = end.and_then(|end| body.get(..end)).unwrap_or_default();
        let calls = body.split(['|', '&', ';', '(', ')']).filter(|part| *part == name).count();
        if !name.is_empty() && calls >= 2 && body.contains(['|', '&']) {
            return Some("it is a fork bomb".to_owned());
        }
    }
    None
}

/// Programs for which a bare `truncate NAME` is a statement.
const DATABASE_CLIENTS: [&str; 10] =
    ["clickhouse", "cockroach", "cqlsh", "duckdb", "mariadb", "mysql", "pgcli", "psql", "snowsql", "sqlcmd"];

/// Detects `DROP DATABASE` and `TRUNCATE`, in any case, but not coreutils' `truncate`.
///
/// In a parsed line, a text that is only printed, searched for or shown to people is not a
/// statement unless it is piped on.
fn statement(script: &Script) -> Option<String> {
    if !script.understood {
        return stated(&script.text);
    }
    let mut pipeline = String::new();
    let mut states = false;
    let mut found = None;
    for segment in script.segments.iter().chain(std::iter::once(&Segment::default())) {
        if !segment.piped && !segment.substituted {
            if states && found.is_none() {
                found = stated(&pipeline);
            }
            pipeline.clear();
            states = false;
        }
        states |= segment.states;
        for text in segment.words.iter().chain(&segment.texts) {
            pipeline.push_str(text);
            pipeline.push(' ');
        }
    }
    found
}

/// Returns the reason why statements that a database client reads from a file are dangerous:
/// `DROP DATABASE` or `TRUNCATE`, in any case.
pub fn dangerous_statements(text: &str) -> Option<String> {
    // Statements in a file have no program before them.
    stated(&format!("psql {text}"))
}

/// A file from which a database client of a line may read its statements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatementFile {
    /// Path of the file, resolved from the directory in which the line starts.
    pub path: PathBuf,
    /// True if the client certainly reads the file. Otherwise the name may not be that of a file.
    pub certain: bool,
}

/// Returns the files from which the database clients of a line may read their statements.
pub fn statement_files(command: &CommandLine, directory: &Path) -> Vec<StatementFile> {
    let reached = ReachedCommands::by(command);
    let mut files: Vec<StatementFile> = Vec::new();
    let mut add = |name: &str, certain: bool| match files.len() {
        ..MAX_STATEMENT_FILES => {
            files.push(StatementFile { path: crate::spell::resolve(directory, name).path, certain });
        }
        // Files beyond this number are not read, so the folder stands for them, because it has no
        // readable statements.
        MAX_STATEMENT_FILES => files.push(StatementFile { path: directory.to_owned(), certain: true }),
        _ => {}
    };
    for script in &reached.scripts {
        let mut printed: Vec<&String> = Vec::new();
        for segment in &script.segments {
            if !segment.piped {
                printed.clear();
            }
            if let Some(client) = script.starts(segment).find(|start| is_client(start.words)) {
                read_by_client(client.words, &mut |name| add(name, true));
                // The output of another command of the pipe may be the content of files that its
                // words name.
                for word in printed.drain(..) {
                    add(word, false);
                }
            }
            printed.extend(segment.words.iter().skip(1).filter(|word| !word.starts_with('-')));
        }
    }
    files
}

/// Maximum number of files of statements of one line.
const MAX_STATEMENT_FILES: usize = 16;

fn is_client(words: &[String]) -> bool {
    words.first().is_some_and(|word| CLIENTS_WITH_FILES.iter().any(|client| base_name(word) == *client))
}

/// Reports the files that the words of a client name for their statements.
fn read_by_client(words: &[String], add: &mut dyn FnMut(&str)) {
    for pair in words.windows(2) {
        if let [option, file] = pair
            && ["-f", "--file", "-i", "<", "-init"].contains(&option.as_str())
        {
            add(file);
        }
    }
    for word in words {
        let attached = word.strip_prefix("--file=").or_else(|| word.strip_prefix("-f"));
        attached.filter(|file| !file.is_empty()).into_iter().for_each(&mut *add);
        included(word).for_each(&mut *add);
    }
}

/// Names of database clients that read files of statements.
const CLIENTS_WITH_FILES: [&str; 14] = [
    "clickhouse-client",
    "cockroach",
    "cqlsh",
    "duckdb",
    "mariadb",
    "mongo",
    "mongosh",
    "mysql",
    "pgcli",
    "psql",
    "redis-cli",
    "snowsql",
    "sqlcmd",
    "usql",
];

/// Returns the files that `\i FILE`, `source FILE` and `.read FILE` in a statement name.
fn included(statements: &str) -> impl Iterator<Item = &str> {
    let mut words = statements.split_whitespace().peekable();
    std::iter::from_fn(move || {
        loop {
            let word = words.next()?;
            if ["\\i", "\\ir", "\\include", "\\.", "source", ".read"].contains(&word) {
                return words.next().map(|file| file.trim_end_matches(';'));
            }
        }
    })
}

fn stated(text: &str) -> Option<String> {
    let lower = without_comments(text).to_lowercase();
    let words: Vec<&str> = lower
        .split(|character: char| !character.is_alphanumeric() && !"_-./$`".contains(character))
        .filter(|word| !word.is_empty())
        .collect();
    let client =
        words.iter().any(|word| DATABASE_CLIENTS.iter().any(|client| base_name(word).starts_with(client)));
    // MongoDB's shell: `db.dropDatabase()`.
    if words.iter().any(|word| word.ends_with("dropdatabase")) {
        return Some("it drops a database".to_owned());
    }
    words.windows(2).find_map(|pair| match pair {
        ["drop", "database" | "schema"] => Some(format!("it drops a {}", pair[1])),
        ["truncate", "table"] => Some("it empties a table".to_owned()),
        // In capitals, or for a database client, the word is a statement and not coreutils' program.
        ["truncate", name] if !name.starts_with('-') && (client || text.contains("TRUNCATE")) => {
            Some("it empties a table".to_owned())
        }
        _ => None,
    })
}

/// Removes comments, which SQL allows wherever it allows a space.
fn without_comments(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, comment)) = rest.split_once("/*") {
        // A path such as `src/*` does not begin a comment that ends.
        let Some((_, after)) = comment.split_once("*/") else { break };
        plain.push_str(before);
        plain.push(' ');
        rest = after;
    }
    plain.push_str(rest);
    plain
}
