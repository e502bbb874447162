//! Properties of any combination, tested on all small ones.

use policy::{Dialect, Mode, Part, Policy, Request, Undoable, Verdict};
use proptest::prelude::*;
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
        Effect::Schedule { what: "nightly, every day: make".into() },
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
    // Positive control: every answer occurs.
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

/// Returns the strictness of the approval: 0 for a pass, then an approval in a form, an approval on
/// a terminal, and no approval at all.
fn strictness(policy: &Policy, level: Level, effects: &[Effect], undoable_in_force: bool) -> u8 {
    let parts: Vec<Part> = effects.iter().cloned().map(Part::from).collect();
    let decision =
        policy.decide(&Request { tool: "t", level, parts: &parts, undoable_in_force, background: false });
    match decision.verdict {
        Verdict::Pass => 0,
        Verdict::Check if !decision.terminal_only => 1,
        Verdict::Check => 2,
        Verdict::Deny => 3,
    }
}

/// Generates effects of every kind, including those that need a terminal, next to those that hide them.
fn any_effect() -> impl Strategy<Value = Effect> {
    let protected = [
        write(".envrc"),
        write("sub/.git/hooks/pre-commit"),
        write(".git/config"),
        write(".vscode/tasks.json"),
        write("/home/ann/.bashrc"),
        run("echo x > .envrc"),
        run("cat /etc/hostname /home/ann/x > .mcp.json"),
        run("cd /nowhere; ls > sub/.git/hooks/post-commit"),
        run("git checkout -- .envrc"),
        run("tee .envrc < x"),
        run("sudo rm -rf /*"),
        Effect::DatabaseWrite { statement: "drop database".into() },
    ];
    prop::sample::select([effects(), protected.into()].concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_stricter_mode_never_lets_a_form_grant_more(
        plan in prop::collection::vec(any_effect(), 1..5),
        chosen in prop::collection::vec(prop::collection::vec(any::<bool>(), 5), 8),
        (undoable, dangerous, in_force) in (any::<bool>(), any::<bool>(), any::<bool>()),
        level in prop::sample::select(LEVELS.to_vec()),
    ) {
        let lists = ENTRIES.iter().zip(&chosen).filter(|(_, chosen)| chosen[0]).map(|((key, entries), chosen)| {
            let entries: Vec<_> = entries.iter().zip(chosen).filter_map(|(entry, chosen)| chosen.then_some(entry)).collect();
            format!("{key:?}: {entries:?}")
        });
        let settings = [
            undoable.then(|| r#""undoable": "pass""#.to_owned()),
            dangerous.then(|| r#""dangerous": "ask""#.to_owned()),
        ];
        let json = format!("{{{}}}", lists.chain(settings.into_iter().flatten()).collect::<Vec<_>>().join(", "));
        let [free, smart, strict] = [Mode::FullAuto, Mode::SmartAuto, Mode::AskAlways]
            .map(|mode| strictness(&normal(&json, mode), level, &plan, in_force));
        prop_assert!(free <= smart && smart <= strict, "{free} {smart} {strict} for {plan:?} under {json}");
        // One effect fewer never needs more either.
        let fewer = plan.get(1..).unwrap_or_default();
        if !fewer.is_empty() {
            let fewer = strictness(&normal(&json, Mode::AskAlways), level, fewer, in_force);
            prop_assert!(fewer <= strict, "{fewer} {strict} for {plan:?} under {json}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_allow_entry_never_turns_a_pass_into_a_question(
        // A run-later file is asked about before the run if a rule tells that the command writes it, and
        // otherwise when the changes are put in.
        plan in prop::collection::vec(prop::sample::select(effects()), 1..4),
        chosen in prop::collection::vec(prop::collection::vec(any::<bool>(), 5), ENTRIES.len()),
        added in (0..ENTRIES.len(), 0..3_usize),
        (in_force, mode) in (any::<bool>(), prop::sample::select(MODES.to_vec())),
        level in prop::sample::select(LEVELS.to_vec()),
    ) {
        let mut lists: Vec<(&str, Option<Vec<&str>>)> = ENTRIES.iter().zip(&chosen).map(|((key, entries), chosen)| {
            let entries = entries.iter().zip(chosen).filter_map(|(entry, chosen)| chosen.then_some(*entry));
            (*key, chosen[0].then(|| entries.collect()))
        }).collect();
        let compiled = |lists: &[(&str, Option<Vec<&str>>)]| {
            let written = lists.iter().filter_map(|(key, entries)| Some(format!("{key:?}: {:?}", entries.as_ref()?)));
            let json = format!(r#"{{"normal": {{{}}}}}"#, written.collect::<Vec<_>>().join(", "));
            let dialect = Dialect { undoable: Undoable::Pass, ..Dialect::default() };
            compile_as(&[user(&json)], "normal", Some(mode), dialect).unwrap()
        };
        let before = compiled(&lists);
        let (key, entries) = &mut lists[added.0];
        prop_assume!(key.starts_with("allowed_"));
        // The first list of paths replaces the default, the workspace, and so allows less.
        prop_assume!(entries.is_some() || !key.ends_with("_paths"));
        entries.get_or_insert_default().push(ENTRIES[added.0].1[added.1]);
        let after = compiled(&lists);
        let [before, after] = [&before, &after].map(|policy| strictness(policy, level, &plan, in_force));
        prop_assert!(after <= before, "{before} {after} for {plan:?} with {lists:?}");
    }
}

#[test]
fn what_needs_a_terminal_needs_it_whichever_line_asks() {
    // The mode, an unlisted path, a directory in no root, an uncertain command: each line asks
    // before the sixth, or hides it.
    let deny = r#"{"deny_exec_command": ["x"]}"#;
    for (json, mode, effects) in [
        ("{}", Mode::AskAlways, vec![write(".envrc")]),
        ("{}", Mode::SmartAuto, vec![write("/srv/x"), write(".envrc")]),
        ("{}", Mode::FullAuto, vec![read("/home/ann/x"), run("echo x > .envrc")]),
        ("{}", Mode::AskAlways, vec![run("cat /home/ann/x > .envrc")]),
        (deny, Mode::AskAlways, vec![run("git commit -m \"$X\" > .envrc")]),
        (deny, Mode::SmartAuto, vec![run("git commit -m $X; echo > .envrc")]),
    ] {
        assert_eq!(strictness(&normal(json, mode), Level::Moderate, &effects, true), 2, "{effects:?}");
    }
    // Control: the same call without the protected file may be granted in a form.
    let plain = strictness(&normal("{}", Mode::AskAlways), Level::Moderate, &[write("envrc")], true);
    assert_eq!(plain, 1);
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
    // Positive control: the entries do allow what nothing denies.
    let outside = read("/home/ann/x");
    assert_eq!(verdict(&without, Level::Safe, &[&outside], false), Verdict::Check);
    assert_eq!(verdict(&with, Level::Safe, &[&outside], false), Verdict::Pass);
}

/// Entries that contradict, shadow and repeat each other. Entries with `!` are excluded: they take
/// back the entries before them, as in `.gitignore`, so their order matters.
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
        // Choose some of the entries of each list, so that different ones decide each time.
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
    // Positive control: every answer occurs.
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
