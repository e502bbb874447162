//! Tests of the flow with a store and askers, and without an engine.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::Mutex;
use store_api::WatcherMark;
use testkit::MovingClock;
use tokio::sync::Notify;
use tool::Level;

use super::super::admin::{ApprovalError, Approvals};
use super::super::{ForeseenWrites, PatternKind};
use super::*;
use crate::Program;

/// Period that no test waits for.
const NEVER: Duration = Duration::from_hours(1000);

/// State folder of a workspace, and a call that needs an approval.
struct Scene {
    folder: tempfile::TempDir,
    store: Arc<dyn Store>,
    clock: MovingClock,
    redactor: Redactor,
    signals: AnswerSignals,
    periods: Periods,
    door: Door,
    call: CallId,
    session: SessionId,
    stop: Stop,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(store_sqlite::SqliteStore::open(folder.path()).unwrap());
        Self {
            folder,
            store,
            clock: MovingClock::default(),
            redactor: Redactor::default(),
            signals: AnswerSignals::default(),
            periods: Periods { poll: NEVER, patience: NEVER },
            door: Door::Library,
            call: CallId("c1".to_owned()),
            session: SessionId("s1".to_owned()),
            stop: Stop::default(),
        }
    }

    fn flow<'a>(&'a self, asker: &'a dyn Asker) -> ApprovalFlow<'a> {
        self.flow_of(&self.call, asker)
    }

    fn flow_of<'a>(&'a self, call: &'a CallId, asker: &'a dyn Asker) -> ApprovalFlow<'a> {
        ApprovalFlow {
            store: &self.store,
            clock: &self.clock,
            redactor: &self.redactor,
            signals: &self.signals,
            workspace: Path::new("/workspace"),
            periods: self.periods,
            caller: AskingCall {
                id: call,
                session: &self.session,
                door: self.door,
                dialect: "handfast",
                asker,
                stop: &self.stop,
            },
        }
    }

    /// Returns the approvals for a person at a door of this process.
    fn person(&self) -> Approvals {
        Approvals::new(self.store.clone(), Arc::new(self.clock.clone())).with_signals(self.signals.clone())
    }

    /// Returns the state of the only question with this id.
    fn state_of(&self, id: &str) -> ApprovalState {
        self.store.approvals().find(id, self.clock.now()).unwrap().unwrap().state
    }

    /// Answers a question with yes, in another process.
    fn approve_elsewhere(&self, id: &str) {
        let other = store_sqlite::SqliteStore::open(self.folder.path()).unwrap();
        let answer = ApprovalAnswer {
            approved: true,
            scope: Some("once".to_owned()),
            by: "somebody elsewhere".to_owned(),
            message: None,
            expires_at: self.clock.now() + OPEN_FOR,
            lease: None,
        };
        assert!(matches!(
            other.approvals().answer(id, &answer, self.clock.now()),
            Ok(AnswerOutcome::First(_))
        ));
    }

    fn watcher(&self) -> WatcherMark {
        self.store.pay_attention(None).unwrap()
    }
}

fn binding() -> Binding {
    Binding {
        request: "request".to_owned(),
        bound: vec![bound("a.sh", "one")],
        plan: "plan".to_owned(),
        effects: "effects".to_owned(),
        foreseen: ForeseenWrites::default(),
        unnamed: None,
    }
}

fn bound(what: &str, was: &str) -> BoundItem {
    BoundItem { what: what.to_owned(), was: was.to_owned() }
}

fn question(id: &str) -> ReadyQuestion {
    let approval = Approval {
        id: id.to_owned(),
        call: CallId("c1".to_owned()),
        tool: "shell_execute".to_owned(),
        level: Level::Destructive,
        effects: vec!["run sh a.sh".to_owned()],
        preview: None,
        preview_more_lines: 0,
        reason: "a test".to_owned(),
        rule: "mode".to_owned(),
        once_only: false,
        patterns_in_the_cell: false,
        terminal_only: false,
        offers: Vec::new(),
        pattern_kind: Some(PatternKind::Command),
        suggestion: None,
        digest: "plan".to_owned(),
        effects_digest: "effects".to_owned(),
        bound: vec![bound("a.sh", "one")],
        connections: Vec::new(),
        every_host: false,
        program: Program::default(),
    };
    ReadyQuestion { approval, request: "request".to_owned(), shape: "sh".to_owned() }
}

/// Source with a question of this id. The state of what the answer is bound to may differ.
struct Prepared {
    id: &'static str,
    asked: u32,
    now: Vec<BoundItem>,
}

fn prepared(id: &'static str) -> Prepared {
    Prepared { id, asked: 0, now: binding().bound }
}

impl QuestionSource for Prepared {
    fn question(&mut self) -> BoxFuture<'_, Result<ReadyQuestion, ToolError>> {
        self.asked += 1;
        Box::pin(async { Ok(question(self.id)) })
    }

    fn bound_now(&mut self) -> BoxFuture<'_, Result<Vec<BoundItem>, ToolError>> {
        Box::pin(async { Ok(self.now.clone()) })
    }
}

/// Asker that shows the question, and never answers.
#[derive(Default)]
struct Silent {
    shown: Notify,
    withdrawn: Arc<AtomicBool>,
}

struct Prompt(Arc<AtomicBool>);

impl Drop for Prompt {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Asker for Silent {
    fn ask<'a>(&'a self, _approval: &'a Approval) -> BoxFuture<'a, Answer> {
        let prompt = Prompt(self.withdrawn.clone());
        Box::pin(async move {
            let _prompt = prompt;
            self.shown.notify_one();
            std::future::pending().await
        })
    }
}

/// Asker that acts when it is asked, and answers at once.
struct Quick<F> {
    answer: Answer,
    before: F,
    waits: AtomicU32,
    waiting: Notify,
}

fn quick(answer: Answer) -> Quick<impl Fn(&Approval) + Send + Sync> {
    after_acting(answer, |_: &Approval| {})
}

fn after_acting<F: Fn(&Approval) + Send + Sync>(answer: Answer, before: F) -> Quick<F> {
    Quick { answer, before, waits: AtomicU32::new(0), waiting: Notify::new() }
}

impl<F: Fn(&Approval) + Send + Sync> Asker for Quick<F> {
    fn ask<'a>(&'a self, approval: &'a Approval) -> BoxFuture<'a, Answer> {
        (self.before)(approval);
        Box::pin(async { self.answer.clone() })
    }

    fn waits_for_others(&self, _approval: &Approval, _most: Duration) {
        self.waits.fetch_add(1, Ordering::SeqCst);
        self.waiting.notify_one();
    }
}

fn yes() -> Answer {
    Answer::Once { by: "the asker".to_owned() }
}

fn nobody() -> Answer {
    Answer::Nobody { hint: "nobody is here".to_owned() }
}

fn approved(by: &str) -> ApprovalOutcome {
    ApprovalOutcome::Approved { by: by.to_owned() }
}

/// Runs the test. A flow that hangs is an error.
fn block<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_mins(1), work).await.unwrap() })
}

#[test]
fn the_first_answer_counts_wakes_the_call_without_a_poll_and_withdraws_the_prompt() {
    let scene = Scene::new();
    let asker = Silent::default();
    let flow = scene.flow(&asker);
    let (outcome, answered) = block(async {
        let person = async {
            asker.shown.notified().await;
            scene.person().deny("q1", Some("not now".to_owned()), "a person").map(|row| row.state)
        };
        tokio::join!(flow.ask(question("q1")), person)
    });
    assert_eq!(answered.unwrap(), ApprovalState::Denied);
    let message = Some("not now".to_owned());
    assert_eq!(outcome.unwrap(), ApprovalOutcome::Denied { by: "a person".to_owned(), message });
    assert!(asker.withdrawn.load(Ordering::SeqCst));
    // The second answer does not count.
    let late = scene.person().deny("q1", None, "somebody else");
    assert!(matches!(late, Err(ApprovalError::Settled { .. })), "{late:?}");
}

#[test]
fn an_answer_of_another_process_is_found_by_polling() {
    let scene = Scene::new();
    let scene = Scene { periods: Periods { poll: Duration::from_millis(1), patience: NEVER }, ..scene };
    let asker = Silent::default();
    let flow = scene.flow(&asker);
    let (outcome, ()) = block(async {
        let elsewhere = async {
            asker.shown.notified().await;
            scene.approve_elsewhere("q1");
        };
        tokio::join!(flow.ask(question("q1")), elsewhere)
    });
    assert_eq!(outcome.unwrap(), approved("somebody elsewhere"));
    assert_eq!(scene.state_of("q1"), ApprovalState::Used);
}

#[test]
fn an_asker_that_leaves_the_question_leaves_it_open_for_a_person_and_an_approval_counts_once() {
    let scene = Scene::new();
    // A client that declines faster than a person can read answers like this.
    let asker = quick(Answer::Unanswered { hint: "the client declined".to_owned() });
    let binding = binding();
    let approve = |source: &mut Prepared| block(scene.flow(&asker).approve(&binding, true, source)).unwrap();
    let open = |id: &str| ApprovalOutcome::Open { id: id.to_owned(), hint: "the client declined".to_owned() };
    assert_eq!(approve(&mut prepared("q1")), open("q1"));
    // A repeated call joins the question that waits.
    assert_eq!(approve(&mut prepared("q2")), open("q1"));
    scene.approve_elsewhere("q1");
    let mut again = prepared("q3");
    assert_eq!(approve(&mut again), approved("somebody elsewhere"));
    assert_eq!(again.asked, 0);
    assert_eq!(approve(&mut prepared("q4")), open("q4"));
}

#[test]
fn a_denial_ends_the_call_and_the_next_call_asks_again() {
    let scene = Scene::new();
    let asker = quick(Answer::Denied { by: "the asker".to_owned(), message: None });
    let denied = ApprovalOutcome::Denied { by: "the asker".to_owned(), message: None };
    for id in ["q1", "q2"] {
        assert_eq!(block(scene.flow(&asker).ask(question(id))).unwrap(), denied);
        assert_eq!(scene.state_of(id), ApprovalState::Denied);
    }
}

#[test]
fn a_change_after_the_yes_refuses_the_call_and_uses_the_approval_up() {
    let scene = Scene::new();
    let asker = quick(yes());
    let mut source = Prepared { now: vec![bound("a.sh", "two")], ..prepared("q1") };
    let drifted = ApprovalOutcome::Drifted { what: "a.sh".to_owned() };
    assert_eq!(block(scene.flow(&asker).approve(&binding(), true, &mut source)).unwrap(), drifted);
    assert_eq!(scene.state_of("q1"), ApprovalState::Used);
    // The control: without a change the same answer passes.
    let passed = block(scene.flow(&asker).approve(&binding(), true, &mut prepared("q2"))).unwrap();
    assert_eq!(passed, approved("the asker"));
}

#[test]
fn an_answer_for_another_state_of_the_machine_is_void() {
    let scene = Scene::new();
    let asker = quick(nobody());
    let open = block(scene.flow(&asker).approve(&binding(), true, &mut prepared("q1"))).unwrap();
    assert!(matches!(open, ApprovalOutcome::Open { .. }), "{open:?}");
    scene.approve_elsewhere("q1");
    let other = Binding { plan: "other".to_owned(), bound: vec![bound("a.sh", "two")], ..binding() };
    let outcome = block(scene.flow(&asker).approve(&other, true, &mut prepared("q2"))).unwrap();
    assert_eq!(outcome, ApprovalOutcome::Drifted { what: "a.sh".to_owned() });
    assert_eq!(scene.state_of("q1"), ApprovalState::Expired);
}

#[test]
fn of_two_calls_with_one_plan_one_uses_the_yes_and_the_other_asks_anew() {
    let scene = Scene::new();
    let (one, two) = (Silent::default(), Silent::default());
    // Calls have ids of their own: each marks under its id that it waits.
    let other = CallId("c2".to_owned());
    let (first, second) = (scene.flow(&one), scene.flow_of(&other, &two));
    let (results, ()) = block(async {
        let calls = async { tokio::join!(first.ask(question("q1")), second.ask(question("q2"))) };
        let person = async {
            tokio::join!(one.shown.notified(), two.shown.notified());
            let waiting = scene.person().list(true).unwrap();
            assert_eq!(waiting.len(), 1, "both calls wait for one question");
            scene.approve_elsewhere(&waiting[0].question.id);
            scene.signals.send(&waiting[0].question.id);
            tokio::select! {
                () = one.shown.notified() => {}
                () = two.shown.notified() => {}
            }
            let anew = scene.person().list(true).unwrap().remove(0);
            scene.person().deny(&anew.question.id, None, "a person").unwrap();
        };
        tokio::join!(calls, person)
    });
    let outcomes = [results.0.unwrap(), results.1.unwrap()];
    let denied = ApprovalOutcome::Denied { by: "a person".to_owned(), message: None };
    assert!(outcomes.contains(&approved("somebody elsewhere")), "{outcomes:?}");
    assert!(outcomes.contains(&denied), "{outcomes:?}");
}

#[test]
fn a_lease_covers_equal_effects_unless_only_a_person_may_approve() {
    let scene = Scene::new();
    let offer = super::super::question::Offer {
        scope: Scope::Session,
        pattern: None,
        covers: "the same again".to_owned(),
        seconds: 60,
        past: None,
    };
    let mut offering = question("q1");
    offering.approval.offers.push(offer.clone());
    let asker = quick(Answer::Lease { offer, by: "the asker".to_owned() });
    assert_eq!(block(scene.flow(&asker).ask(offering)).unwrap(), approved("the asker"));
    let nobody = quick(nobody());
    let other = Binding { plan: "other".to_owned(), request: "other".to_owned(), ..binding() };
    let mut source = prepared("q2");
    let leased = block(scene.flow(&nobody).approve(&other, true, &mut source)).unwrap();
    assert!(matches!(&leased, ApprovalOutcome::Approved { by } if by.contains("lease l")), "{leased:?}");
    assert_eq!(source.asked, 0);
    let asked = block(scene.flow(&nobody).approve(&other, false, &mut source)).unwrap();
    assert!(matches!(asked, ApprovalOutcome::Open { .. }), "{asked:?}");
}

#[test]
fn where_nobody_is_there_the_call_ends_at_once_and_the_question_stays_open() {
    let scene = Scene::new();
    let asker = quick(nobody());
    let open = ApprovalOutcome::Open { id: "q1".to_owned(), hint: "nobody is here".to_owned() };
    assert_eq!(block(scene.flow(&asker).ask(question("q1"))).unwrap(), open);
    assert_eq!(scene.state_of("q1"), ApprovalState::Waiting);
    assert_eq!(asker.waits.load(Ordering::SeqCst), 0);
}

#[test]
fn a_call_waits_for_a_watcher_until_its_patience_ends() {
    let scene = Scene::new();
    let scene = Scene { periods: Periods { poll: NEVER, patience: Duration::ZERO }, ..scene };
    let _watcher = scene.watcher();
    let asker = quick(nobody());
    let open = ApprovalOutcome::Open { id: "q1".to_owned(), hint: "nobody is here".to_owned() };
    assert_eq!(block(scene.flow(&asker).ask(question("q1"))).unwrap(), open);
    assert_eq!(asker.waits.load(Ordering::SeqCst), 1);
    // The control: a patient call gets the watcher's answer.
    let scene = Scene { periods: Periods { poll: NEVER, patience: NEVER }, ..scene };
    let asker = quick(nobody());
    let flow = scene.flow(&asker);
    let outcome = block(async {
        let watcher = async {
            asker.waiting.notified().await;
            scene.person().deny("q1", None, "a watcher").unwrap();
        };
        tokio::join!(flow.ask(question("q2")), watcher).0
    });
    assert_eq!(outcome.unwrap(), ApprovalOutcome::Denied { by: "a watcher".to_owned(), message: None });
}

#[test]
fn a_stopped_call_ends_and_only_that_of_a_command_line_withdraws_its_question() {
    for (door, left) in [(Door::Library, ApprovalState::Waiting), (Door::CommandLine, ApprovalState::Denied)]
    {
        let scene = Scene { door, ..Scene::new() };
        let asker = Silent::default();
        let flow = scene.flow(&asker);
        let (outcome, ()) = block(async {
            let caller = async {
                asker.shown.notified().await;
                scene.stop.request(StopReason::Cancelled);
            };
            tokio::join!(flow.ask(question("q1")), caller)
        });
        assert_eq!(outcome.unwrap_err().code, Code::Cancelled);
        assert_eq!(scene.state_of("q1"), left);
        assert!(asker.withdrawn.load(Ordering::SeqCst));
    }
}

#[test]
fn an_answer_that_comes_with_a_cancellation_is_recorded_and_counts() {
    let scene = Scene::new();
    let asker = after_acting(yes(), |_| scene.stop.request(StopReason::Cancelled));
    assert_eq!(block(scene.flow(&asker).ask(question("q1"))).unwrap(), approved("the asker"));
    assert_eq!(scene.state_of("q1"), ApprovalState::Used);
}

#[test]
fn an_answer_that_comes_while_the_asker_leaves_counts() {
    let scene = Scene::new();
    let asker = after_acting(nobody(), |asked| scene.approve_elsewhere(&asked.id));
    assert_eq!(block(scene.flow(&asker).ask(question("q1"))).unwrap(), approved("somebody elsewhere"));
}

#[test]
fn a_question_that_has_expired_says_so() {
    let scene = Scene::new();
    let asker = after_acting(nobody(), |_| scene.clock.advance(OPEN_FOR));
    let closed = block(scene.flow(&asker).ask(question("q1"))).unwrap();
    assert!(matches!(closed, ApprovalOutcome::Closed { retry: Retry::Now, .. }), "{closed:?}");
}

/// Asker with a fixed answer for which nobody needs to be asked.
struct Known(Mutex<Option<Answer>>);

impl Asker for Known {
    fn ask<'a>(&'a self, _approval: &'a Approval) -> BoxFuture<'a, Answer> {
        let answer = self.0.lock().take().unwrap();
        Box::pin(async { answer })
    }

    fn knows_the_answer(&self) -> bool {
        true
    }
}

#[test]
fn a_known_answer_stores_no_question() {
    let scene = Scene::new();
    let asker = Known(Mutex::new(Some(yes())));
    assert_eq!(block(scene.flow(&asker).ask(question("q1"))).unwrap(), approved("the asker"));
    assert!(scene.person().list(false).unwrap().is_empty());
}
