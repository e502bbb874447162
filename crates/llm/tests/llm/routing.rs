//! Choice among models, fallbacks and pauses.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use llm::{
    Attempt, AttemptError, Capability, ChatRequest, Delta, Finish, Limits, Model, ModelError, ModelInfo,
    Part, Response, Route, RouteError, RouteFault, Routed, Router, Routes, Sink, StreamFault, TaskType,
    ThinkingControl, Usage, WireFormat, known,
};
use parking_lot::Mutex;
use serde_json::json;
use tool::{BoxFuture, Stop, StopReason};

use crate::server::{Clock, Notes, Piece, Reply, Server, question, run, stream};
use crate::streams::{chunk, tokens};

/// Model that plays outcomes, and notes when it was asked.
pub(crate) struct Player {
    info: ModelInfo,
    outcomes: Mutex<VecDeque<Result<Usage, ModelError>>>,
    clock: Arc<Clock>,
    pub(crate) asked: Mutex<Vec<Duration>>,
    /// Text that is sent before an outcome that is an error.
    pub(crate) begins: bool,
}

impl Player {
    pub(crate) fn new(
        info: ModelInfo,
        clock: &Arc<Clock>,
        outcomes: Vec<Result<Usage, ModelError>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            info,
            outcomes: Mutex::new(outcomes.into()),
            clock: clock.clone(),
            asked: Mutex::default(),
            begins: false,
        })
    }
}

impl Model for Player {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn chat<'a>(
        &'a self,
        _request: &'a ChatRequest,
        sink: &'a mut dyn Sink,
        _stop: &'a Stop,
    ) -> BoxFuture<'a, Result<Response, ModelError>> {
        self.asked.lock().push(self.clock.elapsed());
        let outcome =
            self.outcomes.lock().pop_front().unwrap_or_else(|| panic!("{} has no more", self.info.name));
        if self.begins || outcome.is_ok() {
            sink.take(Delta::Text("x"));
        }
        let response = outcome.map(|usage| Response {
            model: self.info.name.clone(),
            parts: vec![Part::Text("x".into())],
            finish: Finish::Complete,
            usage,
            omitted: Vec::new(),
        });
        Box::pin(std::future::ready(response))
    }
}

pub(crate) fn router(clock: &Arc<Clock>, models: &[(&str, Arc<dyn Model>)]) -> Router {
    let names = models.iter().map(|(name, _)| (*name).to_owned()).collect();
    let models = models.iter().map(|(name, model)| ((*name).to_owned(), model.clone())).collect();
    Router::new(models, Routes { by_task: BTreeMap::new(), usual: names }, clock.clone(), Arc::new(|| 0))
}

pub(crate) fn route() -> Route {
    Route::of(TaskType::Coding)
}

pub(crate) fn chat(router: &Router, route: &Route) -> (Result<Routed, RouteError>, Vec<String>) {
    let mut notes = Notes::default();
    let outcome = run(router.chat(route, &question(), &mut notes, &Stop::default()));
    (outcome, notes.0)
}

pub(crate) fn overloaded() -> ModelError {
    ModelError::Overloaded { status: 529, retry_after: None, message: "m".into() }
}

pub(crate) fn limited(seconds: u64) -> ModelError {
    ModelError::RateLimited { retry_after: Some(Duration::from_secs(seconds)), message: "m".into() }
}

pub(crate) fn broken(fault: StreamFault) -> ModelError {
    ModelError::Broken { fault, usage: Usage::default() }
}

fn tried(model: &str, error: ModelError) -> Attempt {
    Attempt { model: model.to_owned(), error: AttemptError::Model(error) }
}

fn plain(name: &str) -> ModelInfo {
    ModelInfo::unknown(name, 0)
}

/// Returns two models, the second of which answers.
fn two(clock: &Arc<Clock>, first: Vec<Result<Usage, ModelError>>) -> (Arc<Player>, Arc<Player>, Router) {
    let first = Player::new(plain("a"), clock, first);
    let second = Player::new(plain("b"), clock, vec![Ok(Usage::default()); 3]);
    let router = router(clock, &[("a", first.clone()), ("b", second.clone())]);
    (first, second, router)
}

#[test]
fn another_model_answers_at_once_for_one_that_fails() {
    for error in [
        overloaded(),
        limited(60),
        ModelError::Unreachable { message: "m".into() },
        ModelError::NoCredit { message: "m".into() },
        broken(StreamFault::Ended),
        broken(StreamFault::Malformed("m".into())),
    ] {
        let clock = Clock::jumping();
        let (_, _, router) = two(&clock, vec![Err(error.clone())]);
        let (outcome, _) = chat(&router, &route());
        let routed = outcome.unwrap();
        assert_eq!((&*routed.model, routed.tried), ("b", vec![tried("a", error)]));
        assert_eq!(clock.elapsed(), Duration::ZERO);
    }
}

#[test]
fn what_another_model_would_hide_ends_the_attempts() {
    for error in [
        ModelError::Auth { message: "m".into() },
        ModelError::Invalid { message: "m".into() },
        ModelError::ContextTooLong { message: "m".into() },
        ModelError::Refused { message: "m".into(), usage: Usage::default() },
    ] {
        let clock = Clock::jumping();
        let (_, second, router) = two(&clock, vec![Err(error.clone())]);
        let failed = chat(&router, &route()).0.unwrap_err();
        assert!(failed.to_string().starts_with("no model answered; a: "), "{failed}");
        assert_eq!((failed.fault, failed.tried), (RouteFault::Failed, vec![tried("a", error)]));
        assert_eq!(second.asked.lock().len(), 0);
    }
}

#[test]
fn the_only_model_is_asked_again_when_its_server_wants() {
    let clock = Clock::jumping();
    let model =
        Player::new(plain("a"), &clock, vec![Err(limited(20)), Err(limited(5)), Ok(Usage::default())]);
    let router = router(&clock, &[("a", model.clone())]);
    let routed = chat(&router, &route()).0.unwrap();
    assert_eq!(routed.tried.len(), 2);
    assert_eq!(*model.asked.lock(), [0, 20, 25].map(Duration::from_secs));
}

#[test]
fn pauses_double_within_bounds_and_are_random() {
    let pauses = |random: u64| {
        let clock = Clock::jumping();
        let outcomes = std::iter::repeat_with(|| Err(overloaded())).take(7).collect();
        let model = Player::new(plain("a"), &clock, outcomes);
        let mut router = router(&clock, &[("a", model.clone())]);
        router.rules.attempts = 7;
        router.random = Arc::new(move || random);
        assert_eq!(chat(&router, &route()).0.unwrap_err().tried.len(), 7);
        let asked = model.asked.lock();
        asked.windows(2).map(|pair| pair[1].checked_sub(pair[0]).unwrap()).collect::<Vec<_>>()
    };
    let least = pauses(0);
    assert_eq!(least, [500, 1_000, 2_000, 4_000, 8_000, 15_000].map(Duration::from_millis));
    for random in [1, 7_777_777_777, u64::MAX] {
        for (pause, least) in pauses(random).into_iter().zip(&least) {
            assert!(pause > *least && pause <= *least * 2, "{random} {pause:?}");
        }
    }
}

#[test]
fn a_wait_beyond_the_deadline_is_not_begun() {
    let clock = Clock::jumping();
    let model = Player::new(plain("a"), &clock, vec![Err(limited(90))]);
    let router = router(&clock, &[("a", model)]);
    let deadline = router.timer.now() + Duration::from_mins(1);
    let failed = chat(&router, &Route { deadline: Some(deadline), ..route() }).0.unwrap_err();
    assert_eq!(failed.fault, RouteFault::Late(Duration::from_secs(90)));
    assert_eq!(failed.tried, [tried("a", limited(90))]);
    assert_eq!(clock.elapsed(), Duration::ZERO);
    // A time that no clock reaches is no time to wait for.
    let clock = Clock::jumping();
    let model = Player::new(plain("a"), &clock, vec![Err(limited(u64::MAX))]);
    let failed = chat(&self::router(&clock, &[("a", model)]), &route()).0.unwrap_err();
    assert_eq!(failed.fault, RouteFault::Failed);
}

#[test]
fn a_model_that_rests_is_asked_last_by_later_requests_too() {
    let clock = Clock::jumping();
    let (first, second, router) = two(&clock, vec![Err(limited(30)), Ok(Usage::default())]);
    assert_eq!(chat(&router, &route()).0.unwrap().model, "b");
    let routed = chat(&router, &route()).0.unwrap();
    assert_eq!((&*routed.model, routed.tried.len()), ("b", 0));
    second.outcomes.lock().push_front(Err(overloaded()));
    // The second one would be ready after a pause of less than the 30 seconds, so it comes before the first.
    assert_eq!(chat(&router, &route()).0.unwrap().model, "b");
    assert_eq!((first.asked.lock().len(), second.asked.lock().len()), (1, 4));
    run(router.timer.sleep(Duration::from_secs(31)));
    assert_eq!(chat(&router, &route()).0.unwrap().model, "a");
}

#[test]
fn pieces_of_an_answer_that_broke_off_are_declared_void() {
    let clock = Clock::jumping();
    let mut first = Player::new(plain("a"), &clock, vec![Err(broken(StreamFault::Ended))]);
    Arc::get_mut(&mut first).unwrap().begins = true;
    let second = Player::new(plain("b"), &clock, vec![Ok(Usage::default())]);
    let (outcome, notes) = chat(&router(&clock, &[("a", first), ("b", second)]), &route());
    assert_eq!(
        (outcome.unwrap().model, notes),
        ("b".into(), ["text x", "discarded", "text x"].map(str::to_owned).to_vec())
    );
    let (_, _, router) = two(&clock, vec![Err(overloaded())]);
    assert_eq!(chat(&router, &route()).1, ["text x"]);
}

#[test]
fn the_type_of_the_task_and_the_needs_choose_the_model() {
    let clock = Clock::jumping();
    let blind = ModelInfo { vision: false, thinking: ThinkingControl::Never, ..plain("blind") };
    let blind = Player::new(blind, &clock, vec![Ok(Usage::default()); 2]);
    let able = Player::new(plain("able"), &clock, vec![Ok(Usage::default()); 2]);
    let mut router = router(&clock, &[("blind", blind), ("able", able)]);
    router.routes.by_task.insert(TaskType::Simple, vec!["gone".into(), "blind".into()]);
    router.routes.by_task.insert(TaskType::Planning, Vec::new());

    let routed = chat(&router, &Route::of(TaskType::Simple)).0.unwrap();
    let unknown = Attempt { model: "gone".into(), error: AttemptError::Unknown };
    assert_eq!((&*routed.model, routed.tried), ("blind", vec![unknown]));
    let needs = ["vision", "thinking", "tools"].map(|word| Capability::of_word(word).unwrap()).to_vec();
    let routed = chat(&router, &Route { needs, ..route() }).0.unwrap();
    let lacks = AttemptError::Lacks(vec![Capability::Vision, Capability::Thinking]);
    assert_eq!((&*routed.model, &routed.tried[0].error), ("able", &lacks));
    assert_eq!(lacks.to_string(), "the model cannot do what is needed: vision, thinking");

    let fault = |route: &Route| chat(&router, route).0.unwrap_err().fault;
    assert_eq!(fault(&Route::of(TaskType::Planning)), RouteFault::NoRoute(TaskType::Planning));
    assert_eq!(fault(&Route::of(TaskType::Embedding)), RouteFault::Embedding);
    let words = TaskType::ALL.map(|task| (TaskType::of_word(task.word()), Some(task)));
    assert!(words.iter().all(|(found, task)| found == task) && TaskType::of_word("code").is_none());
}

#[test]
fn a_model_that_is_asked_for_has_no_fallback() {
    let clock = Clock::jumping();
    let (first, second, router) = two(&clock, std::iter::repeat_with(|| Err(overloaded())).take(3).collect());
    let asked_for = |name: &str| Route { model: Some(name.into()), ..route() };
    let failed = chat(&router, &asked_for("a")).0.unwrap_err();
    assert_eq!((failed.tried.len(), first.asked.lock().len(), second.asked.lock().len()), (3, 3, 0));
    let mut router = router;
    router.models.insert("claude-opus-5-5".into(), second);
    let failed = chat(&router, &asked_for("claude-opus-55")).0.unwrap_err();
    assert_eq!(
        failed.to_string(),
        "the model `claude-opus-55` is not configured; did you mean `claude-opus-5-5`?"
    );
}

#[test]
fn a_stop_ends_the_pause() {
    let stop = Stop::default();
    let clock = Clock::standing();
    let model = Player::new(plain("a"), &clock, vec![Err(limited(3_600))]);
    let router = Arc::new(router(&clock, &[("a", model.clone())]));
    run(async {
        let task = tokio::spawn({
            let (router, stop) = (router.clone(), stop.clone());
            async move { router.chat(&route(), &question(), &mut Notes::default(), &stop).await }
        });
        while model.asked.lock().is_empty() {
            tokio::task::yield_now().await;
        }
        tokio::task::yield_now().await;
        stop.request(StopReason::Cancelled);
        let failed = task.await.unwrap().unwrap_err();
        assert_eq!(failed.fault, RouteFault::Cancelled(StopReason::Cancelled));
        assert_eq!(failed.tried, [tried("a", limited(3_600))]);
    });
}

#[test]
fn models_of_several_providers_stand_in_for_each_other() {
    let clock = Clock::jumping();
    let error = json!({"type": "error", "error": {"type": "rate_limit_error", "message": "m"}});
    let anthropic = Server::new(
        WireFormat::Anthropic,
        vec![Reply::failure(WireFormat::Anthropic, 429, &error).header("retry-after", "9")],
    );
    let half = Reply::pieces(vec![Piece::Bytes("{\"message\":{\"content\":\"ha\"}}\n".into()), Piece::Break]);
    let ollama = Server::new(WireFormat::Ollama, vec![half]);
    let events = [chunk(&json!({"content": "whole"}), Some("stop")), tokens(10, 2)];
    let openai = Server::new(WireFormat::OpenAi, vec![Reply::bytes(stream(WireFormat::OpenAi, &events))]);
    let model = |server: &Arc<Server>, wire: WireFormat, name: &str| -> Arc<dyn Model> {
        Arc::new(server.with(known(wire, name), Limits::default(), clock.clone()))
    };
    let router = router(
        &clock,
        &[
            ("a", model(&anthropic, WireFormat::Anthropic, "claude-sonnet-5-5")),
            ("b", model(&ollama, WireFormat::Ollama, "qwen3")),
            ("c", model(&openai, WireFormat::OpenAi, "gpt-4.1")),
        ],
    );
    let (outcome, notes) = chat(&router, &route());
    let routed = outcome.unwrap();
    assert_eq!(notes, ["text ha", "discarded", "text whole"]);
    assert_eq!((&*routed.model, routed.response.text()), ("c", "whole".to_owned()));
    assert_eq!(routed.tried[0], tried("a", limited(9)));
    let fault = StreamFault::Connection("connection reset".into());
    let AttemptError::Model(ModelError::Broken { fault: own, .. }) = &routed.tried[1].error else { panic!() };
    assert_eq!(own, &fault);
    // 10 tokens at 2 dollars a million, of which 10 of the reported 64 can be cached, and 2 at 8.
    assert_eq!(routed.cost.unwrap().to_string(), "$0.000021");
}
