//! Asks the command policy about random lines. The first argument is the number of rounds, the
//! second the seed. A line is printed if it panics, passes although it contains a denied command,
//! or takes long.
//!
//! `cargo run --release -p policy --example fuzz_lines -- 1000000 7`

#![expect(clippy::print_stdout, reason = "what is found is this program's only result")]

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use policy::{
    Dialect, ListEntry, Mode, Origin, Part, Policy, ProfileSource, Profiles, Programs, Request, Setup,
    Source, Trust, Verdict,
};
use tool::{CommandLine, Effect, Level};

#[path = "../tests/policy/random_lines.rs"]
mod random_lines;

use random_lines::{DENIED, Random, jumble, placed, respelled, unfinished};

/// Maximum time for a line: no accepted input may take more in a release build.
const LONGEST: Duration =
    if cfg!(debug_assertions) { Duration::from_secs(10) } else { Duration::from_millis(100) };

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let rounds: u64 = arguments.next().unwrap_or_else(|| "100000".to_owned()).parse()?;
    let seed: u64 = arguments.next().unwrap_or_else(|| "1".to_owned()).parse()?;
    let policy = denying()?;
    let mut random = Random(seed.max(1));
    let (mut found, mut slowest) = (0_u64, Duration::ZERO);
    for round in 0..rounds {
        let words = DENIED.get(random.below(DENIED.len())).copied().unwrap_or_default();
        let denied: Vec<String> = words.iter().map(|word| respelled(word, &mut random)).collect();
        let (jumbled, line) = match round % 3 {
            0 => (true, jumble(&mut random)),
            1 => (true, unfinished(&mut random)),
            _ => (false, placed(&denied.join(" "), &mut random)),
        };
        let begun = Instant::now();
        let verdict = ask(&policy, &line);
        let taken = begun.elapsed();
        slowest = slowest.max(taken);
        if taken > LONGEST || (!jumbled && verdict == Verdict::Pass) {
            found += 1;
            println!("{verdict:?} after {taken:?}: {line:?}");
        }
    }
    println!("{rounds} lines from seed {seed}, {found} findings, the slowest took {slowest:?}");
    if found == 0 { Ok(()) } else { Err("there are findings".into()) }
}

fn denying() -> Result<Policy, policy::PolicyError> {
    let words = |text: &str| Some(text.split(',').map(ListEntry::from).collect());
    let profile = ProfileSource {
        allowed_exec_command: words("git,npm,rm,ls,cat,env,sudo,timeout,xargs"),
        deny_exec_command: words("git rm,npm publish,rm -rf *"),
        ..ProfileSource::default()
    };
    let origin = Origin::User(Path::new("/home/ann/.config/handfast/config.yaml").into());
    Policy::compile(&Setup {
        sources: &[Source::new(origin, Trust::Trusted, Profiles::from([("normal".to_owned(), profile)]))],
        profile: "normal",
        mode: Some((Mode::FullAuto, Origin::CommandLine)),
        dialect: Dialect::default(),
        workspace: Path::new("/w/project"),
        home: Some(Path::new("/home/ann")),
        protected: &[],
        closed: &[],
        programs: Programs::Presumed,
        tools: &[],
    })
}

fn ask(policy: &Policy, line: &str) -> Verdict {
    let effect = Effect::Run { command: CommandLine::Shell(line.to_owned()), directory: "/w/project".into() };
    let parts = [Part::from(effect)];
    let request = Request {
        tool: "shell_execute",
        level: Level::Destructive,
        parts: &parts,
        undoable_in_force: false,
        background: false,
    };
    policy.decide(&request).verdict
}
