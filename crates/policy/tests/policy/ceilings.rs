//! Ceilings: the rights of a caller only ever shrink, whatever ceilings are met.

use std::sync::Arc;

use policy::{
    Ceiling, EffectKind, EffectKinds, Isolation, Mode, Origin, Part, PathVerdict, Policy, Request, Source,
    Trust, Verdict,
};
use serde_json::json;
use tool::{Access, Effect, Level};

use crate::properties::{LEVELS, effects};
use crate::random_lines::Random;
use crate::setting::*;
use crate::trust::{any_file, any_profile};

fn verdict(policy: &Policy, level: Level, effects: &[&Effect], background: bool) -> Verdict {
    let parts: Vec<Part> = effects.iter().map(|effect| Part::from((*effect).clone())).collect();
    policy.decide(&Request { tool: "t", level, parts: &parts, undoable_in_force: true, background }).verdict
}

/// Returns the verdicts on every effect alone and in some pairs, at every level.
fn verdicts(policy: &Policy) -> Vec<Verdict> {
    let effects = effects();
    let mut all = Vec::new();
    for level in LEVELS {
        for (position, effect) in effects.iter().enumerate() {
            let other = &effects[(position * 7 + 3) % effects.len()];
            all.push(verdict(policy, level, &[effect], false));
            all.push(verdict(policy, level, &[effect, other], position % 2 == 0));
        }
    }
    all
}

/// Describes the call of the verdict with this number.
fn asked(case: usize) -> String {
    let effects = effects();
    let (level, position) = (LEVELS[case / 2 / effects.len()], case / 2 % effects.len());
    let other = &effects[(position * 7 + 3) % effects.len()];
    let with = if case.is_multiple_of(2) { String::new() } else { format!(" with {other:?}") };
    format!("{level:?}, {:?}{with}", effects[position])
}

/// Returns the strictness of the policy about paths: the verdict on each, as a number.
fn paths(policy: &Policy) -> Vec<u8> {
    let strictness = |verdict: PathVerdict<'_>| match verdict {
        PathVerdict::Listed(_) => 0,
        PathVerdict::Workspace => 1,
        PathVerdict::Outside => 2,
        PathVerdict::Denied(_) => 3,
    };
    let mut all = Vec::new();
    for path in ["src/a", "docs/b", ".env", "x.pem", "handfast.yaml", "/home/ann/x", "/srv/data/y", "/srv/z"]
    {
        for access in [Access::Read, Access::Write] {
            let verdict = policy.path_verdict(access, &in_workspace(path));
            let name = in_workspace(path);
            let folder = name.parent().unwrap();
            let listed = policy.readable_names(folder).is_allowed(name.file_name().unwrap());
            let read = policy.path_verdict(Access::Read, &name);
            assert_eq!(listed, strictness(read) < 2, "{path}: a listing and the path disagree");
            all.push(strictness(verdict));
        }
    }
    for path in ["/w/project", "/srv/data", "/srv/data/part", "/srv"] {
        let root = policy.roots().iter().find(|root| std::path::Path::new(path).starts_with(&root.path));
        all.push(u8::from(root.is_none_or(|root| !root.read)));
        all.push(u8::from(root.is_none_or(|root| !root.write)));
    }
    all.push(u8::from(!policy.cell_writes()));
    all
}

/// All answers of one policy.
pub(crate) struct Answers {
    verdicts: Vec<Verdict>,
    paths: Vec<u8>,
    cpus: u64,
    strict: bool,
    isolation: Isolation,
}

impl Answers {
    pub(crate) fn of(policy: &Policy) -> Self {
        let cpus = policy.limits().cpus.unwrap_or(u64::MAX);
        Self {
            verdicts: verdicts(policy),
            paths: paths(policy),
            cpus,
            strict: policy.strict(),
            isolation: policy.isolation(),
        }
    }

    /// Returns true if none of the answers is looser.
    pub(crate) fn is_as_narrow(&self, wide: &Answers) -> bool {
        self.verdicts.iter().zip(&wide.verdicts).all(|(narrow, wide)| narrow >= wide)
            && self.paths.iter().zip(&wide.paths).all(|(narrow, wide)| narrow >= wide)
            && self.cpus <= wide.cpus
            && self.strict >= wide.strict
            && self.isolation >= wide.isolation
    }

    /// Asserts that none of the answers is looser.
    #[track_caller]
    pub(crate) fn are_as_narrow(&self, wide: &Answers, what: &str) {
        for (case, (narrow, wide)) in self.verdicts.iter().zip(&wide.verdicts).enumerate() {
            assert!(narrow >= wide, "{what}: {narrow:?} where it was {wide:?}: {}", asked(case));
        }
        for (narrow, wide) in self.paths.iter().zip(&wide.paths) {
            assert!(narrow >= wide, "{what}: a path is wider");
        }
        assert!(self.cpus <= wide.cpus && self.strict >= wide.strict, "{what}: limits");
        assert!(self.isolation >= wide.isolation, "{what}: isolation");
    }
}

fn agreeing() -> Vec<Arc<Policy>> {
    [
        r#"{"allowed_read_paths": ["./src", "/srv/data"], "deny_exec_command": ["ls"]}"#,
        r#"{"allowed_write_paths": ["./src"], "deny_read_paths": ["docs"], "limits": {"cpus": 2}}"#,
        r#"{"allowed_read_paths": [".", "/srv/data/part"], "allowed_exec_command": ["make"], "strict": true, "isolation": "namespaces", "limits": {"cpus": 1}}"#,
        r#"{"allowed_hosts": ["*"], "deny_tools": ["x"], "undoable": "pass"}"#,
    ]
    .iter()
    .map(|json| Arc::new(normal(json, Mode::SmartAuto)))
    .collect()
}

fn any_ceiling(random: &mut Random, agreeing: &[Arc<Policy>]) -> Ceiling {
    let kinds: Vec<EffectKind> = EffectKind::ALL.into_iter().filter(|_| random.below(4) > 0).collect();
    let mut ceiling = Ceiling {
        level: LEVELS[random.below(6).min(3)],
        effects: if random.below(3) > 0 { EffectKinds::ALL } else { EffectKinds::of(&kinds) },
        mode: [Mode::FullAuto, Mode::SmartAuto, Mode::AskAlways][random.below(3)],
        may_ask: random.below(3) > 0,
        expires_at: (random.below(2) == 0)
            .then(|| jiff::Timestamp::from_second(i64::try_from(random.below(100)).unwrap()).unwrap()),
        tools: (random.below(16) == 0).then(|| {
            let named = ["shell_execute", "file_read", "file_write", "x"].into_iter();
            Arc::new(named.filter(|_| random.below(3) > 0).map(str::to_owned).collect())
        }),
        ..Ceiling::default()
    };
    for policy in agreeing {
        if random.below(4) == 0 {
            ceiling = ceiling.with_policy(policy.clone());
        }
    }
    ceiling
}

fn runtimes() -> Vec<Policy> {
    vec![
        normal("{}", Mode::FullAuto),
        normal(
            r#"{"allowed_read_paths": [".", "/srv"], "allowed_write_paths": [".", "/srv/data"], "undoable": "pass",
                "allowed_hosts": ["docs.rs"], "allowed_exec_command": ["pytest", "make"], "limits": {"cpus": 4}}"#,
            Mode::SmartAuto,
        ),
    ]
}

#[test]
fn narrowing_never_widens_whatever_is_met_with_what() {
    let (agreeing, mut random) = (agreeing(), Random(11));
    let mut seen = [0_usize; 3];
    for runtime in runtimes() {
        let unbounded = Answers::of(&runtime);
        for round in 0..16 {
            let (mut chain, mut above) = (runtime.clone(), Answers::of(&runtime));
            let mut met = Ceiling::default();
            for step in 0..=random.below(3) {
                let wanted = any_ceiling(&mut random, &agreeing);
                met = met.meet(&wanted);
                let under = runtime.under(&met);
                let answers = Answers::of(&under);
                let what = format!("round {round}, step {step}");
                answers.are_as_narrow(&above, &what);
                answers.are_as_narrow(&Answers::of(&runtime.under(&wanted)), &what);
                answers.are_as_narrow(&unbounded, &what);
                // Two nested ceilings equal their meeting.
                assert_eq!(verdicts(&chain.under(&wanted)), answers.verdicts, "{what}");
                (chain, above) = (under, answers);
            }
            for verdict in above.verdicts {
                seen[verdict as usize] += 1;
            }
        }
    }
    // Positive control: every answer occurs.
    assert!(seen.iter().all(|count| *count > 50), "{seen:?}");
}

#[test]
fn no_agent_can_do_what_the_one_above_it_could_not() {
    let mut random = Random(31);
    let (mut narrower, mut wider_as_written) = (0_usize, 0_usize);
    for round in 0..25 {
        let own = user(&any_file(&mut random).to_string());
        let runtime = compile(std::slice::from_ref(&own), "normal");
        let (mut above, mut ceiling) = (Answers::of(&runtime), Ceiling::default());
        for depth in 1..=4 {
            // The rules that an agent gives the one below it, which nobody trusts.
            let config = json!({ "normal": any_profile(&mut random) });
            let source =
                |trust| Source::new(Origin::Ceiling, trust, serde_json::from_value(config.clone()).unwrap());
            let own_rules = compile(&[own.clone(), source(Trust::Untrusted)], "normal");
            ceiling = ceiling.meet(&Ceiling::default().with_policy(Arc::new(own_rules)));
            let below = Answers::of(&runtime.under(&ceiling));
            below.are_as_narrow(
                &above,
                &format!("round {round}, depth {depth}: {config} of {:?}", own.profiles),
            );
            let as_written = Answers::of(&compile(&[source(Trust::Trusted), own.clone()], "normal"));
            narrower += usize::from(!above.is_as_narrow(&below));
            wider_as_written += usize::from(!as_written.is_as_narrow(&above));
            above = below;
        }
    }
    // Positive control: many rules tighten something, and many would have loosened something.
    assert!(narrower > 20 && wider_as_written > 20, "{narrower} {wider_as_written}");
}

#[test]
fn meeting_is_associative_commutative_and_idempotent_and_no_ceiling_is_neutral() {
    let (agreeing, mut random) = (agreeing(), Random(23));
    for _ in 0..2_000 {
        let [one, two, three] = [(); 3].map(|()| any_ceiling(&mut random, &agreeing));
        assert_eq!(one.meet(&two.meet(&three)), one.meet(&two).meet(&three));
        assert_eq!(one.meet(&two), two.meet(&one));
        assert_eq!(one.meet(&one), one);
        assert_eq!(one.meet(&Ceiling::default()), one);
        let met = one.meet(&two);
        assert_eq!(met.meet(&one), met);
        assert!(met.level <= one.level && met.mode >= one.mode && met.may_ask <= one.may_ask);
        for kind in EffectKind::ALL {
            assert_eq!(met.effects.has(kind), one.effects.has(kind) && two.effects.has(kind));
        }
    }
}

#[test]
fn each_bound_is_named_where_it_decides() {
    let runtime = normal(r#"{"allowed_exec_command": ["make"]}"#, Mode::FullAuto);
    let ask = |ceiling: &Ceiling, level, effect: Effect| {
        let decision = decide(&runtime.under(ceiling), level, effect);
        format!("{} {}: {}", decision.verdict.as_str(), decision.rule.entry, decision.reason)
    };
    let reader =
        Ceiling { effects: EffectKinds::of(&[EffectKind::Read, EffectKind::Run]), ..Ceiling::default() };
    assert!(ask(&reader, Level::Safe, read("a")).starts_with("pass"));
    assert!(ask(&reader, Level::Moderate, write("a")).contains("effects without write"));
    assert!(ask(&reader, Level::Destructive, run("make > a")).starts_with("deny"));
    assert!(ask(&reader, Level::Destructive, run("make")).starts_with("pass"));
    assert!(!runtime.under(&reader).cell_writes() && runtime.cell_writes());

    let blind = Ceiling { effects: EffectKinds::of(&[EffectKind::Run]), ..Ceiling::default() };
    assert!(ask(&blind, Level::Destructive, run("make")).starts_with("deny effects without read"));

    let low = Ceiling { level: Level::Moderate, ..Ceiling::default() };
    assert!(ask(&low, Level::Destructive, run("make")).starts_with("deny level moderate"));
    assert!(ask(&low, Level::Moderate, write("a")).starts_with("pass"));

    let quiet = Ceiling { mode: Mode::SmartAuto, may_ask: false, ..Ceiling::default() };
    assert!(ask(&quiet, Level::Moderate, write("a")).starts_with("deny may_ask: this caller may not ask"));
    assert!(ask(&quiet, Level::Safe, read("a")).starts_with("pass"));

    let until = Ceiling { expires_at: Some(jiff::Timestamp::UNIX_EPOCH), ..Ceiling::default() };
    assert!(until.has_expired(jiff::Timestamp::UNIX_EPOCH));
    assert!(!until.has_expired(jiff::Timestamp::from_second(-1).unwrap()));
    let background = verdict(&runtime.under(&until), Level::Destructive, &[&run("make")], true);
    assert_eq!(background, Verdict::Deny);
}

#[test]
fn a_policy_for_another_workspace_allows_nothing() {
    let elsewhere = Policy::compile(&policy::Setup {
        sources: &[],
        profile: "normal",
        mode: None,
        dialect: policy::Dialect::default(),
        workspace: "/elsewhere".as_ref(),
        home: None,
        protected: &[],
        closed: &[],
        programs: policy::Programs::Presumed,
        tools: &[],
    })
    .unwrap();
    let runtime = normal("{}", Mode::FullAuto);
    let under = runtime.under(&Ceiling::default().with_policy(Arc::new(elsewhere)));
    assert_eq!(verdict(&under, Level::Safe, &[&read("a")], false), Verdict::Deny);
    assert!(under.roots().iter().all(|root| !root.read && !root.write));
}
