//! Prints the time that a decision takes: the median for typical calls, for the worst accepted
//! lines, and for a policy of 10,000 rules. At the end come the three promised figures, next to
//! their targets.

#![expect(clippy::print_stdout, reason = "the figures are this program's only result")]

use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use policy::{
    Dialect, ListEntry, Mode, Origin, Part, Policy, ProfileSource, Profiles, Programs, Request, Setup,
    Source, Trust,
};
use tool::{Access, CommandLine, Effect, Level};

const ROUNDS: usize = 2_000;
const MANY: usize = 10_000;

fn main() -> Result<(), Box<dyn Error>> {
    let few = compile(ProfileSource {
        allowed_exec_command: Some(vec!["cargo test".into(), "pytest".into()]),
        deny_exec_command: Some(vec!["git rm".into(), "rm -rf *".into()]),
        ..ProfileSource::default()
    })?;
    let begun = Instant::now();
    let many = compile(many_rules())?;
    println!("compiling {MANY} rules                 {:>12?}", begun.elapsed());
    let mut seen = Seen::default();

    let calls = [
        ("read a file", Effect::Read { path: "/w/project/crates/policy/src/lib.rs".into() }),
        ("delete a folder", Effect::Delete { path: "/w/project/crates/policy".into() }),
        ("run a pipeline", run("grep -rn 'fn main' crates/policy/src | head -n 50")),
        (
            "run a list of reads",
            run("cd crates/policy && sed -n '1,80p' src/lib.rs && git diff --stat 2>/dev/null | head -20"),
        ),
        (
            "run a here-document",
            run("git commit -m \"$(cat <<'EOF'\nIt's a change\n\nof `this` and $that\nEOF\n)\""),
        ),
        ("run with a glob", run("cat crates/policy/src/*.rs")),
        ("run a script", run("cd crates/policy && cargo test -- --nocapture 2>&1 | tail -n 20")),
        ("run a script of 60 kB", run(&"sudo git -C x add y && ".repeat(2_600))),
    ];
    println!("{:<32} {:>12} {:>12} {:>8}", "median of a decision", "few rules", "10,000", "ratio");
    for (name, effect) in calls {
        let part = [Part::from(effect)];
        let rounds = if name.contains("kB") { 20 } else { ROUNDS };
        let one = median(rounds, || decide(&few, &part));
        let two = median(rounds, || decide(&many, &part));
        print_row(name, one, two);
        if name.contains("kB") {
            seen.worst = seen.worst.max(one).max(two);
        } else {
            seen.typical = seen.typical.max(one);
            seen.rules = seen.rules.max(two.saturating_sub(one));
        }
    }
    for word in
        ["git ", "rm -r ", "env sh -c ", "$(", "a{b,", ":(){", "sudo env ", "python -x ", "find find ", "-e "]
    {
        let part = [Part::from(run(&format!("{};", word.repeat(60_000 / word.len()))))];
        let (one, two) = (median(5, || decide(&few, &part)), median(5, || decide(&many, &part)));
        print_row(&format!("hostile: {word}..."), one, two);
        seen.worst = seen.worst.max(one).max(two);
    }
    // The longest lines that are read: each has the maximum length, or the maximum number of operators.
    for word in [
        "a|",
        "a;",
        "ls a && ",
        "git ",
        "'a' ",
        "\"$x\"",
        "f() ",
        "<<< a ",
        "(a);",
        "[ -f a ] && ",
        "> a ",
        "a=b ",
        "if a; then b; fi; ",
    ] {
        for size in [1_500, 32_000] {
            let line = format!("{}a", word.repeat(size / word.len()));
            let part = [Part::from(run(&line))];
            let (one, two) = (median(5, || decide(&few, &part)), median(5, || decide(&many, &part)));
            print_row(&format!("{} kB of {word}", size.div_ceil(1_000)), one, two);
            seen.worst = seen.worst.max(one).max(two);
        }
    }
    let path = Path::new("/w/project/crates/policy/src/path/list.rs");
    let verdict = |policy: &Policy| {
        black_box(policy.path_verdict(Access::Read, black_box(path)));
    };
    print_row("path_verdict", median(ROUNDS, || verdict(&few)), median(ROUNDS, || verdict(&many)));
    seen.print();
    Ok(())
}

/// The promised figures.
#[derive(Default)]
struct Seen {
    /// Median of the slowest typical call.
    typical: Duration,
    /// Median of the slowest accepted line.
    worst: Duration,
    /// Time that 10,000 rules add to a typical call.
    rules: Duration,
}

impl Seen {
    fn print(&self) {
        println!("\n| check, in the library | measured | target | ratio |\n|---|---:|---:|---:|");
        for (what, measured, target) in [
            ("a typical call, p50", self.typical, Duration::from_micros(200)),
            ("the worst line that is accepted", self.worst, Duration::from_millis(100)),
            ("what 10,000 rules add", self.rules, Duration::from_millis(1)),
        ] {
            let ratio = measured.as_secs_f64() / target.as_secs_f64();
            println!("| {what} | {measured:.1?} | {target:?} | {ratio:.2} |");
        }
    }
}

fn compile(profile: ProfileSource) -> Result<Policy, policy::PolicyError> {
    let origin = Origin::User(Path::new("/home/ann/.config/handfast/config.yaml").into());
    let profiles = Profiles::from([("normal".to_owned(), profile)]);
    Policy::compile(&Setup {
        sources: &[Source::new(origin, Trust::Trusted, profiles)],
        profile: "normal",
        mode: Some((Mode::SmartAuto, Origin::CommandLine)),
        dialect: Dialect::default(),
        workspace: Path::new("/w/project"),
        home: Some(Path::new("/home/ann")),
        protected: &[],
        closed: &[],
        programs: Programs::Presumed,
        tools: &[],
    })
}

/// Returns a mix of plain names, extensions, anchored paths and patterns that need a regular
/// expression, and denied commands.
fn many_rules() -> ProfileSource {
    let paths = (0..MANY / 2).map(|number| match number % 5 {
        0 => format!("secret-{number}.txt"),
        1 => format!("*.ext{number}"),
        2 => format!("./folder/{number}/file"),
        3 => format!("/srv/data/{number}"),
        _ => format!("a{number}/**/b*c/*.d"),
    });
    ProfileSource {
        deny_read_paths: Some(paths.map(ListEntry::from).collect()),
        deny_exec_command: Some((0..MANY / 2).map(|number| format!("git sub-{number} *").into()).collect()),
        ..ProfileSource::default()
    }
}

fn run(line: &str) -> Effect {
    Effect::Run { command: CommandLine::Shell(line.to_owned()), directory: "/w/project".into() }
}

fn decide(policy: &Policy, parts: &[Part]) {
    let request = Request {
        tool: "a_tool",
        level: Level::Destructive,
        parts: black_box(parts),
        undoable_in_force: false,
        background: false,
    };
    black_box(policy.decide(&request));
}

fn median(rounds: usize, mut action: impl FnMut()) -> Duration {
    let mut taken: Vec<Duration> = (0..rounds)
        .map(|_| {
            let begun = Instant::now();
            action();
            begun.elapsed()
        })
        .collect();
    taken.sort_unstable();
    taken.get(rounds / 2).copied().unwrap_or_default()
}

fn print_row(name: &str, few: Duration, many: Duration) {
    let ratio = many.as_secs_f64() / few.as_secs_f64().max(f64::MIN_POSITIVE);
    println!("{name:<32} {few:>12?} {many:>12?} {ratio:>8.1}");
}
