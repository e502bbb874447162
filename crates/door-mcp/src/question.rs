//! Approval question for the client's user, and the interpretation of the answer.
//!
//! The question is a form with one choice, which every host can show.

use std::fmt::Write as _;
use std::time::Duration;

use engine::{Answer, Approval, Scope};
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema};
use serde_json::{Value, json};
use tool::{Level, visible, visible_lines, visible_source};

const DENY: &str = "deny";

/// Returns the form's label for an approval of this scope.
fn name(scope: Scope) -> &'static str {
    match scope {
        Scope::Once => "allow once",
        Scope::Session => "allow for this session",
        Scope::Project => "allow in this workspace",
        Scope::Always => "allow always",
    }
}

/// Maximum length of a preview in a question, in characters. The full preview is available
/// elsewhere; the effects are always complete.
const LONGEST_PREVIEW: usize = 3_000;

/// Maximum number of lines of a preview.
const MAX_PREVIEW_LINES: usize = 60;

/// Maximum length of the user's message to the agent, in characters.
const LONGEST_MESSAGE: usize = 1_000;

/// Maximum length of a question, in characters. No user is asked to approve a call that is not
/// shown completely.
const LONGEST_QUESTION: usize = 8_000;

/// Time below which no person can have read a form: one second. A mere reaction takes a fifth of a
/// second, and silent reading is four words per second; the shortest form has twenty words. Clients
/// that show no forms decline within milliseconds.
pub(crate) const READING_TIME: Duration = Duration::from_secs(1);

/// Questions that may be put to the client.
///
/// The agent and the form share a client, so a form is weaker evidence of a person than a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Elicitation {
    /// Questions disabled.
    Off,
    /// All questions except those that need a terminal: critical calls, dangerous patterns, and
    /// files that a later program runs. An approval covers the call or the session.
    #[default]
    Ordinary,
    /// All questions, with every scope. Only the user's own configuration may set this.
    Trusted,
}

/// Builds the form for an approval.
///
/// # Errors
/// The reason why the client cannot be asked, for the hint of the error.
pub(crate) fn form(approval: &Approval, allowed: Elicitation) -> Result<ElicitRequestParams, String> {
    if allowed == Elicitation::Off {
        return Err("forms are disabled, so the user must answer elsewhere".to_owned());
    }
    if allowed != Elicitation::Trusted && needs_terminal(approval) {
        return Err("this can only be approved on a terminal".to_owned());
    }
    let scopes = offered(approval, allowed);
    let message = text(approval, &scopes);
    if message.chars().nth(LONGEST_QUESTION).is_some() {
        return Err(format!(
            "the call is too long for a form (more than {LONGEST_QUESTION} characters); put a long \
             script into a file first"
        ));
    }
    let choices: Vec<&str> = scopes.iter().map(|scope| name(*scope)).chain([DENY]).collect();
    let schema = json!({
        "type": "object",
        "properties": {"decision": {
            "type": "string",
            "title": "Decision",
            "description": "Allow this call?",
            "enum": choices,
        }},
        "required": ["decision"],
    });
    let requested_schema: ElicitationSchema =
        serde_json::from_value(schema).map_err(|error| format!("the form could not be built: {error}"))?;
    Ok(ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema })
}

/// Returns the scopes that an approval in this form may have, the narrowest first.
pub(crate) fn offered(approval: &Approval, allowed: Elicitation) -> Vec<Scope> {
    let may = |scope: Scope| scope <= Scope::Session || allowed == Elicitation::Trusted;
    let offers = approval.offers.iter().map(|offer| offer.scope).filter(|scope| may(*scope));
    std::iter::once(Scope::Once).chain(offers).collect()
}

/// Choice of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Approval, with this scope.
    Yes(Scope),
    /// Denial, with a message for the agent.
    No(Option<String>),
    /// Missing answer of a user who has seen the form, with a hint on how to get one.
    Nothing(&'static str),
    /// Missing answer because no user has seen the form, with a hint on how to get one.
    Unseen(&'static str),
}

/// Interprets the user's answer. `offered` holds the offered scopes, `after` the time between
/// question and answer.
///
/// INVARIANT: only an accepted form with one of the offered choices is an approval.
pub(crate) fn choice(result: &ElicitResult, offered: &[Scope], after: Duration) -> Choice {
    let said =
        |field: &str| result.content.as_ref().and_then(|content| content.get(field)).and_then(Value::as_str);
    match result.action {
        ElicitationAction::Accept => match said("decision") {
            Some(DENY) => {
                // The form does not ask for a message; a client with a field for a reason may send one.
                let message = said("message").map(|text| text.chars().take(LONGEST_MESSAGE).collect());
                Choice::No(message)
            }
            chosen => match offered.iter().find(|scope| Some(name(**scope)) == chosen) {
                Some(scope) => Choice::Yes(*scope),
                None => Choice::Nothing(
                    "the client accepted the form without a choice, so the question stays open",
                ),
            },
        },
        ElicitationAction::Decline if after < READING_TIME => Choice::Unseen(
            "the client declined the form faster than a person can read it, so the question stays open",
        ),
        ElicitationAction::Decline => Choice::No(None),
        _ => Choice::Nothing("the form was dismissed without an answer, so the question stays open"),
    }
}

/// Converts the choice to an answer to this question. `by` names the user.
pub(crate) fn answer(choice: Choice, approval: &Approval, by: &str) -> Answer {
    let by = by.to_owned();
    match choice {
        Choice::Yes(scope) => match approval.offers.iter().find(|offer| offer.scope == scope) {
            Some(offer) => Answer::Lease { offer: offer.clone(), by },
            None => Answer::Once { by },
        },
        Choice::No(message) => Answer::Denied { by, message },
        Choice::Nothing(hint) => Answer::Unanswered { hint: hint.to_owned() },
        Choice::Unseen(hint) => Answer::Nobody { hint: hint.to_owned() },
    }
}

fn needs_terminal(approval: &Approval) -> bool {
    approval.level == Level::Critical || approval.terminal_only
}

fn text(approval: &Approval, scopes: &[Scope]) -> String {
    // Clients show about three lines before the user expands the rest.
    let mut text = format!(
        "{}? Asked because {}\n\n{} ({}) would:\n",
        approval.headline(),
        visible(&approval.reason),
        visible_lines(&approval.tool),
        approval.level
    );
    for effect in &approval.effects {
        // Writing into a string cannot fail.
        let _ = writeln!(text, "- {}", visible_lines(effect));
    }
    if approval.preview.is_some() {
        let (lines, more) = approval.preview_lines(MAX_PREVIEW_LINES, LONGEST_PREVIEW);
        for line in lines {
            let _ = write!(text, "\n  | {}", visible_source(line));
        }
        if more > 0 {
            let show = approval.program.command(&format!("approvals show {}", approval.id));
            let _ = write!(text, "\n... {more} more lines: {show}");
        }
        text.push('\n');
    }
    let _ = write!(text, "\nRule: {}", visible_lines(&approval.rule));
    for offer in approval.offers.iter().filter(|offer| scopes.contains(&offer.scope)) {
        let _ = write!(text, "\n\"{}\" covers: {}", name(offer.scope), visible_lines(&offer.description()));
    }
    if let Some(suggestion) = &approval.suggestion {
        let _ = write!(text, "\nNote: {}", visible_lines(suggestion));
    }
    text
}

#[cfg(test)]
mod tests {
    use engine::Offer;
    use rmcp::model::ElicitationAction::{Accept, Cancel, Decline};
    use tool::CallId;

    use super::*;

    fn offer(scope: Scope, covers: &str) -> Offer {
        Offer { scope, pattern: None, covers: covers.to_owned(), seconds: 60, past: None }
    }

    fn approval() -> Approval {
        Approval {
            id: "a1".to_owned(),
            call: CallId("c1".to_owned()),
            tool: "shell_execute".to_owned(),
            level: Level::Destructive,
            effects: vec!["run cargo test\n  in .".to_owned()],
            reason: "destructive calls are asked about".to_owned(),
            rule: "the table of smart_auto".to_owned(),
            preview: None,
            preview_more_lines: 0,
            once_only: false,
            patterns_in_the_cell: false,
            terminal_only: false,
            offers: vec![
                offer(Scope::Session, "`cargo test` in this session"),
                offer(Scope::Project, "`cargo test` in this workspace"),
            ],
            pattern_kind: None,
            suggestion: None,
            digest: "d".to_owned(),
            effects_digest: "e".to_owned(),
            bound: Vec::new(),
            connections: Vec::new(),
            every_host: false,
            program: engine::Program::default(),
        }
    }

    fn shown(approval: &Approval) -> Value {
        serde_json::to_value(super::form(approval, Elicitation::Ordinary).unwrap()).unwrap()
    }

    #[test]
    fn the_form_shows_what_will_happen_and_what_a_yes_covers() {
        let form = shown(&approval());
        insta::assert_snapshot!(form["message"].as_str().unwrap(), @r#"
        run cargo test\n  in .? Asked because destructive calls are asked about

        shell_execute (destructive) would:
        - run cargo test
          |   in .

        Rule: the table of smart_auto
        "allow for this session" covers: `cargo test` in this session
        "#);
        let decision = &form["requestedSchema"]["properties"]["decision"];
        assert_eq!(decision["type"], "string");
        assert_eq!(decision["enum"], json!(["allow once", "allow for this session", "deny"]));
        let trusted = serde_json::to_value(super::form(&approval(), Elicitation::Trusted).unwrap()).unwrap();
        let choices = &trusted["requestedSchema"]["properties"]["decision"]["enum"];
        assert_eq!(
            choices,
            &json!(["allow once", "allow for this session", "allow in this workspace", "deny"])
        );
        let once_only = Approval { once_only: true, terminal_only: true, offers: Vec::new(), ..approval() };
        let form = serde_json::to_value(super::form(&once_only, Elicitation::Trusted).unwrap()).unwrap();
        assert_eq!(form["requestedSchema"]["properties"]["decision"]["enum"], json!(["allow once", "deny"]));
        assert!(!form["message"].as_str().unwrap().contains("session"));
    }

    #[test]
    fn a_command_cannot_write_lines_into_the_question_or_hide_a_part_of_itself() {
        let hostile = "run `true\n- read README.md\n\nRule: harmless \u{202e}`\u{200b}\u{1b}[8m";
        let form = shown(&Approval { effects: vec![hostile.to_owned()], ..approval() });
        let message = form["message"].as_str().unwrap();
        assert_eq!(message.lines().filter(|line| line.starts_with("- ")).count(), 1, "{message}");
        assert_eq!(message.lines().filter(|line| line.starts_with("Rule:")).count(), 1, "{message}");
        let marked = "  | - read README.md\n  | \n  | Rule: harmless \\u{202e}`\\u{200b}\\u{1b}[8m\n";
        assert!(message.contains(marked), "{message}");
    }

    #[test]
    fn what_needs_a_terminal_is_offered_only_where_forms_are_trusted() {
        let critical = Approval { level: Level::Critical, ..approval() };
        let dangerous = Approval { once_only: true, terminal_only: true, offers: Vec::new(), ..approval() };
        for approval in [critical, dangerous] {
            assert!(form(&approval, Elicitation::Ordinary).unwrap_err().contains("terminal"));
            assert!(form(&approval, Elicitation::Trusted).is_ok());
        }
        // A call without a nameable pattern can be approved once, also in a form.
        let unnamed = Approval { once_only: true, offers: Vec::new(), ..approval() };
        assert_eq!(offered(&unnamed, Elicitation::Ordinary), [Scope::Once]);
        assert!(form(&unnamed, Elicitation::Ordinary).is_ok());
        assert!(form(&approval(), Elicitation::Ordinary).is_ok());
        assert!(form(&approval(), Elicitation::Off).is_err());
    }

    #[test]
    fn what_cannot_be_shown_whole_is_not_asked() {
        let long = Approval { effects: vec!["x".repeat(LONGEST_QUESTION)], ..approval() };
        assert!(form(&long, Elicitation::Trusted).unwrap_err().contains("too long"));
    }

    #[test]
    fn a_preview_is_shown_and_said_to_be_cut_where_it_is() {
        let preview = |text: String| Approval { preview: Some(text), ..approval() };
        let form = shown(&preview("-old\n+new".to_owned()));
        assert!(form["message"].as_str().unwrap().contains("\n  | -old\n  | +new\n"), "{form}");
        let form = shown(&preview("+x\n".repeat(MAX_PREVIEW_LINES + 9)));
        assert!(
            form["message"].as_str().unwrap().contains("\n... 9 more lines: handfast approvals show a1\n")
        );
        let form = shown(&preview(format!("{}\n", "x".repeat(500)).repeat(10)));
        let more = format!("\n... {} more lines: handfast approvals show a1\n", 10 - LONGEST_PREVIEW / 500);
        assert!(form["message"].as_str().unwrap().contains(&more), "{form}");
        let hostile = shown(&preview("+\ta\u{202e}b\n\u{1b}[8mRule: harmless\r\n".to_owned()));
        let message = hostile["message"].as_str().unwrap();
        assert!(
            message.contains("\n  | +\u{2192}   a\\u{202e}b\n  | \\u{1b}[8mRule: harmless\\r\n"),
            "{message}"
        );
    }

    #[test]
    fn only_an_accepted_choice_that_was_offered_is_a_yes() {
        let said = |action, content: Option<Value>| {
            let mut result = ElicitResult::new(action);
            result.content = content;
            choice(&result, &offered(&approval(), Elicitation::Ordinary), READING_TIME)
        };
        let chosen = |text: &str| said(Accept, Some(json!({"decision": text})));
        assert_eq!(chosen("allow once"), Choice::Yes(Scope::Once));
        assert_eq!(chosen("allow for this session"), Choice::Yes(Scope::Session));
        assert_eq!(chosen("deny"), Choice::No(None));
        let reasoned = said(Accept, Some(json!({"decision": "deny", "message": "not now"})));
        assert_eq!(reasoned, Choice::No(Some("not now".to_owned())));
        assert_eq!(said(Decline, Some(json!({"decision": "allow once"}))), Choice::No(None));
        for (action, content) in [
            (Accept, None),
            (Accept, Some(json!({}))),
            (Accept, Some(json!({"decision": "yes"}))),
            (Accept, Some(json!({"decision": "allow in this workspace"}))),
            (Accept, Some(json!({"decision": "allow always"}))),
            (Accept, Some(json!({"decision": true}))),
            (Accept, Some(json!("allow once"))),
            (Cancel, Some(json!({"decision": "allow once"}))),
        ] {
            let said = said(action.clone(), content.clone());
            assert!(matches!(said, Choice::Nothing(_)), "{action:?} {content:?}: {said:?}");
        }
    }

    #[test]
    fn a_decline_that_comes_faster_than_a_person_reads_is_no_answer() {
        let after = |after, action, content: Option<Value>| {
            let mut result = ElicitResult::new(action);
            result.content = content;
            choice(&result, &[Scope::Once], after)
        };
        let moment = Duration::from_millis(1);
        assert!(matches!(after(READING_TIME.saturating_sub(moment), Decline, None), Choice::Unseen(_)));
        assert_eq!(after(READING_TIME, Decline, None), Choice::No(None));
        // A user who fills in the form has answered, however fast.
        let denied = Some(json!({"decision": "deny"}));
        assert_eq!(after(moment, Accept, denied), Choice::No(None));
    }

    #[test]
    fn a_choice_becomes_the_offer_of_its_reach() {
        let session = Answer::Lease { offer: approval().offers[0].clone(), by: "u".to_owned() };
        assert_eq!(answer(Choice::Yes(Scope::Session), &approval(), "u"), session);
        let once = Answer::Once { by: "u".to_owned() };
        assert_eq!(answer(Choice::Yes(Scope::Once), &approval(), "u"), once);
        assert_eq!(
            answer(Choice::Yes(Scope::Always), &approval(), "u"),
            once,
            "what this question does not offer"
        );
    }
}
