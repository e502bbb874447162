//! Vectors of texts for `llm_call`, from the model with which knowledge and memory search by meaning.

use tool::{Code, Context, StopReason, ToolError};

use crate::models::{Embeddings, Models};

/// Bytes of usual text in one token, for a model that does not tell its tokens.
const USUAL_BYTES: usize = 3;

/// Vector of a text.
pub(crate) struct MadeVector {
    /// JSON array of numbers.
    pub(crate) json: String,
    /// Name of the model.
    pub(crate) model: String,
    /// Tokens of the text.
    pub(crate) tokens: u64,
    /// Cost in US dollars; `None` if it is unknown.
    pub(crate) cost: Option<f64>,
    /// True if the model read only the beginning.
    pub(crate) is_cut: bool,
}

/// Returns the model that makes vectors.
pub(crate) fn model(models: &Models) -> Result<&Embeddings, ToolError> {
    models.embeddings().ok_or_else(|| {
        ToolError::new(Code::Unavailable, "no model that makes vectors is set up").hint(
            "the user runs `handfast setup embeddings`, or names a server under `embeddings`: docs/KNOWLEDGE.md",
        )
    })
}

/// Returns the vector of a text. The model works on the thread of the call.
pub(crate) fn embed(
    context: &Context,
    models: &Models,
    text: &str,
    named: Option<&str>,
) -> Result<MadeVector, ToolError> {
    let Embeddings { opens, is_local } = model(models)?;
    if !is_local && models.limit_money() {
        let message =
            "the price of the server that makes vectors is unknown, and a budget of `models` limits money";
        return Err(ToolError::new(Code::Quota, message)
            .hint("the user sets up the local model, which costs nothing: docs/KNOWLEDGE.md"));
    }
    let opened = opens().map_err(|reason| {
        let message = format!("the model that makes vectors cannot be opened: {reason}");
        ToolError::new(Code::Unavailable, message)
    })?;
    let name = &opened.model().name;
    if named.is_some_and(|named| named != name) {
        return Err(ToolError::validation("model", format!("makes no vectors; {name} makes them"))
            .hint("leave `model` out"));
    }
    let stop = || context.stop.requested();
    let made = opened.embed(&[text], &|| stop().is_some());
    let failed = |reason: String| match stop() {
        Some(StopReason::Cancelled) => ToolError::new(Code::Cancelled, "the vector was not finished"),
        Some(_) => ToolError::new(Code::Timeout, "the vector was not finished in time"),
        None => ToolError::new(Code::Runtime, format!("{name} made no vector: {reason}")),
    };
    let vector = made.map_err(|failure| failed(failure.to_string()))?.pop();
    let vector = vector.ok_or_else(|| failed("its answer is empty".to_owned()))?;
    let response = serde_json::to_string(&vector)
        .map_err(|error| ToolError::internal("a vector is no JSON").because(error))?;
    let extent = opened.extent(text);
    if extent.is_cut {
        context.warn(format!(
            "the text is longer than {name} reads, so the vector is that of its beginning: split the text, and call once for each part"
        ));
    }
    let tokens = extent.tokens.unwrap_or_else(|| {
        context.warn(format!("{name} does not tell its tokens: `tokens_used.input` is an estimate"));
        text.len().div_ceil(USUAL_BYTES)
    });
    Ok(MadeVector {
        json: response,
        model: name.clone(),
        tokens: tokens as u64,
        cost: is_local.then_some(0.0),
        is_cut: extent.is_cut,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use llm::{Limit, Routes, Usd};
    use retrieval::embedder::{Embedder, Failure, Model, TextExtent};
    use serde_json::{Value, json};
    use tool::{Effect, ErasedTool};

    use super::*;
    use crate::tests::{runtime, workspace};
    use memory::OpenModel;

    use crate::{LlmCall, ModelLimits};

    /// A model that counts words, and reads three of them.
    struct Words {
        model: Model,
        counts: bool,
    }

    impl Embedder for Words {
        fn model(&self) -> &Model {
            &self.model
        }

        fn embed(&self, texts: &[&str], stop: &dyn Fn() -> bool) -> Result<Vec<Vec<f32>>, Failure> {
            if stop() {
                return Err(Failure::Stopped);
            }
            match texts {
                ["broken"] => Err(Failure::Failed("a lamp is out".to_owned())),
                _ => Ok(texts.iter().map(|_| vec![0.6, -0.8]).collect()),
            }
        }

        fn extent(&self, text: &str) -> TextExtent {
            let words = text.split_whitespace().count();
            TextExtent { tokens: self.counts.then_some(words.min(3)), is_cut: words > 3 }
        }
    }

    fn models(is_local: bool, limits: ModelLimits) -> Arc<Models> {
        let opens: OpenModel = Arc::new(move || {
            let model = Model { name: "words".to_owned(), hash: [1; 32], dimensions: 2 };
            Ok(Arc::new(Words { model, counts: is_local }) as Arc<dyn Embedder>)
        });
        let models = Models::new(std::collections::BTreeMap::new(), Routes::default(), limits).unwrap();
        Arc::new(models.with_embeddings(Some(Embeddings { opens, is_local })))
    }

    /// Asks for a vector, and returns the answer with the warnings.
    fn ask(models: &Arc<Models>, more: &Value) -> (Result<Value, ToolError>, String) {
        let folder = tempfile::tempdir().unwrap();
        let workspace = workspace(runtime(folder.path()));
        let context = workspace.context();
        let mut arguments = json!({"task_type": "embedding"});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = testkit::run_in(ErasedTool::tool(LlmCall(models.clone())).as_ref(), &context, arguments);
        (answer, context.take_warnings().join("; "))
    }

    #[test]
    fn a_text_has_a_vector_without_any_provider_and_costs_nothing_on_this_machine() {
        let local = models(true, ModelLimits::default());
        let (answer, warnings) = ask(&local, &json!({"prompt": "ships and boats", "model": "words"}));
        let expected = json!({"response": "[0.6,-0.8]", "model_used": "words", "cost_estimate": 0.0,
            "tokens_used": {"input": 3, "output": 0}, "truncated": false});
        assert_eq!((answer.unwrap(), warnings.as_str()), (expected, ""));
        let (answer, warnings) = ask(&local, &json!({"prompt": "one two three four", "temperature": 0.5}));
        assert_eq!(answer.unwrap()["truncated"], true);
        assert!(
            warnings.contains("longer than words reads") && warnings.contains("`temperature`"),
            "{warnings}"
        );
        // A server does not tell its tokens, and has no known price.
        let (answer, warnings) = ask(&models(false, ModelLimits::default()), &json!({"prompt": "ships"}));
        let answer = answer.unwrap();
        assert_eq!((&answer["tokens_used"]["input"], answer.get("cost_estimate")), (&json!(2), None));
        assert!(warnings.contains("`tokens_used.input` is an estimate"), "{warnings}");
    }

    #[test]
    fn what_has_no_vector_says_why() {
        let local = models(true, ModelLimits::default());
        let messages = json!([{"role": "user", "content": "ships"}]);
        let dear = ModelLimits { call: Limit { money: Usd::parse("1"), tokens: None }, ..Default::default() };
        let closed: OpenModel = Arc::new(|| Err("its file is damaged".to_owned()));
        let closed = Some(Embeddings { opens: closed, is_local: true });
        for (models, arguments, code, told) in [
            (&local, json!({"prompt": messages}), Code::Validation, "array of messages"),
            (&local, json!({"prompt": " "}), Code::Validation, "no text"),
            (&local, json!({"prompt": "a", "model": "local/small"}), Code::Validation, "words makes them"),
            (&local, json!({"prompt": "broken"}), Code::Runtime, "a lamp is out"),
            (&Arc::default(), json!({"prompt": "a"}), Code::Unavailable, "no model that makes vectors"),
            (&models(false, dear), json!({"prompt": "a"}), Code::Quota, "the price"),
            (
                &Arc::new(Models::default().with_embeddings(closed)),
                json!({"prompt": "a"}),
                Code::Unavailable,
                "damaged",
            ),
        ] {
            let error = ask(models, &arguments).0.unwrap_err();
            assert_eq!(error.code, code, "{arguments}: {}", error.message);
            assert!(error.message.contains(told), "{arguments}: {}", error.message);
        }
        // A budget in money does not keep from the local model, which costs nothing.
        assert!(ask(&models(true, dear), &json!({"prompt": "a"})).0.is_ok());
        let none = ask(&Arc::default(), &json!({"prompt": "a"})).0.unwrap_err();
        assert!(none.hint.unwrap().contains("handfast setup embeddings"));
    }

    #[test]
    fn a_vector_needs_no_host() {
        let tool = LlmCall(models(true, ModelLimits::default()));
        let args = serde_json::from_value(json!({"prompt": "a", "task_type": "embedding"})).unwrap();
        let plan = tool::Tool::plan(&tool, &args, &tool::Place::at("/w".into())).unwrap();
        assert_eq!(plan.effects, Vec::<Effect>::new());
    }
}
