//! Lists of the resources and prompts of servers: bounded before they are stored, and made into the form in which
//! clients see them.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use mcp_client::cache::{CachedServer, ListingCache};
use mcp_client::definition::{DefinitionHash, ToolDefinition};
use mcp_client::names::{ForeignName, offered_names};
use mcp_client::text::{Invisible, clean, clean_line};
use mcp_client::{Client, ClientError, Listing, PromptEntry, ResourceEntry, TemplateEntry};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::to_raw_value;
use tool::{ForeignArgument, ForeignPrompt, ForeignResource, Timer, foreign_uri};

use crate::LONGEST_NAME;
use crate::listings::AllPins;
use crate::settings::ServerSettings;

/// Time for all lists of resources and prompts of a server. A call of one of its tools may wait for it.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum number of resources, of templates and of prompts of a server.
const MOST_ENTRIES: usize = 1_000;
/// Maximum length of a URI or a template, in bytes.
const LONGEST_URI: usize = 2_048;
/// Maximum length of a name, in bytes.
const LONGEST_OWN_NAME: usize = 256;
/// Maximum length of a description, in bytes.
const LONGEST_DESCRIPTION: usize = 1_024;
/// Maximum length of a media type, in bytes.
const LONGEST_TYPE: usize = 128;
/// Maximum number of arguments of a prompt.
const MOST_ARGUMENTS: usize = 32;
/// Maximum number of faults that are stored.
const MOST_FAULTS: usize = 20;

/// Lists of a server, bounded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ContentLists {
    pub(crate) resources: Vec<ResourceEntry>,
    pub(crate) templates: Vec<TemplateEntry>,
    pub(crate) prompts: Vec<PromptEntry>,
    /// Reasons why entries or whole lists are missing, in sentences.
    pub(crate) faults: Vec<String>,
}

impl ContentLists {
    /// Reads the lists of a server. A list that cannot be read is empty, and its reason is a fault: the tools of the
    /// server do not depend on it.
    pub(crate) async fn read(client: &Client, timer: &dyn Timer) -> Self {
        let offers = client.facts().offers;
        let mut lists = Self::default();
        let reading = async {
            if offers.resources {
                let resources = lists.taken("resources", client.list_resources().await);
                let (resources, faults) = bounded(resources, "resource", bounded_resource);
                lists.resources = resources;
                lists.faults.extend(faults);
                // Many servers with resources know no templates, and refuse the method.
                let templates = match client.list_templates().await {
                    Err(ClientError::Refused { .. }) => Vec::new(),
                    listed => lists.taken("templates", listed),
                };
                let (templates, faults) = bounded(templates, "template", bounded_template);
                lists.templates = templates;
                lists.faults.extend(faults);
            }
            if offers.prompts {
                let prompts = lists.taken("prompts", client.list_prompts().await);
                let (prompts, faults) = bounded(prompts, "prompt", bounded_prompt);
                lists.prompts = prompts;
                lists.faults.extend(faults);
            }
        };
        let is_late = tokio::select! {
            biased;
            () = reading => false,
            () = timer.sleep(PATIENCE) => true,
        };
        if is_late {
            lists.faults.push(format!(
                "the server did not list its resources and prompts within {} s",
                PATIENCE.as_secs()
            ));
        }
        lists.faults.truncate(MOST_FAULTS);
        lists
    }

    /// Returns the stored lists of a server.
    pub(crate) fn of(cached: &CachedServer) -> Self {
        Self {
            resources: cached.resources.clone(),
            templates: cached.templates.clone(),
            prompts: cached.prompts.clone(),
            faults: cached.content_faults.clone(),
        }
    }

    /// Returns the entries of a list, and keeps its faults.
    fn taken<T>(&mut self, what: &str, listed: Result<Listing<T>, ClientError>) -> Vec<T> {
        match listed {
            Ok(listing) => {
                self.faults.extend(listing.faults);
                listing.entries
            }
            Err(error) => {
                self.faults.push(format!("its {what} cannot be listed: {error}"));
                Vec::new()
            }
        }
    }

    /// Returns the definitions of the prompts, in the form in which definitions are pinned.
    pub(crate) fn prompt_definitions(&self) -> Vec<ToolDefinition> {
        self.prompts.iter().filter_map(prompt_definition).collect()
    }
}

/// Returns the usable entries, and a sentence for each other one.
fn bounded<T>(
    entries: Vec<T>,
    what: &str,
    bound: impl Fn(T) -> Result<T, (String, &'static str)>,
) -> (Vec<T>, Vec<String>) {
    let left_out = entries.len().saturating_sub(MOST_ENTRIES);
    let (mut usable, mut faults) = (Vec::new(), Vec::new());
    for entry in entries.into_iter().take(MOST_ENTRIES) {
        match bound(entry) {
            Ok(entry) => usable.push(entry),
            Err((name, reason)) => {
                faults.push(format!("the {what} {:?} is left out: {reason}", clean_line(&name, 128)));
            }
        }
    }
    if left_out > 0 {
        faults.push(format!("{left_out} entries are left out: a server has at most {MOST_ENTRIES} {what}s"));
    }
    (usable, faults)
}

/// Returns true if a reader sees the whole text, and it has at most `longest` bytes and no white space.
fn is_plain_uri(uri: &str) -> bool {
    uri.len() <= LONGEST_URI
        && !uri.contains(char::is_whitespace)
        && clean(uri, LONGEST_URI, Invisible::Remove).text == uri
}

/// Reason for a URI that cannot be shown.
const BAD_URI: &str = "its URI is too long, or has characters that a reader cannot see";

fn described(description: Option<&str>) -> Option<String> {
    let text = clean(description?, LONGEST_DESCRIPTION, Invisible::Remove).text;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn media_type(mime_type: Option<&str>) -> Option<String> {
    Some(clean_line(mime_type?, LONGEST_TYPE)).filter(|kind| !kind.is_empty())
}

fn bounded_resource(entry: ResourceEntry) -> Result<ResourceEntry, (String, &'static str)> {
    if !is_plain_uri(&entry.uri) {
        return Err((entry.uri, BAD_URI));
    }
    Ok(ResourceEntry {
        name: clean_line(&entry.name, LONGEST_OWN_NAME),
        description: described(entry.description.as_deref()),
        mime_type: media_type(entry.mime_type.as_deref()),
        ..entry
    })
}

fn bounded_template(entry: TemplateEntry) -> Result<TemplateEntry, (String, &'static str)> {
    if !is_plain_uri(&entry.uri_template) {
        return Err((entry.uri_template, BAD_URI));
    }
    Ok(TemplateEntry {
        name: clean_line(&entry.name, LONGEST_OWN_NAME),
        description: described(entry.description.as_deref()),
        mime_type: media_type(entry.mime_type.as_deref()),
        ..entry
    })
}

/// Returns a prompt as it is stored and pinned. Names stay as they are, because the server is asked by them.
fn bounded_prompt(entry: PromptEntry) -> Result<PromptEntry, (String, &'static str)> {
    let is_plain = |name: &str| clean_line(name, LONGEST_OWN_NAME) == name;
    if !is_plain(&entry.name) {
        return Err((entry.name, "its name is too long, or has characters that a reader cannot see"));
    }
    if entry.arguments.len() > MOST_ARGUMENTS
        || entry.arguments.iter().any(|argument| argument.name.is_empty() || !is_plain(&argument.name))
    {
        return Err((entry.name, "it has too many arguments, or one whose name cannot be shown"));
    }
    let mut entry = PromptEntry { description: described(entry.description.as_deref()), ..entry };
    for argument in &mut entry.arguments {
        argument.description = described(argument.description.as_deref());
    }
    Ok(entry)
}

/// Returns the definition of a prompt in the form of a tool's, so that it is pinned and compared in the same way.
pub(crate) fn prompt_definition(prompt: &PromptEntry) -> Option<ToolDefinition> {
    let arguments = json!({"arguments": prompt.arguments});
    Some(ToolDefinition {
        name: prompt.name.clone(),
        title: None,
        description: prompt.description.clone(),
        input_schema: to_raw_value(&arguments).ok()?,
        output_schema: None,
        annotations: mcp_client::level::Annotations::default(),
    })
}

/// Returns the key of the pins of a server's prompts. No server has this key, because keys have no space.
pub(crate) fn prompt_pins(server: &str) -> String {
    format!("{server} prompts")
}

/// Prompt of a server, by the name that clients use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PromptSource {
    pub(crate) server: String,
    /// Name at the server.
    pub(crate) prompt: String,
    pub(crate) hash: DefinitionHash,
    /// True if the definition differs from the pinned one.
    pub(crate) has_changed: bool,
}

/// Resources and prompts that clients can list.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PublishedContent {
    pub(crate) resources: Vec<ForeignResource>,
    pub(crate) templates: Vec<ForeignResource>,
    pub(crate) prompts: Vec<ForeignPrompt>,
    /// Prompts by their names here.
    pub(crate) sources: HashMap<String, PromptSource>,
}

impl PublishedContent {
    /// Makes the lists of clients from the stored ones.
    pub(crate) fn of(servers: &[ServerSettings], lists: &ListingCache, pins: &AllPins) -> Self {
        let mut content = Self::default();
        let mut prompts = Vec::new();
        for settings in servers {
            let Some(cached) = lists.server(&settings.key, &settings.identity) else { continue };
            let server = settings.key.as_str();
            content.resources.extend(cached.resources.iter().map(|entry| ForeignResource {
                uri: foreign_uri(server, &entry.uri),
                name: named(&entry.name, &entry.uri),
                description: labelled(server, entry.description.as_deref()),
                mime_type: entry.mime_type.clone(),
                size: entry.size,
            }));
            content.templates.extend(cached.templates.iter().map(|entry| ForeignResource {
                uri: foreign_uri(server, &entry.uri_template),
                name: named(&entry.name, &entry.uri_template),
                description: labelled(server, entry.description.as_deref()),
                mime_type: entry.mime_type.clone(),
                size: None,
            }));
            prompts.extend(cached.prompts.iter().map(|prompt| (server, prompt)));
        }
        let foreign: Vec<ForeignName> = prompts
            .iter()
            .map(|(server, prompt)| ForeignName { server: (*server).to_owned(), tool: prompt.name.clone() })
            .collect();
        let names = offered_names(&foreign, &BTreeSet::new(), LONGEST_NAME);
        for ((server, prompt), name) in prompts.into_iter().zip(names) {
            let Some(hash) = prompt_definition(prompt).map(|definition| definition.hash()) else { continue };
            let has_changed = pins.hash_of(&prompt_pins(server), &prompt.name) != Some(&hash);
            let source =
                PromptSource { server: server.to_owned(), prompt: prompt.name.clone(), hash, has_changed };
            content.sources.insert(name.clone(), source);
            let arguments = prompt.arguments.iter().map(|argument| ForeignArgument {
                name: argument.name.clone(),
                description: argument.description.clone().unwrap_or_default(),
                is_required: argument.required,
            });
            content.prompts.push(ForeignPrompt {
                name,
                description: labelled(server, prompt.description.as_deref()),
                arguments: arguments.collect(),
            });
        }
        content
    }
}

fn named(name: &str, uri: &str) -> String {
    if name.is_empty() { clean_line(uri, LONGEST_OWN_NAME) } else { name.to_owned() }
}

/// Returns a description with the label that says whose words it has.
fn labelled(server: &str, description: Option<&str>) -> String {
    format!("[MCP server {server}; a stranger's words] {}", description.unwrap_or_default())
        .trim_end()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(uri: &str) -> ResourceEntry {
        ResourceEntry {
            uri: uri.to_owned(),
            name: "a\u{202e}\nb".to_owned(),
            description: Some(format!("Read me.\u{200b} {}", "x".repeat(5_000))),
            mime_type: Some("text/plain\n".to_owned()),
            size: Some(7),
        }
    }

    #[test]
    fn entries_are_cleaned_and_hostile_ones_are_left_out_with_their_reason() {
        let uris = ["file:///a", "x:\u{202e}y", "a b", "x:\u{7}", "handfast://file/etc/passwd"];
        let long = format!("x:{}", "y".repeat(LONGEST_URI));
        let entries = uris.into_iter().chain([long.as_str()]).map(resource).collect();
        let (usable, faults) = bounded(entries, "resource", bounded_resource);
        let found: Vec<_> = usable.iter().map(|entry| entry.uri.as_str()).collect();
        assert_eq!(found, ["file:///a", "handfast://file/etc/passwd"]);
        assert_eq!((usable[0].name.as_str(), usable[0].mime_type.as_deref()), ("a b", Some("text/plain")));
        assert!(usable[0].description.as_ref().unwrap().len() <= LONGEST_DESCRIPTION);
        assert!(!usable[0].description.as_ref().unwrap().contains('\u{200b}'));
        assert_eq!(faults.len(), 4, "{faults:?}");
        assert!(faults.iter().all(|fault| !fault.contains('\u{202e}') && fault.len() < 300), "{faults:?}");
    }

    #[test]
    fn more_entries_than_the_bound_are_told() {
        let entries = (0..MOST_ENTRIES + 3).map(|number| resource(&format!("x:{number}"))).collect();
        let (usable, faults) = bounded(entries, "resource", bounded_resource);
        assert_eq!(usable.len(), MOST_ENTRIES);
        assert_eq!(faults, ["3 entries are left out: a server has at most 1000 resources"]);
    }

    #[test]
    fn a_prompt_that_nobody_could_read_is_left_out() {
        let prompt = |name: &str, argument: &str| PromptEntry {
            name: name.to_owned(),
            description: None,
            arguments: vec![mcp_client::PromptArgument {
                name: argument.to_owned(),
                description: None,
                required: true,
            }],
        };
        assert!(bounded_prompt(prompt("review", "code")).is_ok());
        for (name, argument) in [("a\u{200b}", "b"), ("a", ""), ("a", "b\n"), (&"x".repeat(300), "b")] {
            assert!(bounded_prompt(prompt(name, argument)).is_err(), "{name} {argument}");
        }
    }

    /// Clock of the runtime, which the test pauses.
    struct RuntimeTimer;

    impl Timer for RuntimeTimer {
        fn now(&self) -> std::time::Instant {
            tokio::time::Instant::now().into_std()
        }

        fn sleep_until(&self, moment: std::time::Instant) -> tool::BoxFuture<'static, ()> {
            Box::pin(tokio::time::sleep_until(moment.into()))
        }
    }

    struct NoProcess;

    impl mcp_client::ServerProcess for NoProcess {
        fn kill(&self) {}
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_never_lists_its_prompts_holds_nothing_up_and_is_told() {
        use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (output, input) = tokio::io::split(ours);
        tokio::spawn(async move {
            let (reader, mut writer) = tokio::io::split(theirs);
            let mut lines = tokio::io::BufReader::new(reader).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let request: serde_json::Value = serde_json::from_str(&line).unwrap();
                let result = match request["method"].as_str() {
                    Some("initialize") => json!({
                        "protocolVersion": "2025-11-25", "capabilities": {"resources": {}, "prompts": {}},
                        "serverInfo": {"name": "x", "version": "1"},
                    }),
                    Some("resources/list") => json!({"resources": [{"uri": "x:y", "name": "y"}]}),
                    Some("resources/templates/list") => json!({"resourceTemplates": []}),
                    _ => continue,
                };
                let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
                writer.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
            }
        });
        let streams = mcp_client::ProcessStreams {
            output: Box::new(output),
            input: Box::new(input),
            process: Box::new(NoProcess),
        };
        let options = mcp_client::Options {
            name: mcp_client::ClientName { name: "tests".to_owned(), version: "1".to_owned() },
            first: mcp_client::FirstContact::Handshake,
            limits: mcp_client::Limits::default(),
            timer: std::sync::Arc::new(RuntimeTimer),
            requests: std::sync::Arc::new(mcp_client::NoServerRequests),
            listener: std::sync::Arc::new(mcp_client::NoListener),
            wants_notices: false,
        };
        let client = Client::over_streams(streams, options).await.unwrap();
        let began = tokio::time::Instant::now();
        let lists = ContentLists::read(&client, &RuntimeTimer).await;
        assert_eq!(began.elapsed(), PATIENCE);
        assert_eq!(lists.resources.len(), 1, "what was read before stays");
        assert_eq!(lists.faults, ["the server did not list its resources and prompts within 10 s"]);
    }
}
