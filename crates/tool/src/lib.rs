//! The vocabulary of Handfast: tools, their planned effects, and their results.
//!
//! Every tool family, the policy, the engine and the doors use these types. The crate does no input
//! or output, reads no clock and no environment, and depends on no async runtime.
//!
//! A tool is a type that implements [`Tool`]. A tool never asks for permission, audits, enforces
//! its own timeout, redacts or truncates: the layers of the engine do so around it.

mod arguments;
mod box_future;
mod caller_model;
mod checkpoints;
mod context;
mod credential;
mod data;
mod described;
mod dynamic;
mod edits;
mod effect;
mod error;
mod foreign_content;
mod front_matter;
mod id;
mod inner_calls;
mod json_size;
mod level;
mod nearest;
mod notes;
mod place;
mod plan;
mod plan_context;
mod resources;
mod result;
mod run_result;
mod schema;
mod spec;
mod stop;
mod threads;
mod tool;
mod visible;

pub use arguments::spell;
pub use box_future::BoxFuture;
pub use caller_model::{CallerForms, CallerModel, OfferedForms, OfferedModel, SampleError};
pub use checkpoints::{CheckpointSummary, Checkpoints, UndoReport, UndoRequest};
pub use context::{
    Catalogue, CatalogueEntry, Clock, Context, CoveredStream, ForeseenCall, Hosts, LaterCalls,
    MissingPrograms, NoProgress, Outputs, Progress, Redaction, Services, Timer,
};
pub use credential::is_credential_name;
pub use data::{Data, RawJson};
pub use described::described;
pub use dynamic::{DynamicTool, dynamic_tool, static_name};
pub use edits::{CodeCaller, CodeCallers, EditedFile, EditedLines, EditedSymbol};
pub use effect::{Access, CommandLine, DecidedEffects, Effect, PageAccess, path_text};
pub use error::{Code, EffectState, Retry, ToolError};
pub use foreign_content::{
    ContentChange, ContentListener, FOREIGN_PROMPT_TOOL, FOREIGN_RESOURCE_TOOL, ForeignArgument,
    ForeignContent, ForeignPrompt, ForeignResource, foreign_uri, split_foreign_uri,
};
pub use front_matter::split_front_matter;
pub use id::{CallId, SessionId, names_id, short_ids};
pub use inner_calls::InnerCalls;
pub use json_size::{MAX_JSON_VALUES, holds_too_many_values};
pub use level::Level;
pub use nearest::{MISSPELT, distance, nearest};
pub use notes::NoteTools;
pub use place::Place;
pub use plan::{NetworkLimit, Plan};
pub use plan_context::PlanContext;
pub use resources::{Owner, Resource, ResourcePool, ResourceUsage};
pub use result::{ByteReservation, CallResult, Changes, ChangesState, KeptOutput, Meta, Outcome};
pub use run_result::{ChangeTreatment, FullOutput, RunResult, SnapshotUse, ToolOutput};
pub use schema::{name_every_type, schema_of_input, schema_of_output, subset_violations};
pub use spec::{Class, Example, Lane, Presentation, Spec, TextCap, Timeout};
pub use stop::{Stop, StopReason};
pub use threads::Threads;
pub use tool::{AnyTool, ErasedTool, PreparedCall, QuestionPicture, ShapeFacts, Tool};
pub use visible::{beginning, is_invisible, visible, visible_lines, visible_source};
