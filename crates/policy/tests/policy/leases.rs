//! Leases: calls that they let pass, calls that they never do, and patterns that may not be leased.

use std::path::Path;
use std::sync::Arc;

use policy::{Dialect, LeasePattern, Mode, Part, Policy, Request, Verdict};
use tool::{CommandLine, Effect, Level};

use crate::setting::{HOME, STATE, WORKSPACE, compile_as, delete, read, user, write};

fn policy(json: &str, mode: Mode) -> Policy {
    compile_as(&[user(json)], "normal", Some(mode), Dialect::default()).unwrap()
}

fn leased(policy: &Policy, patterns: &[LeasePattern]) -> Policy {
    let numbered =
        patterns.iter().enumerate().map(|(at, pattern)| (Arc::from(format!("l{at}")), pattern.clone()));
    policy.with_leases(&numbered.collect::<Vec<_>>())
}

fn run(line: &str) -> Part {
    let command = CommandLine::Shell(line.to_owned());
    Effect::Run { command, directory: WORKSPACE.into() }.into()
}

fn decide(policy: &Policy, part: Part) -> policy::Decision {
    decide_at(policy, part, Level::Destructive)
}

fn decide_at(policy: &Policy, part: Part, level: Level) -> policy::Decision {
    policy.decide(&request(&[part], level))
}

fn request(parts: &[Part], level: Level) -> Request<'_> {
    Request { tool: "shell_execute", level, parts, undoable_in_force: false, background: false }
}

fn command(words: &str) -> LeasePattern {
    LeasePattern::Command(words.to_owned())
}

#[test]
fn a_leased_beginning_passes_in_every_mode_and_nothing_else_does() {
    for mode in [Mode::AskAlways, Mode::SmartAuto] {
        let bare = policy("{}", mode);
        let leased = leased(&bare, &[command("acme lint")]);
        for line in ["acme lint a.proto", "cd sub && acme lint a.proto | head -n 5", "timeout 5 acme lint x"]
        {
            assert_eq!(decide(&bare, run(line)).verdict, Verdict::Check, "{line}");
            let decision = decide(&leased, run(line));
            assert_eq!(decision.verdict, Verdict::Pass, "{mode} {line}: {decision:?}");
        }
        assert!(decide(&leased, run("acme lint a.proto")).rule.to_string().contains("lease l0"));
        for line in
            ["acme write x", "acme lint x && rm y", "acme lint $(rm x)", "./acme lint x", "acme lint x > y"]
        {
            assert_eq!(decide(&leased, run(line)).verdict, Verdict::Check, "{mode} {line}");
        }
    }
}

#[test]
fn a_lease_takes_nothing_away_from_what_denies_or_asks_every_time() {
    let json = r#"{"normal": {"deny_exec_command": ["acme wipe"], "deny_write_paths": ["locked/"], "dangerous": "ask"}}"#;
    let leased = leased(
        &policy(json, Mode::SmartAuto),
        &[command("acme"), LeasePattern::Write("*".to_owned()), LeasePattern::Read("/data".into())],
    );
    assert_eq!(decide(&leased, run("acme lint x")).verdict, Verdict::Pass);
    assert_eq!(decide(&leased, run("acme wipe x")).verdict, Verdict::Deny);
    assert_eq!(decide(&leased, run("acme lint x; rm -rf /")).verdict, Verdict::Check);
    assert_eq!(decide_at(&leased, run("acme lint x"), Level::Critical).verdict, Verdict::Check);
    let write = |path: &str| Part::from(Effect::Write { path: Path::new(WORKSPACE).join(path) });
    assert_eq!(decide(&leased, write("a.txt")).verdict, Verdict::Pass);
    assert_eq!(decide(&leased, write("locked/a")).verdict, Verdict::Deny);
    assert_eq!(decide(&leased, write("handfast.yaml")).verdict, Verdict::Deny);
    let hook = decide(&leased, write(".git/hooks/pre-commit"));
    assert_eq!(hook.verdict, Verdict::Check);
    assert!(hook.terminal_only);
    let read = |path: &str| Part::from(Effect::Read { path: path.into() });
    assert_eq!(decide_at(&leased, read("/data/x"), Level::Safe).verdict, Verdict::Pass);
    assert_eq!(decide_at(&leased, read("/data/.env"), Level::Safe).verdict, Verdict::Deny);
    assert_eq!(decide_at(&leased, read("/database"), Level::Safe).verdict, Verdict::Check);
    assert_eq!(decide(&leased, Effect::Write { path: "/data/x".into() }.into()).verdict, Verdict::Check);
}

#[test]
fn a_leased_folder_is_a_root_that_is_read_and_not_written() {
    let leased = leased(&policy("{}", Mode::SmartAuto), &[LeasePattern::Read("/data/set one".into())]);
    let root = leased.roots().iter().find(|root| root.path == Path::new("/data/set one")).unwrap();
    assert!(root.read && !root.write && root.whole, "{root:?}");
    assert_eq!(decide(&leased, run("cat '/data/set one/x'")).verdict, Verdict::Pass);
    assert_eq!(leased.roots().len(), 2);
}

#[test]
fn a_lease_of_what_runs_code_of_the_project_covers_calls_that_can_be_undone_alone() {
    for mode in [Mode::SmartAuto, Mode::AskAlways] {
        let json = r#"{"normal": {"undoable": "table", "deny_exec_command": ["cargo publish"], "dangerous": "ask"}}"#;
        let policy = policy(json, mode);
        let leased = leased(&policy, &[command("npm run"), command("cargo"), command("/usr/bin/git commit")]);
        let verdict = |policy: &Policy, line: &str, undoable: bool, background: bool| {
            let parts = [run(line)];
            let request =
                Request { undoable_in_force: undoable, background, ..request(&parts, Level::Moderate) };
            policy.decide(&request).verdict
        };
        for line in [
            "npm run build",
            "npm run test:unit -- --watch=false",
            "cargo build && cargo test -p a",
            "ls; npm run lint",
        ] {
            // The control: without the lease, each is asked about.
            assert_eq!(verdict(&policy, line, true, false), Verdict::Check, "{line}");
            assert_eq!(verdict(&leased, line, true, false), Verdict::Pass, "{line}");
            assert_eq!(verdict(&leased, line, false, false), Verdict::Check, "{line}");
            assert_eq!(verdict(&leased, line, true, true), Verdict::Check, "{line}");
        }
        for line in [
            "npm install left-pad",
            "npm run build; curl example.com",
            "npm run build > /etc/passwd",
            "NODE_OPTIONS=--require=./x npm run build",
            "$X run build",
            "git push",
            "npx run",
            "./npm run build",
        ] {
            assert_eq!(verdict(&leased, line, true, false), Verdict::Check, "{line}");
        }
        assert_eq!(verdict(&leased, "cargo publish", true, false), Verdict::Deny);
        assert_eq!(verdict(&leased, "cargo build; rm -rf /", true, false), Verdict::Check);
        let part = run("npm run build");
        assert!(policy.lease_coverage(&command("npm run"))(&part));
        assert!(!policy.lease_coverage(&command("npm test"))(&part));
        assert!(!policy.lease_coverage(&command("npm run"))(&run("ls")));
    }
    // An offer names an action.
    let policy = policy(r#"{"normal": {"undoable": "table"}}"#, Mode::SmartAuto);
    let offered = |line: &str| {
        let parts = [run(line)];
        let request = Request { undoable_in_force: true, ..request(&parts, Level::Moderate) };
        policy.lease_for(&request)
    };
    assert_eq!(offered("npm run build"), Some(command("npm run")));
    assert_eq!(offered("git commit --allow-empty -m x"), Some(command("git commit")));
    assert_eq!(offered("git -C sub commit"), None);
}

#[test]
fn what_a_beginning_says_too_little_about_is_never_leased() {
    let policy = policy("{}", Mode::SmartAuto);
    for words in [
        "bash",
        "sh -c",
        "python3",
        "python3.12 x.py",
        "node x.js",
        "perl",
        "awk",
        "deno run",
        "gh pr",
        "env",
        "sudo",
        "xargs",
        "timeout 5",
        "ssh",
        "find",
        "tar",
        "",
        "  ",
        "a; b",
        "$X",
        "a*",
        "acme *",
        "./acme",
        "one two three four five six seven eight nine",
        "docker",
        "kubectl",
        "vim",
        "sed",
    ] {
        // Some of these have tables, and pass only in known forms.
        let known_forms = ["find", "tar", "sed"];
        assert!(policy.may_lease(&command(words)).is_err() || known_forms.contains(&words), "{words}");
    }
    for words in ["acme", "hugo build", "terraform-docs markdown"] {
        assert_eq!(policy.may_lease(&command(words)), Ok(()), "{words}");
    }
    for folder in [
        "/",
        "/home",
        HOME,
        STATE,
        "/home/ann/.local",
        WORKSPACE,
        "/w",
        "/w/project/sub",
        "/proc/1",
        "/dev",
        "relative",
        "/data/*",
        "/data/[x]",
        "/data/../etc",
        "/data/.env",
        "/data/",
    ] {
        assert!(policy.may_lease(&LeasePattern::Read(folder.into())).is_err(), "{folder}");
    }
    for folder in ["/data", "/home/ann/other", "/usr/share/doc"] {
        assert_eq!(policy.may_lease(&LeasePattern::Read(folder.into())), Ok(()), "{folder}");
    }
    for entry in ["/etc/x", "~/x", "$HOME/x", "../x", "a/../../x", "!a", ""] {
        assert!(policy.may_lease(&LeasePattern::Write(entry.to_owned())).is_err(), "{entry}");
    }
    for entry in ["src/**", "*.md", "docs/", "./a"] {
        assert_eq!(policy.may_lease(&LeasePattern::Write(entry.to_owned())), Ok(()), "{entry}");
    }
    // A forbidden lease has no effect even if a caller passes it in.
    let forced = leased(&policy, &[command("git"), LeasePattern::Read("/home".into())]);
    assert_eq!(decide(&forced, run("git push")).verdict, Verdict::Check);
    assert_eq!(forced.roots().len(), 1);
}

#[test]
fn a_wider_lease_is_suggested_only_where_it_would_let_the_call_pass() {
    let policy = policy("{}", Mode::SmartAuto);
    let suggested = |part: Part| policy.lease_for(&request(&[part], Level::Destructive));
    for (line, words) in [
        ("acme lint a.proto", "acme lint"),
        ("cd sub && acme lint a.proto 2>&1 | tail -n 3", "acme lint"),
        ("acme --version-check x", "acme"),
        ("acme lint a && acme lint b", "acme lint"),
        ("echo $(acme lint)", "acme lint"),
    ] {
        assert_eq!(suggested(run(line)), Some(command(words)), "{line}");
    }
    for line in [
        "git push",
        "python3 x.py",
        "acme lint a && hugo build",
        "acme lint > x",
        "./tool x",
        "acme lint $(cat x)",
        "rm x",
    ] {
        assert_eq!(suggested(run(line)), None, "{line}");
    }
    assert_eq!(
        suggested(Effect::Read { path: "/data/x".into() }.into()),
        Some(LeasePattern::Read("/data/x".into()))
    );
    assert_eq!(suggested(Effect::Read { path: "/data/.env".into() }.into()), None);
    assert_eq!(suggested(Effect::Write { path: "/data/x".into() }.into()), None);
}

#[test]
fn a_lease_for_a_folder_covers_its_files_and_lets_the_call_pass() {
    let policy = policy("{}", Mode::SmartAuto);
    let pattern = |effects: &[Effect]| {
        let parts: Vec<Part> = effects.iter().cloned().map(Part::from).collect();
        let request = Request {
            tool: "t",
            level: Level::Moderate,
            parts: &parts,
            undoable_in_force: false,
            background: false,
        };
        policy.lease_for_folder(&request)
    };
    let of = |text: &str| Some(LeasePattern::Write(text.to_owned()));
    assert_eq!(pattern(&[write("src/a"), write("src/a.bak")]), of("./src/**"));
    assert_eq!(pattern(&[read("src/a"), write("src/a")]), of("./src/**"));
    assert_eq!(pattern(&[write("x[1]/a")]), of("./x[[]1[]]/**"));
    for effects in [
        &[write("src/a"), write("other/a")][..],
        &[write("a")],
        &[write(".vscode/a")],
        &[write("/srv/a")],
        &[delete("a")],
        &[read("a")],
    ] {
        assert_eq!(pattern(effects), None, "{effects:?}");
    }
}

#[test]
fn the_files_that_a_command_runs_are_named_scripts_among_them() {
    let policy = policy("{}", Mode::SmartAuto);
    let runs = |line: &str| policy.runs(&CommandLine::Shell(line.to_owned()), Path::new(WORKSPACE));
    let lists = |line: &str, file: &str| runs(line).files.contains(&Path::new(WORKSPACE).join(file));
    for (line, file) in [
        ("./build.sh --fast", "build.sh"),
        ("bash -e scripts/x.sh a", "scripts/x.sh"),
        ("cd sub && ./x.sh", "sub/x.sh"),
        ("pushd sub; ./x.sh", "sub/x.sh"),
        ("env A=1 sh x.sh", "x.sh"),
        ("timeout 5 nice sh x.sh", "x.sh"),
        ("$X ./build.sh", "build.sh"),
        ("make all", "Makefile"),
        ("make -C sub", "sub/Makefile"),
        ("make -f other.mk", "other.mk"),
        ("make -fother.mk", "other.mk"),
        ("make --file=other.mk", "other.mk"),
        ("npm test", "package.json"),
        ("npm --prefix sub test", "sub/package.json"),
        (". ./x", "x"),
        ("source x", "x"),
        ("sh < x", "x"),
        ("sh 0< x", "x"),
        ("{ sh; } < x", "x"),
        ("exec < x; sh", "x"),
        ("while sh; do true; done < x", "x"),
        ("cat x | sh", "x"),
        ("tail -n +2 a x | bash -s", "x"),
        ("bash -c \"$(cat x)\"", "x"),
        ("bash -c '. ./x'", "x"),
        ("eval \"$(cat x)\"", "x"),
        ("python3 x/", "x/__main__.py"),
        ("python3 -m m", "m.py"),
        ("python3 -Im m", "m.py"),
        ("python3 -mm", "m.py"),
        ("python3 -m a.b", "a/b.py"),
        ("python3 -m a.b", "a/__init__.py"),
        ("python3 -m json.tool", "json.py"),
        ("node x/", "x/index.js"),
        ("node x", "x.js"),
        ("node x/", "x/package.json"),
        ("node -r ./hook y.js", "hook.js"),
        ("node --import=./hook.mjs y.js", "hook.mjs"),
        ("ruby -r ./hook y.rb", "hook.rb"),
        ("perl -Mhook y.pl", "hook.pm"),
        ("sed -i -f x y", "x"),
        ("sed -nfx y", "x"),
        ("sed --file=x y", "x"),
        ("awk -f x y", "x"),
        ("awk -fx y", "x"),
        ("jq -n . | xargs sh x", "x"),
        ("java Main", "Main.class"),
        ("java -jar x.jar", "x.jar"),
        ("vim -S x", "x"),
        ("pytest tests/x.py", "tests/x.py"),
        ("unheard-of --plugin=x", "x"),
        ("sh sub/../x", "x"),
    ] {
        assert!(lists(line, file), "{line}: {:#?}", runs(line).files);
    }
    assert_eq!(runs("cat notes.txt"), policy::Runs::default());
    // A file that is only changed is not code.
    assert!(!lists("cp a b && rm c", "a"));
    // A name after a link is found where the kernel finds it.
    assert!(runs("sh link/../x").files.contains(&Path::new(WORKSPACE).join("link/../x")));
    for line in
        ["cd link && cargo test", "cargo test --manifest-path link/Cargo.toml", "git -C link commit -m x"]
    {
        let folders = runs(line).folders;
        assert!(folders.iter().any(|folder| folder.starts_with("/w/project/link")), "{line}: {folders:?}");
    }
}

#[test]
fn where_the_code_cannot_be_named_it_is_said_why() {
    let policy = policy("{}", Mode::SmartAuto);
    let unnamed =
        |line: &str| policy.runs(&CommandLine::Shell(line.to_owned()), Path::new(WORKSPACE)).unnamed;
    for line in [
        "cat x | sh",
        "bash -c \"$(cat x)\"",
        "eval \"$(cat x)\"",
        ". <(cat x)",
        "ls | xargs sh",
        "ls | parallel sh",
        "find . -name '*.sh' -exec sh {} ;",
        "sh *.sh",
        "for f in *.sh; do sh \"$f\"; done",
        "$X",
        "PYTHONPATH=. python3 x.py",
        "env PYTHONPATH=. python3 x.py",
        "export PYTHONPATH=.; python3 x.py",
        "PATH=.:$PATH; make",
        "NODE_OPTIONS='-r ./x' npm test",
        "GIT_SSH_COMMAND=./x git fetch",
        "python3 -c 'import x'",
        "node -e 'require(\"./x\")'",
        "alias ls=./x; ls",
        "hash -p ./x ls; ls",
        "enable -f ./x.so x",
        "f() { ./x; }; f",
        "cd a; cd b; cd c; cd d; cd e; cd f; cd g; cd h; make",
        &format!("env {}", "a ".repeat(60_000)),
        &format!("sh {}", (0..4000).map(|number| format!("{number} ")).collect::<String>()),
    ] {
        assert!(unnamed(line).is_some(), "{line:.60}");
    }
    for line in [
        "cargo test",
        "./x.sh",
        "sh x.sh",
        "sh < x",
        "python3 x.py",
        "python3 -m m",
        "make all",
        "npm test",
        "cd sub && make",
        "CI=1 npm test",
        "git commit -m \"$(date)\"",
        "OUT=x; cp a b",
        "cat a | tee b",
        "bash <<'E'\necho x\nE",
    ] {
        assert_eq!(unnamed(line), None, "{line}");
    }
}

#[test]
fn a_command_is_shown_as_it_was_read_or_why_it_was_not() {
    let read = |line: &str| policy::as_read(&CommandLine::Shell(line.to_owned()));
    assert_eq!(read("cd x && r''m -rf 'a b' | tee $'\\x6cog'").unwrap(), ["cd x", "rm -rf 'a b'", "tee log"]);
    assert!(read("rm $X").is_err());
    assert!(read("eval x").is_err());
}
