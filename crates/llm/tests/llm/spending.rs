//! Budgets of requests.

use std::sync::Arc;

use llm::{
    Account, Amount, AttemptError, Hold, Ledger, Limit, Limits, Model as _, ModelError, ModelInfo,
    OverBudget, Price, Rates, Reserve, ReserveError, Route, RouteFault, Router, Scope, StreamFault, Usage,
    Usd, WireFormat, WorstCase, known,
};
use parking_lot::Mutex;
use proptest::prelude::*;
use tool::{BoxFuture, Stop};

use crate::routing::{Player, broken, chat, limited, route, router};
use crate::server::{Clock, Notes, Piece, Reply, Server, question, run};

fn usd(text: &str) -> Usd {
    Usd::parse(text).unwrap()
}

/// Returns a model at a dollar for a million tokens of input and ten for output.
fn priced(name: &str, max_output: u32) -> ModelInfo {
    let (input, output) = (usd("1"), usd("10"));
    let rates = Rates { input, cached: input, cache_write: input, output };
    let price = Some(Price { rates, long: None });
    ModelInfo { price, max_output: Some(max_output), ..ModelInfo::unknown(name, 0) }
}

fn session() -> Scope {
    Scope::Session("s".into())
}

fn charged(call: Limit) -> Route {
    Route { account: Account { scopes: vec![session()], call }, ..route() }
}

/// Gives a router a ledger in which the session has this limit.
fn limit(router: &mut Router, money: Option<&str>, tokens: Option<u64>) -> Arc<Mutex<Ledger>> {
    let mut ledger = Ledger::default();
    ledger.open(session(), Limit { money: money.map(usd), tokens }, Amount::default());
    let ledger = Arc::new(Mutex::new(ledger));
    router.ledger = Some(ledger.clone());
    ledger
}

fn usage(input: u64, output: u64) -> Usage {
    Usage { input, output, ..Usage::default() }
}

#[test]
fn a_request_that_may_overrun_the_budget_is_not_sent() {
    let clock = Clock::jumping();
    let model = Player::new(priced("a", 100_000), &clock, vec![Ok(usage(500, 100)); 2]);
    let mut router = router(&clock, &[("a", model.clone())]);
    // 100,000 tokens of output may cost a dollar.
    let ledger = limit(&mut router, Some("0.99"), None);
    let failed = chat(&router, &charged(Limit::default())).0.unwrap_err();
    assert!(failed.to_string().contains("the budget of the session s has $0.99 left"), "{failed}");
    let AttemptError::Budget(OverBudget::Money { needed, .. }) = &failed.tried[0].error else {
        panic!("{failed:?}")
    };
    assert!(*needed > usd("1") && *needed < usd("1.01"), "{needed}");
    assert_eq!((failed.fault, model.asked.lock().len()), (RouteFault::Failed, 0));
    assert_eq!(ledger.lock().reserved(&session()), Some(Amount::default()));

    let ledger = limit(&mut router, Some("1.01"), None);
    let routed = chat(&router, &charged(Limit::default())).0.unwrap();
    // 500 tokens at a dollar a million, and 100 at ten.
    assert_eq!(routed.cost, Some(usd("0.0015")));
    let spent = Amount { money: usd("0.0015"), tokens: 600 };
    assert_eq!((routed.spent, ledger.lock().spent(&session())), (spent, Some(spent)));
    let call = Limit { money: None, tokens: Some(100_000) };
    let failed = chat(&router, &charged(call)).0.unwrap_err();
    assert!(failed.to_string().contains("the budget of the call has 100000 left"), "{failed}");
}

#[test]
fn a_smaller_model_stands_in_for_one_that_is_too_dear() {
    let clock = Clock::jumping();
    let dear = Player::new(priced("dear", 1_000_000), &clock, vec![]);
    let small = Player::new(priced("small", 1_000), &clock, vec![Ok(usage(10, 10))]);
    let mut router = router(&clock, &[("dear", dear), ("small", small)]);
    let _ledger = limit(&mut router, Some("1"), None);
    let routed = chat(&router, &charged(Limit::default())).0.unwrap();
    assert_eq!((&*routed.model, routed.tried.len()), ("small", 1));
}

#[test]
fn an_unknown_price_is_refused_where_money_is_limited() {
    let clock = Clock::jumping();
    let unknown = ModelInfo { max_output: Some(10), ..ModelInfo::unknown("local", 0) };
    let endless = ModelInfo::unknown("endless", 0);
    let free = ModelInfo { price: Some(Price::FREE), ..ModelInfo::unknown("free", 0) };
    let outcomes = || vec![Ok(usage(10, 10)); 2];
    let mut router = router(
        &clock,
        &[
            ("local", Player::new(unknown, &clock, outcomes())),
            ("endless", Player::new(endless, &clock, outcomes())),
            ("free", Player::new(free, &clock, outcomes())),
        ],
    );
    let _ledger = limit(&mut router, Some("1"), None);
    let routed = chat(&router, &charged(Limit::default())).0.unwrap();
    let scope = Some(session());
    let errors: Vec<_> = routed.tried.iter().map(|attempt| attempt.error.clone()).collect();
    let expected =
        [OverBudget::NoPrice { scope: scope.clone() }, OverBudget::NoBound { scope: scope.clone() }];
    assert_eq!(errors, expected.map(AttemptError::Budget));
    assert_eq!((&*routed.model, routed.cost), ("free", Some(Usd::ZERO)));
    // A limit of tokens alone needs no price, and the cost is unknown.
    let ledger = limit(&mut router, None, Some(5_000));
    let routed = chat(&router, &charged(Limit::default())).0.unwrap();
    assert_eq!((&*routed.model, routed.cost), ("local", None));
    assert_eq!(ledger.lock().spent(&session()).unwrap().tokens, 20);
}

#[test]
fn every_attempt_is_charged_for_what_it_took() {
    let clock = Clock::jumping();
    let half = ModelError::Broken { fault: StreamFault::Ended, usage: usage(100, 50) };
    let model =
        Player::new(priced("a", 1_000), &clock, vec![Err(limited(1)), Err(half), Ok(usage(100, 100))]);
    let mut router = router(&clock, &[("a", model)]);
    let ledger = limit(&mut router, Some("1"), Some(100_000));
    let routed = chat(&router, &charged(Limit::default())).0.unwrap();
    let spent = Amount { money: usd("0.0017"), tokens: 350 };
    assert_eq!((routed.spent, ledger.lock().spent(&session())), (spent, Some(spent)));
    assert_eq!((routed.cost, routed.tried.len()), (Some(usd("0.0011")), 2));
    assert_eq!(ledger.lock().reserved(&session()), Some(Amount::default()));
}

#[test]
fn the_limit_of_a_call_counts_over_all_of_its_attempts() {
    let clock = Clock::jumping();
    let half = || Err(ModelError::Broken { fault: StreamFault::Ended, usage: usage(1_000, 900) });
    let model = Player::new(priced("a", 1_000), &clock, vec![half(), half(), half()]);
    let mut router = router(&clock, &[("a", model.clone())]);
    let _ledger = limit(&mut router, None, None);
    // An attempt may take about 2,100 tokens, and takes 1,900.
    let failed = chat(&router, &charged(Limit { money: None, tokens: Some(4_500) })).0.unwrap_err();
    assert_eq!((model.asked.lock().len(), failed.tried.len(), failed.spent.tokens), (2, 3, 3_800));
    let last = &failed.tried[2].error;
    assert!(
        matches!(last, AttemptError::Budget(OverBudget::Tokens { scope: None, left: 700, .. })),
        "{last:?}"
    );
}

#[test]
fn an_attempt_that_is_dropped_midway_is_charged_at_its_worst() {
    let clock = Clock::standing();
    let server = Server::new(WireFormat::OpenAi, vec![Reply::pieces(vec![Piece::Silence])]);
    let model = Arc::new(server.with(known(WireFormat::OpenAi, "gpt-4.1"), Limits::default(), clock.clone()));
    let worst = model.most_input(&question()) + 32_768;
    let mut router = router(&clock, &[("a", model)]);
    let ledger = limit(&mut router, Some("5"), None);
    run(async {
        let (route, request, mut notes, stop) =
            (charged(Limit::default()), question(), Notes::default(), Stop::default());
        tokio::select! {
            biased;
            outcome = router.chat(&route, &request, &mut notes, &stop) => panic!("{outcome:?}"),
            () = tokio::task::yield_now() => {}
        }
    });
    let ledger = ledger.lock();
    assert_eq!(ledger.reserved(&session()), Some(Amount::default()));
    assert_eq!(ledger.spent(&session()).unwrap().tokens, worst);
}

#[test]
fn a_session_without_an_account_spends_nothing() {
    let clock = Clock::jumping();
    let model = Player::new(priced("a", 10), &clock, vec![]);
    let mut router = router(&clock, &[("a", model)]);
    router.ledger = Some(Arc::default());
    let failed = chat(&router, &charged(Limit::default())).0.unwrap_err();
    assert_eq!(failed.tried[0].error, AttemptError::Budget(OverBudget::NotOpen(session())));
}

proptest! {
    /// Models may answer within their bounds, and fail, as they like: a session never spends more than its
    /// limits, and nothing stays reserved.
    #[test]
    fn requests_never_spend_more_than_the_limits(
        money in 0_u64..30_000_000_000, tokens in 0_u64..30_000,
        outcomes in prop::collection::vec((0_u64..1_000, 0_u64..=500, 0_u8..4), 12),
    ) {
        let clock = Clock::jumping();
        let outcomes = outcomes.into_iter().map(|(input, output, kind)| match kind {
            0 => Err(limited(1)),
            1 => Err(broken(StreamFault::Ended)),
            2 => Err(ModelError::Broken { fault: StreamFault::Ended, usage: usage(input, output) }),
            _ => Ok(usage(input, output)),
        });
        let model = Player::new(priced("a", 500), &clock, outcomes.collect());
        let mut router = router(&clock, &[("a", model.clone())]);
        let mut ledger = Ledger::default();
        let limit = Limit { money: Some(Usd::from_trillionths(money)), tokens: Some(tokens) };
        ledger.open(session(), limit, Amount::default());
        let ledger = Arc::new(Mutex::new(ledger));
        router.ledger = Some(ledger.clone());
        for _ in 0..4 {
            let _outcome = chat(&router, &charged(Limit::default()));
            let ledger = ledger.lock();
            let spent = ledger.spent(&session()).unwrap();
            prop_assert!(spent.money.trillionths() <= money && spent.tokens <= tokens);
            prop_assert_eq!(ledger.reserved(&session()), Some(Amount::default()));
        }
    }
}

/// Ledger of a caller, which notes what happens to it.
#[derive(Default)]
struct Book {
    notes: Arc<Mutex<Vec<String>>>,
    refusal: Option<ReserveError>,
    never_answers: bool,
}

struct BookHold {
    notes: Arc<Mutex<Vec<String>>>,
    worst: Option<u64>,
}

impl Reserve for Book {
    fn reserve(&self, worst: WorstCase) -> BoxFuture<'_, Result<Box<dyn Hold>, ReserveError>> {
        Box::pin(async move {
            if self.never_answers {
                std::future::pending::<()>().await;
            }
            if let Some(refusal) = &self.refusal {
                return Err(refusal.clone());
            }
            self.notes.lock().push(format!("reserved {}", worst.tokens.unwrap()));
            Ok(Box::new(BookHold { notes: self.notes.clone(), worst: worst.tokens }) as Box<dyn Hold>)
        })
    }
}

impl Hold for BookHold {
    fn settle(mut self: Box<Self>, real: Amount) {
        self.worst = None;
        self.notes.lock().push(format!("settled {}", real.tokens));
    }
}

impl Drop for BookHold {
    fn drop(&mut self) {
        if let Some(worst) = self.worst {
            self.notes.lock().push(format!("dropped {worst}"));
        }
    }
}

#[test]
fn a_ledger_of_the_caller_reserves_and_settles_every_attempt() {
    let clock = Clock::jumping();
    let half = ModelError::Broken { fault: StreamFault::Ended, usage: usage(100, 50) };
    let model =
        Player::new(priced("a", 1_000), &clock, vec![Err(limited(1)), Err(half), Ok(usage(100, 100))]);
    let worst = model.most_input(&question()) + 1_000;
    let mut router = router(&clock, &[("a", model)]);
    let book = Book::default();
    let notes = book.notes.clone();
    router.reserve = Some(Arc::new(book));
    chat(&router, &route()).0.unwrap();
    let reserved = format!("reserved {worst}");
    let expected = [&*reserved, "settled 0", &reserved, "settled 150", &reserved, "settled 200"];
    assert_eq!(*notes.lock(), expected);
}

#[test]
fn what_the_ledger_of_the_caller_refuses_is_not_sent_and_charges_no_other_budget() {
    let scope = Some(Scope::Day("2026-11-28".to_owned()));
    let over = OverBudget::Money { scope, needed: usd("1.5"), left: usd("0.25") };
    for (refusal, told) in [
        (ReserveError::Over(over), "up to $1.50, and the budget of the day 2026-11-28 has $0.25 left"),
        (ReserveError::Failed("the disk is full".to_owned()), "the budgets cannot be kept: the disk is full"),
    ] {
        let clock = Clock::jumping();
        let model = Player::new(priced("a", 100), &clock, vec![]);
        let mut router = router(&clock, &[("a", model.clone())]);
        let ledger = limit(&mut router, Some("1"), None);
        router.reserve = Some(Arc::new(Book { refusal: Some(refusal), ..Book::default() }));
        let failed = chat(&router, &charged(Limit::default())).0.unwrap_err();
        assert!(failed.to_string().contains(told), "{failed}");
        assert_eq!(model.asked.lock().len(), 0);
        let ledger = ledger.lock();
        let nothing = Some(Amount::default());
        assert_eq!((ledger.spent(&session()), ledger.reserved(&session())), (nothing, nothing));
    }
}

#[test]
fn an_attempt_that_is_dropped_is_charged_by_the_ledger_of_the_caller_once_it_was_sent() {
    let clock = Clock::standing();
    for never_answers in [false, true] {
        let server = Server::new(WireFormat::OpenAi, vec![Reply::pieces(vec![Piece::Silence])]);
        let info = known(WireFormat::OpenAi, "gpt-4.1");
        let model = Arc::new(server.with(info, Limits::default(), clock.clone()));
        let worst = model.most_input(&question()) + 32_768;
        let mut router = router(&clock, &[("a", model)]);
        let ledger = limit(&mut router, Some("5"), None);
        let book = Book { never_answers, ..Book::default() };
        let notes = book.notes.clone();
        router.reserve = Some(Arc::new(book));
        run(async {
            let (route, request, mut sink, stop) =
                (charged(Limit::default()), question(), Notes::default(), Stop::default());
            tokio::select! {
                biased;
                outcome = router.chat(&route, &request, &mut sink, &stop) => panic!("{outcome:?}"),
                () = tokio::task::yield_now() => {}
            }
        });
        let sent = [format!("reserved {worst}"), format!("dropped {worst}")];
        assert_eq!(*notes.lock(), if never_answers { &[][..] } else { &sent });
        let spent = ledger.lock().spent(&session()).unwrap().tokens;
        assert_eq!(spent, if never_answers { 0 } else { worst });
    }
}
