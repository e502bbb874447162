//! Choice among several models: by the type of a task, with fallbacks, pauses and budgets.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tool::{Stop, StopReason, Timer};

use crate::budget::{Amount, Ledger, Limit, OverBudget, Reservation, Scope, WorstCase};
use crate::error::{ModelError, Step};
use crate::estimate::most_output;
use crate::info::{Capability, ModelInfo};
use crate::interrupt::{Interrupt, StopWatch};
use crate::message::ChatRequest;
use crate::model::Model;
use crate::money::Usd;
use crate::reserve::{Reserve, ReserveError};
use crate::response::{Delta, Response, Sink};
use crate::task::{Routes, TaskType};
use crate::usage::Usage;

/// Rules for attempts after a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryRules {
    /// Maximum number of attempts with one model.
    pub attempts: u32,
    /// Longest pause after the first failure of a model. Each further failure doubles it. The pause itself
    /// is random, at least half of that.
    pub first_pause: Duration,
    /// Maximum of a pause that no server asked for.
    pub longest_pause: Duration,
}

impl Default for RetryRules {
    fn default() -> Self {
        Self { attempts: 3, first_pause: Duration::from_secs(1), longest_pause: Duration::from_secs(30) }
    }
}

/// Longest addition to the time that a server asks for, so that not all callers come back at once.
const LONGEST_ADDITION: Duration = Duration::from_secs(1);

/// Account that a request is charged to.
#[derive(Debug, Clone, Default)]
pub struct Account {
    /// Owners of the accounts.
    pub scopes: Vec<Scope>,
    /// Limit of this request alone, over all of its attempts.
    pub call: Limit,
}

/// Rules for one request.
#[derive(Debug, Clone)]
pub struct Route {
    /// Type of the task.
    pub task: TaskType,
    /// Model that is asked in any case, without a fallback.
    pub model: Option<String>,
    /// Abilities that the model must have.
    pub needs: Vec<Capability>,
    /// Moment until which a wait for another attempt may last. An attempt itself ends by its stop.
    pub deadline: Option<Instant>,
    /// Account that is charged.
    pub account: Account,
}

impl Route {
    /// Creates the rules for a task, without demands and without an account.
    pub fn of(task: TaskType) -> Self {
        Self { task, model: None, needs: Vec::new(), deadline: None, account: Account::default() }
    }
}

/// Attempt that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Name of the model, as the router knows it.
    pub model: String,
    /// Reason of the failure.
    pub error: AttemptError,
}

/// Reason why a model did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AttemptError {
    /// The model failed.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The budget does not allow the request, which was not sent.
    #[error(transparent)]
    Budget(#[from] OverBudget),
    /// The ledger of the caller is out of order, so the request was not sent.
    #[error("the budgets cannot be kept: {0}")]
    Ledger(String),
    /// The model does not have an ability, so it was not asked.
    #[error("the model cannot do what is needed: {}", words(.0))]
    Lacks(Vec<Capability>),
    /// The route names a model that the router does not have.
    #[error("the model is not configured")]
    Unknown,
}

impl From<ReserveError> for AttemptError {
    fn from(error: ReserveError) -> Self {
        match error {
            ReserveError::Over(over) => Self::Budget(over),
            ReserveError::Failed(reason) => Self::Ledger(reason),
        }
    }
}

fn words(abilities: &[Capability]) -> String {
    abilities.iter().map(|ability| ability.word()).collect::<Vec<_>>().join(", ")
}

/// Answer of the model that was chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct Routed {
    /// Answer.
    pub response: Response,
    /// Name of the model, as the router knows it.
    pub model: String,
    /// Attempts before, in order.
    pub tried: Vec<Attempt>,
    /// Cost of the answer; `None` if the price of the model is unknown.
    pub cost: Option<Usd>,
    /// Money and tokens of all attempts, as far as prices are known.
    pub spent: Amount,
}

/// Failure of a request to several models.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{fault}{}", listed(.tried))]
pub struct RouteError {
    /// Reason for the end.
    pub fault: RouteFault,
    /// Attempts, in order.
    pub tried: Vec<Attempt>,
    /// Money and tokens of all attempts, as far as prices are known.
    pub spent: Amount,
}

fn listed(tried: &[Attempt]) -> String {
    tried.iter().map(|Attempt { model, error }| format!("; {model}: {error}")).collect()
}

/// Reason why no model answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RouteFault {
    /// No model is configured for the type of task.
    #[error("no model is configured for `{}`", .0.word())]
    NoRoute(TaskType),
    /// The model that was asked for is not configured.
    #[error("the model `{name}` is not configured{}", .nearest.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
    UnknownModel {
        /// Name of the model.
        name: String,
        /// Configured model with the most similar name.
        nearest: Option<String>,
    },
    /// Vectors are not made by chat models.
    #[error("no chat model makes vectors: they come from the search by meaning")]
    Embedding,
    /// Every model failed. The last of the attempts says how.
    #[error("no model answered")]
    Failed,
    /// A model could be asked again only after the deadline.
    #[error("a model can be asked again in {} seconds, which is after the deadline", .0.as_secs())]
    Late(Duration),
    /// The caller stopped.
    #[error("the request was stopped")]
    Cancelled(StopReason),
}

/// Source of random numbers for pauses.
pub type Random = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Models and the choice among them.
pub struct Router {
    /// Models by the names that routes and callers use.
    pub models: BTreeMap<String, Arc<dyn Model>>,
    /// Models for each type of task.
    pub routes: Routes,
    /// Rules for attempts after a failure.
    pub rules: RetryRules,
    /// Clock of all pauses. It never goes back, so a wall clock that jumps changes nothing.
    pub timer: Arc<dyn Timer>,
    /// Random numbers of pauses.
    pub random: Random,
    /// Budgets; `None` if there are none.
    pub ledger: Option<Arc<Mutex<Ledger>>>,
    /// Ledger of the caller, on which every request is reserved too; `None` if there is none.
    pub reserve: Option<Arc<dyn Reserve>>,
    /// Moments before which servers do not want to be asked, by model.
    resting: Mutex<BTreeMap<String, Instant>>,
}

/// Model that may still be asked.
struct Candidate<'a> {
    name: &'a str,
    model: &'a dyn Model,
    attempts: u32,
    ready: Instant,
}

impl Router {
    /// Creates a router with the usual rules for attempts, and without budgets.
    pub fn new(
        models: BTreeMap<String, Arc<dyn Model>>,
        routes: Routes,
        timer: Arc<dyn Timer>,
        random: Random,
    ) -> Self {
        let (rules, resting) = (RetryRules::default(), Mutex::default());
        Self { models, routes, rules, timer, random, ledger: None, reserve: None, resting }
    }

    /// Asks the models of a route, one after another, until one answers. Pieces of an answer that broke off
    /// are followed by [`Delta::Discarded`] if another attempt follows.
    ///
    /// A model that fails for a while is asked again when its server wants, or after a pause, but only when
    /// no other one is left to be asked before.
    ///
    /// # Errors
    /// [`RouteError`], with everything that was tried.
    pub async fn chat(
        &self,
        route: &Route,
        request: &ChatRequest,
        sink: &mut dyn Sink,
        stop: &Stop,
    ) -> Result<Routed, RouteError> {
        let mut tried = Vec::new();
        let mut spent = Amount::default();
        let end = self.attempts(route, request, sink, stop, &mut tried, &mut spent).await;
        match end {
            Ok((response, model, cost)) => Ok(Routed { response, model, tried, cost, spent }),
            Err(fault) => Err(RouteError { fault, tried, spent }),
        }
    }

    async fn attempts(
        &self,
        route: &Route,
        request: &ChatRequest,
        sink: &mut dyn Sink,
        stop: &Stop,
        tried: &mut Vec<Attempt>,
        spent: &mut Amount,
    ) -> Result<(Response, String, Option<Usd>), RouteFault> {
        let watch = StopWatch::new(stop);
        let mut candidates = self.candidates(route, tried)?;
        loop {
            let now = self.timer.now();
            // The order of the route counts among those that are ready.
            let next = (0..candidates.len())
                .min_by_key(|place| candidates.get(*place).map(|candidate| candidate.ready.max(now)));
            let Some(next) = next else { return Err(RouteFault::Failed) };
            let mut candidate = candidates.remove(next);
            if let Some(pause) = candidate.ready.checked_duration_since(now).filter(|pause| !pause.is_zero())
            {
                if route.deadline.is_some_and(|deadline| candidate.ready > deadline) {
                    return Err(RouteFault::Late(pause));
                }
                let sleep = self.timer.sleep_until(candidate.ready);
                watch.wait(sleep, &mut []).await.map_err(stopped)?;
            }
            let name = candidate.name.to_owned();
            let mut counted = CountedSink { sink: &mut *sink, has_pieces: false };
            let outcome = self.attempt(&candidate, route, request, &mut counted, stop, spent).await;
            let has_pieces = counted.has_pieces;
            let error = match outcome {
                Ok((response, cost)) => {
                    self.resting.lock().remove(&name);
                    return Ok((response, name, cost));
                }
                Err(error) => error,
            };
            let step = match &error {
                AttemptError::Model(error) => error.step(),
                _ => Step::Next,
            };
            let cancelled = match &error {
                AttemptError::Model(ModelError::Cancelled { reason, .. }) => Some(*reason),
                _ => None,
            };
            tried.push(Attempt { model: name, error });
            if let Some(reason) = cancelled {
                return Err(RouteFault::Cancelled(reason));
            }
            candidate.attempts = candidate.attempts.saturating_add(1);
            match step {
                Step::End => return Err(RouteFault::Failed),
                Step::Next => {}
                Step::Retry { after } => {
                    let ready = self.ready(after, candidate.attempts);
                    if let (Some(ready), Some(_)) = (ready, after) {
                        self.resting.lock().insert(candidate.name.to_owned(), ready);
                    }
                    if let Some(ready) = ready
                        && candidate.attempts < self.rules.attempts
                    {
                        candidate.ready = ready;
                        candidates.insert(next, candidate);
                    }
                }
            }
            if has_pieces && !candidates.is_empty() {
                sink.take(Delta::Discarded);
            }
        }
    }

    fn candidates<'a>(
        &'a self,
        route: &'a Route,
        tried: &mut Vec<Attempt>,
    ) -> Result<Vec<Candidate<'a>>, RouteFault> {
        if route.task == TaskType::Embedding {
            return Err(RouteFault::Embedding);
        }
        let names = match &route.model {
            Some(name) if self.models.contains_key(name) => std::slice::from_ref(name),
            Some(name) => {
                let nearest = tool::nearest(name, self.models.keys().map(String::as_str)).map(str::to_owned);
                return Err(RouteFault::UnknownModel { name: name.clone(), nearest });
            }
            None => self.routes.of(route.task),
        };
        if names.is_empty() {
            return Err(RouteFault::NoRoute(route.task));
        }
        let now = self.timer.now();
        let resting = self.resting.lock();
        let mut candidates = Vec::new();
        for name in names {
            let failed = |error| Attempt { model: name.clone(), error };
            let Some(model) = self.models.get(name) else {
                tried.push(failed(AttemptError::Unknown));
                continue;
            };
            let missing = model.info().missing(&route.needs);
            if !missing.is_empty() {
                tried.push(failed(AttemptError::Lacks(missing)));
                continue;
            }
            let ready = resting.get(name).copied().unwrap_or(now);
            candidates.push(Candidate { name, model: &**model, attempts: 0, ready });
        }
        Ok(candidates)
    }

    async fn attempt(
        &self,
        candidate: &Candidate<'_>,
        route: &Route,
        request: &ChatRequest,
        sink: &mut dyn Sink,
        stop: &Stop,
        spent: &mut Amount,
    ) -> Result<(Response, Option<Usd>), AttemptError> {
        let info = candidate.model.info();
        let worst = worst_case(candidate.model, request);
        let mut hold = match &self.ledger {
            Some(ledger) => {
                let call = remaining(route.account.call, *spent);
                let reservation = ledger.lock().reserve_worst(&route.account.scopes, call, worst)?;
                Some(Hold { ledger, reservation: Some(reservation), if_dropped: Amount::default() })
            }
            None => None,
        };
        // The own reservation ends with nothing if this one is refused or dropped, since nothing is sent.
        let kept = match &self.reserve {
            Some(reserve) => Some(reserve.reserve(worst).await?),
            None => None,
        };
        if let Some(hold) = &mut hold {
            hold.if_dropped = worst.amount();
        }
        let outcome = candidate.model.chat(request, sink, stop).await;
        let usage = match &outcome {
            Ok(response) => Some(response.usage),
            Err(error) => error.usage(),
        };
        let real = usage.map(|usage| amount(info, &usage)).unwrap_or_default();
        if let Some(hold) = hold {
            hold.settle(real);
        }
        if let Some(kept) = kept {
            kept.settle(real);
        }
        spent.money = spent.money.saturating_add(real.money);
        spent.tokens = spent.tokens.saturating_add(real.tokens);
        let response = outcome?;
        let cost = info.price.map(|price| price.cost(&response.usage));
        Ok((response, cost))
    }

    /// Returns the moment of the next attempt; `None` if no clock reaches it.
    fn ready(&self, after: Option<Duration>, attempts: u32) -> Option<Instant> {
        let pause = match after {
            Some(after) => after.checked_add(self.random_below(LONGEST_ADDITION.min(after / 10)))?,
            None => {
                let doubled = 2_u32.checked_pow(attempts.saturating_sub(1)).unwrap_or(u32::MAX);
                let pause = self.rules.first_pause.saturating_mul(doubled).min(self.rules.longest_pause);
                pause / 2 + self.random_below(pause / 2)
            }
        };
        self.timer.now().checked_add(pause)
    }

    fn random_below(&self, most: Duration) -> Duration {
        let most = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos((self.random)() % most.saturating_add(1).max(1))
    }
}

fn stopped(interrupt: Interrupt) -> RouteFault {
    match interrupt {
        Interrupt::Stopped(reason) => RouteFault::Cancelled(reason),
        Interrupt::Alarm(_) => RouteFault::Failed,
    }
}

fn worst_case(model: &dyn Model, request: &ChatRequest) -> WorstCase {
    let (info, input) = (model.info(), model.most_input(request));
    let output = most_output(request, info);
    let money = output.and_then(|output| info.price.map(|price| price.most(input, output)));
    // A model that costs nothing has a known price, whatever the length.
    let is_free = info.price.is_some_and(|price| price.most(u64::MAX, u64::MAX) == Usd::ZERO);
    let money = if is_free { Some(Usd::ZERO) } else { money };
    WorstCase { money, tokens: output.map(|output| input.saturating_add(output)) }
}

fn amount(info: &ModelInfo, usage: &Usage) -> Amount {
    let money = info.price.map(|price| price.cost(usage)).unwrap_or_default();
    Amount { money, tokens: usage.tokens() }
}

/// Returns the part of a call's limit that earlier attempts have left.
fn remaining(limit: Limit, spent: Amount) -> Limit {
    Limit {
        money: limit.money.map(|money| money.saturating_sub(spent.money)),
        tokens: limit.tokens.map(|tokens| tokens.saturating_sub(spent.tokens)),
    }
}

/// Reservation that is settled in any case: with this amount if the attempt is dropped midway.
struct Hold<'a> {
    ledger: &'a Mutex<Ledger>,
    reservation: Option<Reservation>,
    if_dropped: Amount,
}

impl Hold<'_> {
    fn settle(mut self, real: Amount) {
        if let Some(reservation) = self.reservation.take() {
            self.ledger.lock().settle(reservation, real);
        }
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        if let Some(reservation) = self.reservation.take() {
            self.ledger.lock().settle(reservation, self.if_dropped);
        }
    }
}

/// Sink that knows if it got anything.
struct CountedSink<'a> {
    sink: &'a mut dyn Sink,
    has_pieces: bool,
}

impl Sink for CountedSink<'_> {
    fn take(&mut self, delta: Delta<'_>) {
        self.has_pieces = true;
        self.sink.take(delta);
    }
}
