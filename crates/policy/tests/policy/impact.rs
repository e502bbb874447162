//! Edits of code with many callers (line 10).

use policy::{Ceiling, Dialect, Impact, LeasePattern, Mode, Part, Policy, Request, Trust, Undoable};
use tool::{CodeCaller, EditedSymbol, Level};

use crate::setting::{compile, compile_as, delete, managed, normal, short, user, workspace, write};

fn edit(callers: u64) -> Part {
    let first = vec![CodeCaller { file: "src/b.py".to_owned(), line: 4, name: "main".to_owned() }];
    let symbol =
        EditedSymbol { name: "load".to_owned(), file: "src/a.py".to_owned(), line: 10, callers, first };
    Part { impact: Impact::Known(vec![symbol]), ..Part::from(write("src/a.py")) }
}

fn decide(policy: &Policy, parts: &[Part]) -> String {
    let request = Request {
        tool: "file_edit",
        level: Level::Moderate,
        parts,
        undoable_in_force: true,
        background: false,
    };
    short(&policy.decide(&request))
}

const RULE: &str = r#"{"undoable": "pass", "impact": {"callers_over": 3}}"#;

#[test]
fn an_edit_of_a_symbol_with_more_callers_is_asked_about_and_one_with_as_many_passes() {
    let policy = normal(RULE, Mode::SmartAuto);
    assert_eq!(policy.asks_above_callers(), Some(3));
    assert_eq!(decide(&policy, &[edit(3)]), "pass 8");
    assert_eq!(decide(&policy, &[edit(4)]), "check 10");
    assert_eq!(decide(&policy, &[Part::from(write("src/b.py")), edit(4)]), "check 10");
    let parts = [edit(4)];
    let request = Request {
        tool: "file_edit",
        level: Level::Moderate,
        parts: &parts,
        undoable_in_force: true,
        background: false,
    };
    let decision = policy.decide(&request);
    assert_eq!(decision.reason, "it changes `load` (src/a.py:10), which has 4 callers, more than 3");
    assert_eq!((decision.rule.key, decision.rule.entry.as_str()), ("impact", "callers_over: 3"));
    assert_eq!(policy.would_pass_with(&request), None);
}

#[test]
fn without_the_rule_the_facts_decide_nothing() {
    let policy = normal(r#"{"undoable": "pass"}"#, Mode::SmartAuto);
    assert_eq!(policy.asks_above_callers(), None);
    assert_eq!(decide(&policy, &[edit(1_000)]), "pass 8");
    let unknown = Part { impact: Impact::Unknown("late".to_owned()), ..edit(0) };
    assert_eq!(decide(&policy, &[unknown]), "pass 8");
}

#[test]
fn callers_that_are_not_known_are_asked_about() {
    let policy = normal(RULE, Mode::FullAuto);
    let unknown = Part { impact: Impact::Unknown("the graph is being made".to_owned()), ..edit(0) };
    assert_eq!(decide(&policy, &[unknown]), "check 10");
    assert_eq!(decide(&policy, &[Part::from(write("src/a.py"))]), "pass 8");
}

#[test]
fn no_list_no_mode_and_no_lease_lets_such_an_edit_pass() {
    let listed = r#"{"allowed_write_paths": ["."], "impact": {"callers_over": 3}}"#;
    assert_eq!(decide(&normal(listed, Mode::SmartAuto), &[edit(3)]), "pass 7");
    assert_eq!(decide(&normal(listed, Mode::SmartAuto), &[edit(4)]), "check 10");
    assert_eq!(decide(&normal(listed, Mode::FullAuto), &[edit(4)]), "check 10");
    let table = normal(r#"{"impact": {"callers_over": 3}}"#, Mode::SmartAuto);
    let leased = table.with_leases(&[("1".into(), LeasePattern::Write("src/a.py".to_owned()))]);
    assert_eq!(decide(&table, &[edit(3)]), "check 9");
    assert_eq!(decide(&leased, &[edit(3)]), "pass 7");
    assert_eq!(decide(&leased, &[edit(4)]), "check 10");
}

#[test]
fn a_denial_and_an_earlier_question_come_first() {
    let denied = r#"{"deny_write_paths": ["src/"], "impact": {"callers_over": 0}}"#;
    assert_eq!(decide(&normal(denied, Mode::FullAuto), &[edit(9)]), "deny 1");
    let unlisted = r#"{"allowed_write_paths": ["docs/"], "impact": {"callers_over": 0}}"#;
    assert_eq!(decide(&normal(unlisted, Mode::FullAuto), &[edit(9)]), "check 6");
    let removed = Part { effect: delete("src/a.py"), ..edit(9) };
    assert_eq!(decide(&normal(RULE, Mode::FullAuto), &[removed]), "check 10");
}

#[test]
fn every_file_may_tighten_the_rule_and_only_the_user_may_loosen_it() {
    let rule = |most: u64| format!(r#"{{"normal": {{"impact": {{"callers_over": {most}}}}}}}"#);
    let merged = |sources: &[policy::Source]| compile(sources, "normal").asks_above_callers();
    let untrusted = |most| workspace(&rule(most), Trust::Untrusted);
    assert_eq!(merged(&[user(&rule(9)), untrusted(3)]), Some(3));
    assert_eq!(merged(&[user(&rule(3)), untrusted(9)]), Some(3));
    assert_eq!(merged(&[user(r#"{"normal": {}}"#), untrusted(9)]), Some(9));
    assert_eq!(merged(&[managed(&rule(3)), user(&rule(9))]), Some(3));
    assert_eq!(merged(&[user(&rule(3)), workspace(&rule(9), Trust::Trusted)]), Some(3));
    let policy = compile(&[user(&rule(9)), untrusted(3)], "normal");
    assert!(policy.warnings().is_empty(), "{:?}", policy.warnings());
}

#[test]
fn a_ceiling_takes_the_lower_number() {
    let undoable = Dialect { undoable: Undoable::Pass, ..Dialect::default() };
    let compiled = |json: &str| compile_as(&[user(json)], "normal", None, undoable).unwrap();
    let loose = compiled(r#"{"normal": {"impact": {"callers_over": 9}}}"#);
    let strict = compiled(r#"{"normal": {"impact": {"callers_over": 3}}}"#);
    let none = compiled(r#"{"normal": {}}"#);
    for (one, other) in [(&loose, &strict), (&strict, &loose), (&none, &strict), (&strict, &none)] {
        let under = one.under(&Ceiling::default().with_policy(other.clone().into()));
        assert_eq!(under.asks_above_callers(), Some(3));
        assert_eq!(decide(&under, &[edit(4)]), "check 10");
        assert_eq!(decide(&under, &[edit(3)]), "pass 8");
        let reasons = [3, 4].map(|callers| under.impact_reason(&edit(callers).impact).is_some());
        assert_eq!(reasons, [false, true]);
    }
}
