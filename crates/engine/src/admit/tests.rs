//! Tests of admission: places of commands, room for answers, turns and cancellation.

use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use tool::StopReason;

use super::*;

const BYTES_IN_FLIGHT: u64 = 1024;
const LIMITS: LaneLimits = LaneLimits { running: 5, waiting: 10, in_all: 16, answer_bytes: BYTES_IN_FLIGHT };

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

fn session(name: &(impl ToString + ?Sized)) -> SessionId {
    SessionId(name.to_string())
}

/// Returns true if no command runs or waits, and no session is remembered.
fn is_empty(lanes: &Lanes) -> bool {
    let state = lanes.commands.state();
    state.running == 0 && state.sessions.is_empty() && state.turns.is_empty()
}

/// Returns an answer of unknown length.
fn long() -> Data {
    Data::Value(serde_json::Value::Null)
}

async fn fill(lanes: &Lanes, of: &SessionId, count: usize) -> Vec<AdmittedCall> {
    let stop = Stop::default();
    let mut running = Vec::new();
    for _ in 0..count {
        running.push(lanes.admit(of, Lane::Command, 1, &stop).await.unwrap());
    }
    running
}

#[test]
fn the_sixteenth_command_is_refused_at_once_with_a_retry_hint() {
    runtime().block_on(async {
        let lanes = Arc::new(Lanes::new(LIMITS));
        let (one, other) = (session("one"), session("other"));
        let stop = Stop::default();
        let running = fill(&lanes, &one, 5).await;
        let waiters: Vec<_> = (0..10)
            .map(|_| {
                let (lanes, stop, one) = (lanes.clone(), stop.clone(), one.clone());
                tokio::spawn(async move { lanes.admit(&one, Lane::Command, 1, &stop).await.map(drop) })
            })
            .collect();
        tokio::task::yield_now().await;
        let refused = lanes.admit(&one, Lane::Command, 1, &stop).await.err().unwrap();
        assert_eq!(refused.code, Code::Quota);
        assert_eq!(refused.retry, Retry::AfterMs(COMMAND_RETRY_MS));
        // A read is admitted all the same, and so is a command of another session.
        lanes.admit(&one, Lane::Read, 1, &stop).await.unwrap();
        lanes.admit(&other, Lane::Command, 1, &stop).await.unwrap();
        drop(running);
        for waiter in waiters {
            waiter.await.unwrap().unwrap();
        }
        assert!(is_empty(&lanes));
    });
}

#[test]
fn a_cancelled_waiter_leaves_its_place() {
    runtime().block_on(async {
        let lanes = Lanes::new(LaneLimits { waiting: 1, ..LIMITS });
        let one = session("one");
        let running = fill(&lanes, &one, 5).await;
        for reason in [StopReason::Cancelled, StopReason::Deadline] {
            let stop = Stop::default();
            stop.request(reason);
            let error = lanes.admit(&one, Lane::Command, 1, &stop).await.err().unwrap();
            assert_ne!(error.code, Code::Quota);
        }
        drop(running);
        assert!(is_empty(&lanes));
    });
}

#[test]
fn sessions_have_their_turns_where_the_machine_is_the_bound() {
    runtime().block_on(async {
        let lanes = Arc::new(Lanes::new(LaneLimits { in_all: 1, ..LIMITS }));
        let first = fill(&lanes, &session("busy"), 1).await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let names = ["busy"; 8].into_iter().chain(["quiet", "other", "quiet"]);
        let tasks: Vec<_> = names
            .map(|name| {
                let (lanes, order) = (lanes.clone(), order.clone());
                tokio::spawn(async move {
                    let stop = Stop::default();
                    let place = lanes.admit(&session(name), Lane::Command, 1, &stop).await.unwrap();
                    order.lock().push(name);
                    drop(place);
                })
            })
            .collect();
        tokio::task::yield_now().await;
        drop(first);
        for task in tasks {
            task.await.unwrap();
        }
        let order = order.lock().clone();
        assert_eq!(order[..6], ["busy", "quiet", "other", "busy", "quiet", "busy"], "{order:?}");
        assert!(is_empty(&lanes));
    });
}

#[test]
fn bytes_stay_taken_until_the_answer_is_delivered() {
    runtime().block_on(async {
        let lanes = Lanes::new(LIMITS);
        let (stop, one) = (Stop::default(), session("one"));
        let answer =
            lanes.admit(&one, Lane::Read, BYTES_IN_FLIGHT * 2, &stop).await.unwrap().into_held(&Ok(long()));
        let waiting = lanes.admit(&one, Lane::Read, BYTES_IN_FLIGHT / 2, &stop);
        tokio::pin!(waiting);
        tokio::select! {
            biased;
            _ = &mut waiting => unreachable!("admitted beside an answer that takes everything"),
            () = tokio::task::yield_now() => {}
        }
        drop(answer);
        waiting.await.unwrap();
    });
}

/// Behaviour of one of many callers.
#[derive(Debug, Clone, Copy)]
enum Caller {
    /// Runs for this number of turns of the others.
    Runs(usize),
    /// Is cancelled after this number of turns.
    Cancelled(usize),
    /// Drops its future after this number of turns.
    Gone(usize),
}

fn caller() -> impl Strategy<Value = (usize, Caller)> {
    let does = (0_usize..3, 0_usize..12).prop_map(|(kind, turns)| match kind {
        0 => Caller::Runs(turns),
        1 => Caller::Cancelled(turns),
        _ => Caller::Gone(turns),
    });
    (0_usize..6, does)
}

async fn turns(count: usize) {
    for _ in 0..count {
        tokio::task::yield_now().await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Runs hundreds of calls of several sessions that run, are cancelled and go away. No limit is
    /// exceeded, every remaining caller gets a place or a refusal, and no place is lost.
    #[test]
    fn no_place_is_lost_and_nobody_starves(callers in proptest::collection::vec(caller(), 1..400), in_all in 1_usize..9) {
        let limits = LaneLimits { running: 3, waiting: 6, in_all, answer_bytes: BYTES_IN_FLIGHT };
        let lanes = Arc::new(Lanes::new(limits));
        runtime().block_on(async {
            let all = Arc::new(AtomicUsize::new(0));
            let of: Arc<Vec<AtomicUsize>> = Arc::new((0..6).map(|_| AtomicUsize::new(0)).collect());
            let tasks: Vec<_> = callers
                .iter()
                .map(|&(name, does)| {
                    let (lanes, all, of) = (lanes.clone(), all.clone(), of.clone());
                    tokio::spawn(async move {
                        let stop = Stop::default();
                        let name_of = session(&name);
                        let run = async {
                            let place = lanes.admit(&name_of, Lane::Command, 1, &stop).await?;
                            assert!(all.fetch_add(1, Ordering::SeqCst) < limits.in_all);
                            assert!(of[name].fetch_add(1, Ordering::SeqCst) < limits.running);
                            // The guard counts down even if this future is dropped.
                            let _counted = Counted(&all, &of[name]);
                            turns(if let Caller::Runs(turns) = does { turns } else { 20 }).await;
                            drop(place);
                            Ok::<(), ToolError>(())
                        };
                        let ended = match does {
                            Caller::Runs(_) => Some(run.await),
                            Caller::Cancelled(after) => {
                                let cancel = async { turns(after).await; stop.request(StopReason::Cancelled); };
                                Some(tokio::join!(run, cancel).0)
                            }
                            Caller::Gone(after) => tokio::select! { ended = run => Some(ended), () = turns(after) => None },
                        };
                        let code = ended.and_then(Result::err).map(|error| error.code);
                        assert!(matches!(code, None | Some(Code::Quota | Code::Cancelled)), "{code:?}");
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
        prop_assert!(is_empty(&lanes));
    }
}

struct Counted<'a>(&'a AtomicUsize, &'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
        self.1.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn where_all_bytes_are_taken_sessions_take_turns_and_a_large_answer_is_not_kept_out_by_others() {
    runtime().block_on(async {
        let lanes = Arc::new(Lanes::new(LIMITS));
        let order = Arc::new(Mutex::new(Vec::new()));
        let all =
            lanes.admit(&session("first"), Lane::Read, BYTES_IN_FLIGHT, &Stop::default()).await.unwrap();
        let mut waiters = Vec::new();
        // Ten answers of one session come before the only answer of another, which wants nearly all
        // bytes.
        let greedy = (0..10).map(|number| ("greedy", number, BYTES_IN_FLIGHT / 4));
        for (name, number, wanted) in greedy.chain([("modest", 0, BYTES_IN_FLIGHT - 1)]) {
            let (lanes, order) = (lanes.clone(), order.clone());
            waiters.push(tokio::spawn(async move {
                let stop = Stop::default();
                let room = lanes.admit(&session(name), Lane::Read, wanted, &stop).await.unwrap();
                order.lock().push((name, number));
                drop(room);
            }));
            tokio::task::yield_now().await;
        }
        assert!(order.lock().is_empty(), "nothing is left to give");
        drop(all);
        for waiter in waiters {
            waiter.await.unwrap();
        }
        let order = order.lock();
        assert_eq!(order[..2], [("greedy", 0), ("modest", 0)]);
        assert_eq!(
            order[2..].iter().map(|(_, number)| *number).collect::<Vec<i32>>(),
            (1..10).collect::<Vec<i32>>()
        );
        assert!(lanes.bytes.is_empty());
    });
}

/// Returns true if an answer of the session is admitted without waiting. An admitted answer is
/// added to `held`.
async fn is_admitted(lanes: &Lanes, of: &str, bytes: u64, held: &mut Vec<AdmittedCall>) -> bool {
    let (stop, session) = (Stop::default(), session(of));
    let admitted = lanes.admit(&session, Lane::Read, bytes, &stop);
    tokio::select! {
        biased;
        admitted = admitted => {
            held.push(admitted.unwrap());
            true
        }
        () = tokio::task::yield_now() => false,
    }
}

#[test]
fn small_answers_wait_for_no_large_one_and_a_session_has_its_share_of_each_room() {
    runtime().block_on(async {
        let lanes = Lanes::new(LIMITS);
        let mut held = Vec::new();
        let large = BYTES_IN_FLIGHT / 7;
        // Seven large answers of one session whose client reads slowly: the second is beyond its
        // share.
        assert!(is_admitted(&lanes, "slow", large, &mut held).await);
        for _ in 0..6 {
            assert!(!is_admitted(&lanes, "slow", large, &mut held).await);
        }
        assert!(is_admitted(&lanes, "slow", 16, &mut held).await, "a small one waits for no large one");
        assert!(is_admitted(&lanes, "other", large, &mut held).await, "another session has its own share");
        // Other sessions take the rest, until no room for large answers is left.
        let mut number = 0;
        while is_admitted(&lanes, &format!("further {number}"), large, &mut held).await {
            number += 1;
        }
        assert!(number > 0);
        assert!(is_admitted(&lanes, "other", 16, &mut held).await);
        // Small answers have shares too.
        while is_admitted(&lanes, "slow", 16, &mut held).await {}
        assert!(is_admitted(&lanes, "other", 16, &mut held).await);
        drop(held);
        assert!(lanes.bytes.is_empty());
    });
}

#[test]
fn an_answer_that_is_shorter_than_it_might_have_been_gives_the_rest_back() {
    runtime().block_on(async {
        let lanes = Lanes::new(LIMITS);
        let stop = Stop::default();
        let all = lanes.admit(&session("a"), Lane::Read, BYTES_IN_FLIGHT, &stop).await.unwrap();
        let mut held = Vec::new();
        assert!(!is_admitted(&lanes, "b", BYTES_IN_FLIGHT / 2, &mut held).await, "the control");
        let short = tool::RawJson::of(&"short", 0).unwrap();
        let answer = all.into_held(&Ok(Data::Written(short)));
        assert!(is_admitted(&lanes, "b", BYTES_IN_FLIGHT / 2, &mut held).await);
        drop((answer, held));
        assert!(lanes.bytes.is_empty());
    });
}

#[test]
fn who_waits_for_bytes_and_is_cancelled_leaves_them_to_the_next() {
    runtime().block_on(async {
        let lanes = Arc::new(Lanes::new(LIMITS));
        let half =
            lanes.admit(&session("a"), Lane::Read, BYTES_IN_FLIGHT / 2, &Stop::default()).await.unwrap();
        let stop = Stop::default();
        let wait = |name: &'static str, wanted: u64, stop: Stop| {
            let lanes = lanes.clone();
            tokio::spawn(async move { lanes.admit(&session(name), Lane::Read, wanted, &stop).await })
        };
        let large = wait("b", BYTES_IN_FLIGHT, stop.clone());
        tokio::task::yield_now().await;
        let small = wait("c", BYTES_IN_FLIGHT / 4, Stop::default());
        tokio::task::yield_now().await;
        assert!(!small.is_finished(), "it has its turn behind the larger one");
        stop.request(StopReason::Cancelled);
        assert_eq!(large.await.unwrap().err().unwrap().code, Code::Cancelled);
        let small = small.await.unwrap().unwrap();
        drop((half, small));
        assert!(lanes.bytes.is_empty());
    });
}
