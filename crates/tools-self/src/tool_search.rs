//! `tool_search`: a search for the tool that does something.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Catalogue, CatalogueEntry, Class, Context, Example, Lane, Level, Place, Plan, Presentation, Spec,
    TextCap, Timeout, Tool, ToolError,
};

/// The `tool_search` tool, which also finds tools that are not listed.
pub struct ToolSearch;

/// Arguments of `tool_search`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// A few words; an empty text returns all tools.
    query: String,
    /// Maximum number of tools.
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = 100))]
    limit: usize,
}

/// Result of `tool_search`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Tools that match, the best first.
    tools: Vec<FoundTool>,
    /// Number of available tools.
    total: usize,
    /// Names of all tools; only if no tool matches.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    names: Vec<String>,
}

/// A tool.
#[derive(Debug, Serialize, JsonSchema)]
struct FoundTool {
    /// Name of the tool.
    name: String,
    /// safe, moderate, destructive or critical.
    level: String,
    /// Purpose of the tool.
    summary: String,
}

const DEFAULT_LIMIT: usize = 8;
const LARGEST_LIMIT: usize = 100;
/// Maximum number of words of a query that are used: more words add no information.
const MAX_WORDS: usize = 50;

fn default_limit() -> usize {
    DEFAULT_LIMIT
}

impl Tool for ToolSearch {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        name: "tool_search",
        title: "Find a tool",
        description: "Find tools that are not listed here by their purpose, such as undo, delete or move. Then use tool_describe \
            and tool_call.",
        example: Example {
            files: &[],
            arguments: r#"{"query": "rename a file"}"#,
            result: r#"{"tools": [{"name": "file_move", "level": "moderate", "summary": "Move or rename a file or folder"}]}"#,
        },
        level: Level::Safe,
        class: Class::READ,
        timeout: Timeout::fixed(10),
        lane: Lane::Read,
        text: TextCap::ByArguments,
        presentation: Presentation::Record,
    };

    fn plan(&self, args: &Args, _place: &Place) -> Result<Plan, ToolError> {
        if args.limit == 0 || args.limit > LARGEST_LIMIT {
            let problem = format!("{} is not between 1 and {LARGEST_LIMIT}", args.limit);
            return Err(ToolError::validation("limit", problem));
        }
        Ok(Plan::of(vec![]))
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let entries = context.service::<Catalogue>()?.entries();
        let found = search(&entries, &args.query);
        let names = if found.is_empty() {
            entries.iter().map(|entry| entry.name.clone()).collect()
        } else {
            Vec::new()
        };
        let tools = found.into_iter().take(args.limit).map(shown).collect();
        Ok(Output { tools, total: entries.len(), names })
    }
}

fn shown(entry: &CatalogueEntry) -> FoundTool {
    let first = entry.description.split_once(". ").map_or(&*entry.description, |(first, _)| first);
    FoundTool {
        name: entry.name.clone(),
        level: entry.level.to_string(),
        summary: first.trim_end_matches('.').to_owned(),
    }
}

/// Tools through which others are found and called.
const FINDERS: [&str; 3] = ["tool_search", "tool_describe", "tool_call"];

/// Returns the tools that match, the best first. Among equal matches the first in listing order
/// wins.
fn search<'a>(entries: &'a [CatalogueEntry], query: &str) -> Vec<&'a CatalogueEntry> {
    let asked = words(query);
    if asked.is_empty() {
        return entries.iter().collect();
    }
    let texts: Vec<Texts> = entries.iter().map(Texts::of).collect();
    let mut scores = vec![0; entries.len()];
    for word in asked.iter().take(MAX_WORDS) {
        let fits: Vec<u64> = texts.iter().map(|texts| texts.fit(word)).collect();
        let told_by = fits.iter().filter(|fit| **fit > 0).count().max(1);
        // A word that many tools contain distinguishes little between them.
        let weight = (entries.len() / told_by) as u64 + 1;
        scores.iter_mut().zip(fits).for_each(|(score, fit)| *score += fit * weight);
    }
    let mut ranked: Vec<(u64, &CatalogueEntry)> = scores.into_iter().zip(entries).collect();
    ranked.retain(|(score, _)| *score > 0);
    // A caller of the search already has the finding tools, so they rank last unless the query
    // names one.
    let is_finder = |entry: &CatalogueEntry| {
        FINDERS.contains(&entry.name.as_str()) && !entry.name.eq_ignore_ascii_case(query.trim())
    };
    ranked.sort_by_key(|(score, entry)| (is_finder(entry), std::cmp::Reverse(*score)));
    ranked.into_iter().map(|(_, entry)| entry).collect()
}

/// The words of a tool's texts, by their weight.
struct Texts([(u64, BTreeSet<String>); 3]);

impl Texts {
    fn of(entry: &CatalogueEntry) -> Self {
        let fields = entry.input_schema["properties"].as_object().into_iter().flatten();
        let fields = fields.flat_map(|(name, field)| {
            let text = field["description"].as_str().unwrap_or_default();
            words(name).into_iter().chain(words(text))
        });
        let names = words(&entry.name).into_iter().chain(words(&entry.title)).collect();
        Self([(8, names), (4, words(&entry.description)), (1, fields.collect())])
    }

    fn fit(&self, asked: &str) -> u64 {
        let fit = |(weight, words): &(u64, BTreeSet<String>)| {
            let best = words.iter().map(|word| likeness(word, asked)).max().unwrap_or_default();
            weight * best
        };
        self.0.iter().map(fit).max().unwrap_or_default()
    }
}

/// Returns 2 for equal words, 1 for another form of the same word, else 0.
fn likeness(word: &str, asked: &str) -> u64 {
    if word == asked {
        return 2;
    }
    let shared = word.chars().zip(asked.chars()).take_while(|(one, two)| one == two).count();
    let rest = word.chars().count().max(asked.chars().count()) - shared;
    u64::from(shared >= 4 && rest <= 3)
}

/// Returns the words of a text, without stop words.
fn words(text: &str) -> BTreeSet<String> {
    const SAY_NOTHING: [&str; 16] =
        ["a", "an", "the", "of", "to", "in", "on", "at", "it", "is", "and", "or", "for", "with", "how", "i"];
    text.split(|character: char| !character.is_alphanumeric())
        .map(str::to_lowercase)
        .filter(|word| !word.is_empty() && !SAY_NOTHING.contains(&word.as_str()))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use serde_json::{Value, json};
    use testkit::{Workspace, run_tool};
    use tool::{Code, ErasedTool};

    use super::*;

    fn entry(name: &str, description: &str) -> CatalogueEntry {
        CatalogueEntry {
            name: name.to_owned(),
            title: String::new(),
            kind: "built_in",
            description: description.to_owned(),
            level: Level::Safe,
            status: "ready".to_owned(),
            created_at: Timestamp::UNIX_EPOCH,
            input_schema: json!({"properties": {"path": {"description": "Relative, or absolute."}}}),
            example: String::new(),
        }
    }

    fn entries() -> Vec<CatalogueEntry> {
        vec![
            entry("file_read", "Read a file."),
            entry("file_delete", "Delete a file, a link or a folder."),
            entry("file_move", "Move or rename a file or folder."),
            entry("checkpoint_restore", "Undoes what a call changed. Can itself be undone."),
            entry("tool_search", "Finds tools by what they do, such as undo, delete or move."),
        ]
    }

    fn best(query: &str) -> Option<String> {
        search(&entries(), query).first().map(|entry| entry.name.clone())
    }

    #[test]
    fn a_tool_is_found_by_its_name_by_what_it_does_and_in_other_forms_of_the_words() {
        for (query, tool) in [
            ("file_move", "file_move"),
            ("how to rename a file", "file_move"),
            ("RENAMING", "file_move"),
            ("deleting folders", "file_delete"),
            ("undo", "checkpoint_restore"),
            ("read", "file_read"),
        ] {
            assert_eq!(best(query).as_deref(), Some(tool), "{query}");
        }
        assert_eq!(best("photosynthesis"), None);
        assert_eq!(search(&entries(), " ?! ").len(), 5, "no words are all tools");
        // The queried tool ranks others first, and itself only if its name is the query.
        assert_eq!(best("find a tool that deletes").as_deref(), Some("file_delete"));
        assert_eq!(best("tool_search").as_deref(), Some("tool_search"));
    }

    #[test]
    fn where_nothing_fits_all_names_are_given_and_a_limit_out_of_range_is_refused() {
        let workspace = Workspace::new().with_service(Arc::new(Catalogue::new(entries)));
        let search =
            |arguments: Value| run_tool(ErasedTool::tool(ToolSearch).as_ref(), &workspace, arguments);
        let nothing = search(json!({"query": "photosynthesis"})).unwrap();
        assert_eq!(
            (nothing["tools"].clone(), nothing["names"][3].clone()),
            (json!([]), json!("checkpoint_restore"))
        );
        let some = search(json!({"query": "file", "limit": 2})).unwrap();
        assert_eq!((some["tools"].as_array().unwrap().len(), some["total"].clone()), (2, json!(5)));
        assert!(some.get("names").is_none());
        for limit in [0, LARGEST_LIMIT + 1] {
            let error = search(json!({"query": "x", "limit": limit})).unwrap_err();
            assert_eq!(error.code, Code::Validation);
            assert!(error.message.contains("`limit`"), "{}", error.message);
        }
    }
}
