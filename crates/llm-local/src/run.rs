//! Loop of an answer, token by token, for any model that scores tokens.

use std::collections::VecDeque;

use llm::Finish;
use tool::StopReason;

use crate::answer::{Answer, Piece};
use crate::guide::{Place, Rules};
use crate::sample::{Dice, pick};
use crate::tokens::Vocabulary;

/// Model that scores the tokens to come.
pub(crate) trait Predictor {
    /// Reads further tokens, and returns the score of every token to come next. `stopped` is asked now and
    /// then.
    fn read(
        &mut self,
        tokens: &[u32],
        stopped: &dyn Fn() -> Option<StopReason>,
    ) -> Result<&[f32], StopReason>;
}

/// Order of an answer.
pub(crate) struct Order<'a> {
    /// Tokens of the request, at least one.
    pub(crate) prompt: Vec<u32>,
    pub(crate) rules: Rules,
    /// Maximum number of tokens of the answer.
    pub(crate) most: usize,
    /// Maximum number of tokens of request and answer.
    pub(crate) context: usize,
    /// Randomness; none at 0.
    pub(crate) temperature: f64,
    pub(crate) seed: u64,
    pub(crate) stops: &'a [String],
}

/// Answer that is over.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) text: String,
    /// Name and arguments of the call.
    pub(crate) call: Option<(String, String)>,
    pub(crate) finish: Finish,
    /// Number of tokens that the model wrote, with the one that ends the answer.
    pub(crate) tokens: usize,
}

/// Reason why there is no answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RunError {
    /// The request leaves no room in the context for the shortest answer, of so many tokens.
    ContextTooLong(usize),
    /// The shortest answer needs more tokens than the request allows.
    TooFewTokens(usize),
    /// Somebody stopped it, after so many tokens.
    Stopped(StopReason, usize),
    /// The model returned no usable scores, after so many tokens.
    NoScores(usize),
}

/// Writes an answer, and hands on its pieces.
pub(crate) fn run(
    predictor: &mut dyn Predictor,
    vocabulary: &Vocabulary,
    order: &Order<'_>,
    emit: &mut dyn FnMut(Piece),
    stopped: &dyn Fn() -> Option<StopReason>,
) -> Result<Outcome, RunError> {
    let rules = &order.rules;
    let room = order.context.saturating_sub(order.prompt.len());
    let most = order.most.min(room);
    let mut place = rules.start();
    let shortest =
        tokens_of(vocabulary, &rules.completion(&place)).map_or(usize::MAX, |tokens| tokens.len()).max(1);
    if shortest > room {
        return Err(RunError::ContextTooLong(shortest));
    }
    if shortest > most {
        return Err(RunError::TooFewTokens(shortest));
    }
    let mut answer = Answer::new(emit, order.stops, rules.call.is_some(), rules.format.is_some());
    let mut dice = Dice::new(order.seed);
    let mut forced = VecDeque::new();
    let mut unread = order.prompt.clone();
    let mut written = 0;
    let finish = loop {
        if let Some(reason) = stopped() {
            return Err(RunError::Stopped(reason, written));
        }
        if written == most {
            break if most < order.most { Finish::ContextFull } else { Finish::MaxTokens };
        }
        let token = match forced.pop_front() {
            Some(token) => token,
            None => {
                let logits =
                    predictor.read(&unread, stopped).map_err(|reason| RunError::Stopped(reason, written))?;
                unread.clear();
                let left = most - written - 1;
                let mut bytes_seen = [None; 256];
                let accepts = |token| is_accepted(vocabulary, rules, &place, left, &mut bytes_seen, token);
                match pick(logits, order.temperature, &mut dice, accepts) {
                    Some(token) => token,
                    None => {
                        // INVARIANT: the completion fits into what is left, for every accepted token left
                        // room for it.
                        forced = tokens_of(vocabulary, &rules.completion(&place)).unwrap_or_default().into();
                        forced.pop_front().ok_or(RunError::NoScores(written))?
                    }
                }
            }
        };
        written += 1;
        unread.push(token);
        if vocabulary.is_end(token) {
            break Finish::Complete;
        }
        let mut is_cut = false;
        for byte in vocabulary.bytes(token) {
            let Some((next, role)) = rules.step(&place, *byte) else { break };
            place = next;
            if answer.add(*byte, role) {
                is_cut = true;
                break;
            }
        }
        if is_cut || answer.settle() {
            break Finish::StopText;
        }
        if matches!(place, Place::Over) {
            break if answer.has_call() { Finish::ToolCalls } else { Finish::Complete };
        }
    };
    let is_whole = finish == Finish::ToolCalls;
    answer.finish(is_whole);
    let call =
        answer.name.take().filter(|_| is_whole).map(|name| (name, std::mem::take(&mut answer.arguments)));
    Ok(Outcome { text: std::mem::take(&mut answer.text), call, finish, tokens: written })
}

/// Returns the tokens of a completion.
fn tokens_of(vocabulary: &Vocabulary, completion: &[u8]) -> Option<Vec<u32>> {
    vocabulary.encode_bytes(completion)
}

/// Returns true if the token may come next, and the answer can then become whole within `left` tokens.
/// `bytes_seen` has what is known of tokens by their first byte.
fn is_accepted(
    vocabulary: &Vocabulary,
    rules: &Rules,
    place: &Place,
    left: usize,
    bytes_seen: &mut [Option<bool>; 256],
    token: u32,
) -> bool {
    if vocabulary.is_end(token) {
        return rules.may_end(place);
    }
    let bytes = vocabulary.bytes(token);
    let Some(first) = bytes.first() else { return false };
    let Some(seen) = bytes_seen.get_mut(usize::from(*first)) else { return false };
    if !*seen.get_or_insert_with(|| rules.step(place, *first).is_some()) {
        return false;
    }
    let Some(next) = rules.walk(place, bytes) else { return false };
    let completion = rules.completion(&next);
    // At worst each byte is a token, which is quicker to see than the tokens.
    vocabulary.has_all(&completion) && completion.len() <= left
        || tokens_of(vocabulary, &completion).is_some_and(|tokens| tokens.len() <= left)
}
