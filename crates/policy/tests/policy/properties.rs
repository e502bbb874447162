//! What holds for any combination, tried on all small ones.

use policy::{Mode, Part, Policy, Request, Verdict};
use tool::{Effect, Level};

use crate::random_lines::Random;
use crate::setting::*;

pub(crate) const LEVELS: [Level; 4] = [Level::Safe, Level::Moderate, Level::Destructive, Level::Critical];
const MODES: [Mode; 3] = [Mode::AskAlways, Mode::SmartAuto, Mode::FullAuto];

pub(crate) fn effects() -> Vec<Effect> {
    vec![
        read("src/a"),
        read("other"),
        read(".env"),
        read("/home/ann/x"),
        write("src/a"),
        write("other"),
        write("handfast.yaml"),
        delete("src"),
        delete("/srv/x"),
        run("ls src"),
        run("cat .env"),
        run("make"),
        run("pytest"),
        run("a; b"),
        run("rm -rf /"),
        run("git rm x"),
        connect("docs.rs"),
        connect("evil.org"),
        connect("bad host"),
        Effect::Act { host: "docs.rs".into(), what: "send mail to ada@example.com".into() },
        Effect::UseSecret { name: "token".into(), host: "docs.rs".into() },
        Effect::DatabaseWrite { statement: "insert".into() },
        Effect::ChangeHandfast { what: "policy".into() },
    ]
}

fn policies() -> Vec<Policy> {
    let lists = r#""allowed_write_paths": ["./src"], "allowed_exec_command": ["pytest"], "deny_exec_command": ["git rm"]"#;
    let shapes = [
        "{}".to_owned(),
        format!("{{{lists}}}"),
        r#"{"allowed_read_paths": ["./src"], "undoable": "pass", "dangerous": "ask", "deny_hosts": ["evil.org"]}"#.to_owned(),
        r#"{"allowed_hosts": ["docs.rs"], "undoable": "pass"}"#.to_owned(),
    ];
    shapes.iter().flat_map(|shape| MODES.map(|mode| normal(shape, mode))).collect()
}

fn verdict(policy: &Policy, level: Level, effects: &[&Effect], undoable_in_force: bool) -> Verdict {
    let parts: Vec<Part> = effects.iter().map(|effect| Part::from((*effect).clone())).collect();
    policy.decide(&Request { tool: "t", level, parts: &parts, undoable_in_force, background: false }).verdict
}

#[test]
fn neither_order_nor_one_more_effect_loosens_a_verdict() {
    let effects = effects();
    let mut seen = [0usize; 3];
    for policy in policies() {
        for level in LEVELS {
            for undoable in [false, true] {
                for (position, one) in effects.iter().enumerate() {
                    let alone = verdict(&policy, level, &[one], undoable);
                    for two in effects.iter().skip(position) {
                        let pair = verdict(&policy, level, &[one, two], undoable);
                        assert_eq!(pair, verdict(&policy, level, &[two, one], undoable), "{one:?} {two:?}");
                        assert!(pair >= alone, "{one:?} {two:?} in {} at {level}", policy.mode());
                        assert!(pair >= verdict(&policy, level, &[two], undoable), "{two:?} {one:?}");
                        seen[pair as usize] += 1;
                    }
                }
            }
        }
    }
    // The positive control: every answer occurs.
    assert!(seen.iter().all(|count| *count > 100), "{seen:?}");
}

#[test]
fn a_stricter_mode_and_a_higher_level_never_loosen() {
    let effects = effects();
    for effect in &effects {
        for pair in [[Mode::FullAuto, Mode::SmartAuto], [Mode::SmartAuto, Mode::AskAlways]] {
            let [lax, strict] = pair.map(|mode| normal(r#"{"allowed_write_paths": ["./src"]}"#, mode));
            for levels in LEVELS.windows(2) {
                let ask = |policy: &Policy, level| verdict(policy, level, &[effect], false);
                assert!(ask(&strict, levels[0]) >= ask(&lax, levels[0]), "{effect:?}");
                assert!(ask(&lax, levels[1]) >= ask(&lax, levels[0]), "{effect:?}");
            }
        }
    }
}

#[test]
fn no_allow_entry_takes_a_denial_back() {
    let deny = r#""deny_read_paths": [".env"], "deny_write_paths": ["other", "src/a"], "deny_exec_command": ["git rm", "make"], "deny_hosts": ["docs.rs"]"#;
    let without = normal(&format!("{{{deny}}}"), Mode::FullAuto);
    let allow = r#""allowed_read_paths": ["/", ".env", ".", "**"], "allowed_write_paths": ["/", "other", "src/a"], "allowed_exec_command": ["git", "git rm", "make", "cat", "rm"], "allowed_hosts": ["*", "docs.rs"], "undoable": "pass""#;
    let with = normal(&format!("{{{deny}, {allow}}}"), Mode::FullAuto);
    let mut denied = 0;
    for effect in effects() {
        if verdict(&without, Level::Moderate, &[&effect], true) == Verdict::Deny {
            denied += 1;
            assert_eq!(verdict(&with, Level::Moderate, &[&effect], true), Verdict::Deny, "{effect:?}");
        }
    }
    assert!(denied >= 8, "{denied}");
    // The positive control: the entries do allow what nothing denies.
    let outside = read("/home/ann/x");
    assert_eq!(verdict(&without, Level::Safe, &[&outside], false), Verdict::Check);
    assert_eq!(verdict(&with, Level::Safe, &[&outside], false), Verdict::Pass);
}

/// Entries that contradict, shadow and repeat each other. Those that begin with `!` are not among them: what they take back is what
/// stands before them, as in `.gitignore`, so their place has a meaning.
const ENTRIES: [(&str, &[&str]); 8] = [
    ("allowed_read_paths", &["./", "./src", "/home/ann", "other", "/"]),
    ("deny_read_paths", &[".env", "*.pem", "/home/ann/x", "src/*", ".env"]),
    ("allowed_write_paths", &["./src", "./", "other", "src/a"]),
    ("deny_write_paths", &["src/a", "other", "/srv"]),
    ("allowed_exec_command", &["make", "git", "git rm", "pytest", "rm"]),
    ("deny_exec_command", &["git rm", "git", "rm -rf *", "make"]),
    ("allowed_hosts", &["*", "docs.rs", "*.rs"]),
    ("deny_hosts", &["evil.org", "docs.rs", "*.org"]),
];

#[test]
fn no_permutation_of_the_rules_of_a_profile_changes_a_decision() {
    let mut random = Random(0x5eed_0003);
    let effects = effects();
    let mut seen = [0usize; 3];
    for _ in 0..60 {
        // Some of the entries of each list, so that other ones are decisive each time.
        let mut lists: Vec<(&str, Vec<&str>)> = ENTRIES
            .iter()
            .map(|(key, entries)| (*key, entries.iter().copied().filter(|_| random.below(3) > 0).collect()))
            .collect();
        let compiled = |lists: &[(&str, Vec<&str>)]| {
            let lists: Vec<String> =
                lists.iter().map(|(key, entries)| format!("{key:?}: {entries:?}")).collect();
            normal(&format!("{{{}}}", lists.join(", ")), Mode::SmartAuto)
        };
        let before = compiled(&lists);
        for _ in 0..3 {
            shuffle(&mut lists, &mut random);
            for (_, entries) in &mut lists {
                shuffle(entries, &mut random);
            }
            let after = compiled(&lists);
            for effect in &effects {
                let answer = verdict(&before, Level::Moderate, &[effect], false);
                assert_eq!(
                    answer,
                    verdict(&after, Level::Moderate, &[effect], false),
                    "{effect:?} under {lists:?}"
                );
                seen[answer as usize] += 1;
            }
        }
    }
    // The positive control: every answer occurs.
    assert!(seen.iter().all(|count| *count > 100), "{seen:?}");
}

fn shuffle<T>(list: &mut [T], random: &mut Random) {
    for position in (1..list.len()).rev() {
        list.swap(position, random.below(position + 1));
    }
}

#[test]
fn more_denials_never_loosen() {
    let few = normal("{}", Mode::SmartAuto);
    let more = normal(
        r#"{"deny_read_paths": [".env", ".env.*", "*.pem", "*.key", ".netrc", "src"], "deny_exec_command": ["ls"], "deny_hosts": ["*"]}"#,
        Mode::SmartAuto,
    );
    for effect in effects() {
        for level in LEVELS {
            let [before, after] = [&few, &more].map(|policy| verdict(policy, level, &[&effect], false));
            assert!(after >= before, "{effect:?}");
        }
    }
}
