//! The nine lines of the decision, each with a case that it decides and a case that it just misses.

use policy::{Dangerous, Dialect, Line, Mode, Part, Policy, Request, Undoable, Verdict};
use tool::{CommandLine, Effect, Level};

use crate::setting::*;

#[test]
fn the_table_of_modes_and_levels_is_the_one_of_the_source() {
    let levels = [Level::Safe, Level::Moderate, Level::Destructive, Level::Critical];
    let table = [
        (Mode::AskAlways, ["check", "check", "check", "check"]),
        (Mode::SmartAuto, ["pass", "check", "check", "check"]),
        (Mode::FullAuto, ["pass", "pass", "pass", "check"]),
    ];
    for (mode, row) in table {
        let policy = normal("{}", mode);
        for (level, expected) in levels.into_iter().zip(row) {
            let decision = decide_all(&policy, level, &[]);
            assert_eq!(decision.verdict.as_str(), expected, "{mode} {level}");
            assert_eq!(decision.hint.is_none(), expected == "pass", "{mode} {level}");
        }
    }
}

#[test]
fn line_1_denies_what_a_list_denies_in_every_mode() {
    let json =
        r#"{"deny_write_paths": ["Cargo.lock"], "deny_hosts": ["*.evil.org"], "allowed_hosts": ["*"]}"#;
    for mode in [Mode::AskAlways, Mode::SmartAuto, Mode::FullAuto] {
        let policy = normal(json, mode);
        for effect in [write("Cargo.lock"), delete("a/Cargo.lock"), read(".env"), connect("X.Evil.ORG.")] {
            let decision = decide(&policy, Level::Critical, effect.clone());
            assert_eq!((decision.verdict, decision.line), (Verdict::Deny, Line::Denied), "{effect:?}");
        }
    }
    let policy = normal(json, Mode::FullAuto);
    for effect in [write("Cargo.toml"), read("Cargo.lock"), read(".env.example"), connect("evil.org")] {
        assert_eq!(decide(&policy, Level::Moderate, effect.clone()).verdict, Verdict::Pass, "{effect:?}");
    }
}

#[test]
fn line_1_names_rule_file_and_remedy() {
    let policy = normal(r#"{"deny_write_paths": ["Cargo.lock"]}"#, Mode::SmartAuto);
    let decision = decide(&policy, Level::Moderate, write("Cargo.lock"));
    assert_eq!(
        decision.rule.to_string(),
        "deny_write_paths: Cargo.lock (profile normal, /home/ann/.config/handfast/config.yaml)"
    );
    assert!(decision.reason.contains("/w/project/Cargo.lock"), "{}", decision.reason);
    assert!(decision.hint.unwrap().contains("deny_write_paths"));
    assert_eq!(decision.part.as_deref(), Some("write /w/project/Cargo.lock"));
}

#[test]
fn line_1_protects_handfasts_own_files_from_every_write() {
    let json = format!(r#"{{"allowed_write_paths": [".", "{STATE}"], "deny_write_paths": []}}"#);
    let policy = normal(&json, Mode::FullAuto);
    let below = format!("{STATE}/audit.db");
    for effect in [
        write("handfast.yaml"),
        delete("handfast.yaml"),
        write(&below),
        delete(STATE),
        delete("/home/ann/.local"),
    ] {
        let decision = decide(&policy, Level::Moderate, effect.clone());
        assert_eq!(short(&decision), "deny 1", "{effect:?}");
        assert_eq!(decision.rule.key, "protected");
    }
    assert_eq!(decide(&policy, Level::Moderate, write("handfast.yaml.md")).verdict, Verdict::Pass);
    assert_eq!(decide(&policy, Level::Safe, read("handfast.yaml")).verdict, Verdict::Pass);
}

#[test]
fn line_6_asks_about_files_that_a_later_program_would_run_whatever_lists_and_modes_say() {
    let policy = normal(r#"{"allowed_write_paths": [".", ".envrc"]}"#, Mode::FullAuto);
    for effect in
        [write(".envrc"), write("sub/.git/hooks/pre-commit"), write(".git/config"), write(".vscode")]
    {
        let decision = decide(&policy, Level::Moderate, effect.clone());
        assert_eq!(short(&decision), "check 6", "{effect:?}");
        assert!(decision.terminal_only && decision.rule.key == "auto_run", "{decision:?}");
    }
    for effect in [write(".git/index"), write("envrc"), delete(".git/hooks/pre-commit"), read(".envrc")] {
        let decision = decide(&policy, Level::Moderate, effect.clone());
        assert_eq!(decision.verdict, Verdict::Pass, "{effect:?}");
    }
    let parts = [Part {
        effect: write("a"),
        real: Some("/w/project/.git/hooks/x".into()),
        runs: None,
        states: None,
        impact: policy::Impact::Unasked,
        is_login: false,
    }];
    let request = Request {
        tool: "file_write",
        level: Level::Moderate,
        parts: &parts,
        undoable_in_force: true,
        background: false,
    };
    assert_eq!(short(&policy.decide(&request)), "check 6");
}

#[test]
fn line_6_asks_about_what_a_profile_lists_as_run_by_itself_and_about_what_was_found_to_run() {
    let policy = normal(
        r#"{"allowed_write_paths": ["."], "auto_run_paths": ["*.startup", "tools/daily/"]}"#,
        Mode::FullAuto,
    );
    for effect in [write("a/b.startup"), write("tools/daily/x/y")] {
        let decision = decide(&policy, Level::Moderate, effect.clone());
        assert_eq!(short(&decision), "check 6", "{effect:?}");
        assert!(decision.terminal_only && decision.rule.key == "auto_run_paths", "{decision:?}");
    }
    assert_eq!(decide(&policy, Level::Moderate, write("tools/x")).verdict, Verdict::Pass);
    let runs = Some("git runs it as a hook".to_owned());
    let parts = [Part {
        effect: write("scripts/check"),
        real: None,
        runs,
        states: None,
        impact: policy::Impact::Unasked,
        is_login: false,
    }];
    let decision = policy.decide(&Request {
        tool: "file_write",
        level: Level::Moderate,
        parts: &parts,
        undoable_in_force: true,
        background: false,
    });
    assert_eq!(short(&decision), "check 6");
    assert!(decision.terminal_only && decision.reason.contains("git runs it as a hook"), "{decision:?}");
}

#[test]
fn line_1_judges_where_a_path_really_leads() {
    let policy = normal("{}", Mode::FullAuto);
    let ask = |effect: Effect, real: Option<&str>| {
        let parts = [Part {
            effect,
            real: real.map(Into::into),
            runs: None,
            states: None,
            impact: policy::Impact::Unasked,
            is_login: false,
        }];
        short(&policy.decide(&Request {
            tool: "file_read",
            level: Level::Safe,
            parts: &parts,
            undoable_in_force: false,
            background: false,
        }))
    };
    assert_eq!(ask(read("notes"), None), "pass 7");
    assert_eq!(ask(read("notes"), Some("/w/project/docs/notes")), "pass 7");
    assert_eq!(ask(read("notes"), Some("/w/project/.env")), "deny 1");
    assert_eq!(ask(read("notes"), Some("/home/ann/diary")), "check 6");
    assert_eq!(ask(read(".env"), Some("/w/project/harmless")), "deny 1");
    assert_eq!(ask(write("notes"), Some("/w/project/handfast.yaml")), "deny 1");
}

#[test]
fn line_1_keeps_denied_files_from_being_carried_away() {
    let policy = normal(r#"{"deny_write_paths": ["config/prod.toml"]}"#, Mode::FullAuto);
    for path in ["config", ".env", "config/prod.toml"] {
        assert_eq!(decide(&policy, Level::Moderate, delete(path)).line, Line::Denied, "{path}");
    }
    assert_eq!(decide(&policy, Level::Moderate, delete("config/other.toml")).verdict, Verdict::Pass);
    assert_eq!(decide(&policy, Level::Moderate, delete("con")).verdict, Verdict::Pass);
}

#[test]
fn line_2_denies_or_asks_as_the_profile_and_the_dialect_say() {
    let decide_in = |json: &str, dialect: Dialect| {
        let policy = compile_as(&[user(json)], "normal", Some(Mode::FullAuto), dialect).unwrap();
        (answer(&policy, "rm -rf /"), answer(&policy, "rm -rf build"), answer(&policy, "rm -rf /srv/data/x"))
    };
    let text = |one: &str, two: &str, three: &str| (one.to_owned(), two.to_owned(), three.to_owned());
    let ask = Dialect { dangerous: Dangerous::Ask, ..Dialect::default() };
    let csp1 = Dialect { any_absolute_removal: true, ..Dialect::default() };
    assert_eq!(decide_in("{}", Dialect::default()), text("deny 2", "pass 9", "pass 9"));
    assert_eq!(decide_in("{}", ask), text("check 2", "pass 9", "pass 9"));
    assert_eq!(decide_in(r#"{"normal": {"dangerous": "deny"}}"#, ask).0, "deny 2");
    assert_eq!(decide_in(r#"{"normal": {"dangerous": "ask"}}"#, Dialect::default()).0, "check 2");
    assert_eq!(decide_in("{}", csp1), text("deny 2", "pass 9", "deny 2"));
}

#[test]
fn line_2_stands_above_a_listed_command() {
    let policy = normal(r#"{"allowed_exec_command": ["rm"]}"#, Mode::FullAuto);
    assert_eq!(answer(&policy, "rm -rf build"), "pass 7");
    assert_eq!(answer(&policy, "rm -rf /usr"), "deny 2");
}

#[test]
fn line_3_asks_about_what_is_critical_even_where_it_is_listed() {
    let policy = normal(r#"{"allowed_write_paths": ["./src"]}"#, Mode::FullAuto);
    assert_eq!(short(&decide(&policy, Level::Critical, write("src/x"))), "check 3");
    assert_eq!(short(&decide(&policy, Level::Destructive, write("src/x"))), "pass 7");
    let change = Effect::ChangeHandfast { what: "plugin".to_owned() };
    assert_eq!(short(&decide(&policy, Level::Safe, change)), "check 3");
}

#[test]
fn line_4_asks_about_everything_in_ask_always() {
    assert_eq!(short(&decide(&normal("{}", Mode::AskAlways), Level::Safe, read("x"))), "check 4");
    assert_eq!(short(&decide(&normal("{}", Mode::SmartAuto), Level::Safe, read("x"))), "pass 7");
}

#[test]
fn line_5_asks_about_what_could_hide_a_denied_command() {
    let denying = normal(r#"{"deny_exec_command": ["git rm"]}"#, Mode::FullAuto);
    let silent = normal("{}", Mode::FullAuto);
    for line in [
        "a $b",
        "python3 -c 'x'",
        "echo x | sh",
        "xargs git",
        "for i in $y; do $i; done",
        "make $x",
        "npm run \"$x\"",
    ] {
        assert_eq!(answer(&denying, line), "check 5", "{line}");
        assert_eq!(answer(&silent, line), "pass 9", "{line}");
    }
    assert_eq!(answer(&denying, "python3 x.py"), "pass 9");
    assert_eq!(answer(&denying, "sh -c 'git log'"), "pass 7");
}

#[test]
fn line_6_asks_about_what_is_not_listed_in_every_mode() {
    let json = r#"{"allowed_read_paths": ["./src", "~/notes"], "allowed_hosts": ["docs.rs"]}"#;
    let policy = normal(json, Mode::FullAuto);
    for effect in [read("README.md"), read("/home/ann/diary"), write("/etc/x"), connect("crates.io")] {
        assert_eq!(short(&decide(&policy, Level::Safe, effect.clone())), "check 6", "{effect:?}");
    }
    for effect in [read("src/x"), read("/home/ann/notes/x")] {
        assert_eq!(short(&decide(&policy, Level::Safe, effect.clone())), "pass 7", "{effect:?}");
    }
    assert_eq!(short(&decide(&policy, Level::Safe, connect("docs.rs"))), "pass 9");
    let outside = Effect::Run { command: CommandLine::Shell("make".into()), directory: "/srv".into() };
    assert_eq!(short(&decide(&policy, Level::Destructive, outside)), "check 6");
}

#[test]
fn line_7_passes_reads_and_listed_parts_and_needs_every_part() {
    let json = r#"{"allowed_write_paths": ["./src"], "allowed_exec_command": ["pytest"]}"#;
    let policy = normal(json, Mode::SmartAuto);
    let ask = |effects: &[Effect]| short(&decide_all(&policy, Level::Destructive, effects));
    assert_eq!(ask(&[read("x"), write("src/x"), run("ls"), run("pytest -q | head")]), "pass 7");
    assert_eq!(ask(&[read("x"), write("src/x"), run("make")]), "check 9");
    assert_eq!(ask(&[write("other")]), "check 6");
    assert_eq!(ask(&[]), "check 9");
}

#[test]
fn line_8_passes_what_can_be_undone() {
    let policy = normal(r#"{"undoable": "pass"}"#, Mode::SmartAuto);
    let ask = |policy: &Policy, effect: Effect, undoable_in_force: bool, background: bool| {
        let parts = [Part::from(effect)];
        let request =
            Request { tool: "t", level: Level::Destructive, parts: &parts, undoable_in_force, background };
        short(&policy.decide(&request))
    };
    assert_eq!(ask(&policy, run("make x && $y"), true, false), "pass 8");
    assert_eq!(ask(&policy, write("x"), true, false), "pass 8");
    assert_eq!(ask(&policy, write("x"), false, false), "check 9");
    assert_eq!(ask(&policy, run("make"), true, true), "check 9");
    assert_eq!(ask(&policy, Effect::DatabaseWrite { statement: "insert".into() }, true, false), "check 9");
    let networked = normal(r#"{"undoable": "pass", "allowed_hosts": ["docs.rs"]}"#, Mode::SmartAuto);
    assert_eq!(ask(&networked, run("make"), true, false), "pass 8");
    let listed_outside =
        normal(r#"{"undoable": "pass", "allowed_write_paths": [".", "/srv/x"]}"#, Mode::SmartAuto);
    assert_eq!(ask(&listed_outside, write("/srv/x/y"), true, false), "pass 7");
    let both = [read("/srv/x/y"), write("x")].map(Part::from);
    let reads_outside =
        normal(r#"{"undoable": "pass", "allowed_read_paths": [".", "/srv/x"]}"#, Mode::SmartAuto);
    let level = Level::Moderate;
    let request = Request { tool: "t", level, parts: &both, undoable_in_force: true, background: false };
    assert_eq!(short(&reads_outside.decide(&request)), "pass 8");
    let table = normal(r#"{"undoable": "table"}"#, Mode::SmartAuto);
    assert_eq!(ask(&table, run("make"), true, false), "check 9");
}

#[test]
fn line_8_is_the_dialects_for_the_profile_normal_whatever_is_written_there() {
    let dialect = Dialect { undoable: Undoable::Pass, ..Dialect::default() };
    let parts = [Part::from(run("make"))];
    let request = Request {
        tool: "t",
        level: Level::Destructive,
        parts: &parts,
        undoable_in_force: true,
        background: false,
    };
    let built_in = compile_as(&[], "normal", None, dialect).unwrap();
    assert_eq!(built_in.decide(&request).line, Line::Undoable);
    let written = compile_as(&[user(r#"{"normal": {}}"#)], "normal", None, dialect).unwrap();
    assert_eq!(written.decide(&request).line, Line::Undoable);
    let other = compile_as(&[user(r#"{"other": {}}"#)], "other", None, dialect).unwrap();
    assert_eq!(other.decide(&request).line, Line::Table);
}

#[test]
fn line_9_never_takes_a_write_for_a_read_whatever_the_tool_says() {
    let policy = normal("{}", Mode::SmartAuto);
    let decision = decide(&policy, Level::Safe, write("x"));
    assert_eq!((short(&decision).as_str(), decision.level), ("check 9", Level::Moderate));
}

#[test]
fn what_could_write_to_a_block_device_is_dangerous_and_what_reads_one_is_not() {
    let policy = normal("{}", policy::Mode::FullAuto);
    for line in [
        "cp a /dev/sda",
        "mv image /dev/nvme0n1",
        "shred /dev/sdb",
        "wipefs -a /dev/vda",
        "env cp a /dev/sda",
        "rsync image /dev/mapper/root",
        "pv -o=/dev/sda image",
        "install -m 600 a /dev/sda1",
    ] {
        assert_eq!(answer(&policy, line), "deny 2", "{line}");
    }
    for line in [
        "cat /dev/sda",
        "head -c 512 /dev/sda",
        "lsblk /dev/sda",
        "cp a /dev/null",
        "cp /dev/stdin a",
        "cp a dev/sda",
    ] {
        assert_ne!(answer(&policy, line), "deny 2", "{line}");
    }
}

#[test]
fn the_files_that_a_database_client_takes_its_statements_from_are_named() {
    let files = |line: &str| {
        let command = tool::CommandLine::Shell(line.to_owned());
        let found = policy::statement_files(&command, std::path::Path::new("/w"));
        let found = found.iter().map(|file| (file.path.display().to_string(), file.certain));
        found.collect::<Vec<_>>()
    };
    let certain = |path: &str| vec![(path.to_owned(), true)];
    assert_eq!(files("psql -f drop.sql"), certain("/w/drop.sql"));
    assert_eq!(files("psql -d x --file=sub/drop.sql"), certain("/w/sub/drop.sql"));
    assert_eq!(files("psql -fdrop.sql"), certain("/w/drop.sql"));
    assert_eq!(files("mysql -u root x < drop.sql"), certain("/w/drop.sql"));
    assert_eq!(files("sudo psql --file drop.sql"), certain("/w/drop.sql"));
    assert_eq!(files(r"psql -c '\i drop.sql'"), certain("/w/drop.sql"));
    assert_eq!(files("mysql -e 'source drop.sql;'"), certain("/w/drop.sql"));
    assert_eq!(files("cat drop.sql | psql x"), [("/w/drop.sql".to_owned(), false)]);
    for line in ["cat drop.sql", "psql -c 'SELECT 1'", "grep psql -f patterns"] {
        assert!(files(line).iter().all(|(_, certain)| !certain), "{line}: {:?}", files(line));
    }
    assert_eq!(
        policy::dangerous_statements("SELECT 1;\nDROP DATABASE x;").as_deref(),
        Some("it drops a database")
    );
    assert!(policy::dangerous_statements("truncate orders;").is_some());
    assert!(policy::dangerous_statements("db.dropDatabase()").is_some());
    assert_eq!(policy::dangerous_statements("SELECT 1; DELETE FROM x WHERE id = 1"), None);
    assert_eq!(answer(&normal("{}", policy::Mode::FullAuto), "mongo --eval 'db.dropDatabase()'"), "deny 2");
}
