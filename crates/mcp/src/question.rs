//! The question that a client shows to its user, and what the answer means.
//!
//! A form with one choice, since every host draws that.

use std::fmt::Write as _;

use engine::{Answer, Approval};
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema};
use serde_json::{Value, json};
use tool::{Level, visible_lines};

const ONCE: &str = "allow once";
const SESSION: &str = "allow for this session";
const DENY: &str = "deny";

/// Characters that a question may have. Nobody is asked to agree to what is not shown whole.
const LONGEST_QUESTION: usize = 8_000;

/// Which questions may be put to the client.
///
/// The agent and the form share a client, so a form is weaker evidence of a person than a terminal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Elicitation {
    /// None.
    Off,
    /// All but those that need a terminal: critical calls and dangerous patterns.
    #[default]
    Ordinary,
    /// All. Only the user's own configuration may say so.
    Trusted,
}

/// The form for an approval.
///
/// # Errors
/// Why the client cannot be asked, for the hint of the error.
pub(crate) fn form(approval: &Approval, allowed: Elicitation) -> Result<ElicitRequestParams, String> {
    if allowed == Elicitation::Off {
        return Err(
            "forms are switched off; run the call with `handfast call` on a terminal, or change the rule"
                .to_owned(),
        );
    }
    if allowed != Elicitation::Trusted && needs_terminal(approval) {
        return Err(
            "this may only be approved on a terminal: run it with `handfast call`, or change the rule"
                .to_owned(),
        );
    }
    let message = text(approval);
    if message.chars().nth(LONGEST_QUESTION).is_some() {
        return Err(format!(
            "the call is too long to be shown whole in a form (more than {LONGEST_QUESTION} characters); \
             run it with `handfast call` on a terminal, or put a long script into a file first"
        ));
    }
    let choices: &[&str] =
        if approval.session_covers.is_some() { &[ONCE, SESSION, DENY] } else { &[ONCE, DENY] };
    let schema = json!({
        "type": "object",
        "properties": {"decision": {
            "type": "string",
            "title": "Decision",
            "description": "May this call be made?",
            "enum": choices,
        }},
        "required": ["decision"],
    });
    let requested_schema: ElicitationSchema =
        serde_json::from_value(schema).map_err(|error| format!("the form could not be made: {error}"))?;
    Ok(ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema })
}

/// What the user's answer means. `by` says who answered.
///
/// INVARIANT: only an accepted form with one of the offered choices is a yes.
pub(crate) fn answer(result: &ElicitResult, session_offered: bool, by: &str) -> Answer {
    let by = by.to_owned();
    match result.action {
        ElicitationAction::Accept => {
            let decision = result.content.as_ref().and_then(|content| content.get("decision"));
            match decision.and_then(Value::as_str) {
                Some(ONCE) => Answer::Once { by },
                Some(SESSION) if session_offered => Answer::Session { by },
                Some(DENY) => Answer::Denied { by, message: None },
                _ => Answer::Nobody {
                    hint: "the client's answer was none of the choices; make the call again".to_owned(),
                },
            }
        }
        ElicitationAction::Decline => Answer::Denied { by, message: None },
        _ => Answer::Nobody { hint: "the question was dismissed without an answer".to_owned() },
    }
}

fn needs_terminal(approval: &Approval) -> bool {
    // The engine offers a session for everything but what is critical or dangerous.
    approval.level == Level::Critical || approval.session_covers.is_none()
}

fn text(approval: &Approval) -> String {
    let mut text =
        format!("May the agent call {} ({})?\n\nIt would:\n", visible_lines(&approval.tool), approval.level);
    for effect in &approval.effects {
        // Writing into a string cannot fail.
        let _ = writeln!(text, "- {}", visible_lines(effect));
    }
    let _ = write!(
        text,
        "\nAsked because: {}\nRule: {}",
        visible_lines(&approval.reason),
        visible_lines(&approval.rule)
    );
    if let Some(covered) = &approval.session_covers {
        let _ = write!(text, "\n\"{SESSION}\" covers: {}", visible_lines(covered));
    }
    text
}

#[cfg(test)]
mod tests {
    use rmcp::model::ElicitationAction::{Accept, Cancel, Decline};
    use tool::CallId;

    use super::*;

    fn approval() -> Approval {
        Approval {
            id: "a1".to_owned(),
            call: CallId("c1".to_owned()),
            tool: "shell_execute".to_owned(),
            level: Level::Destructive,
            effects: vec!["run cargo test\n  in .".to_owned()],
            reason: "destructive calls are asked about".to_owned(),
            rule: "the table of smart_auto".to_owned(),
            session_covers: Some("`cargo test` in this workspace".to_owned()),
            digest: "d".to_owned(),
        }
    }

    fn shown(approval: &Approval) -> Value {
        serde_json::to_value(super::form(approval, Elicitation::Ordinary).unwrap()).unwrap()
    }

    #[test]
    fn the_form_shows_what_will_happen_and_what_a_yes_covers() {
        let form = shown(&approval());
        insta::assert_snapshot!(form["message"].as_str().unwrap(), @r#"
        May the agent call shell_execute (destructive)?

        It would:
        - run cargo test
          |   in .

        Asked because: destructive calls are asked about
        Rule: the table of smart_auto
        "allow for this session" covers: `cargo test` in this workspace
        "#);
        let decision = &form["requestedSchema"]["properties"]["decision"];
        assert_eq!(decision["type"], "string");
        assert_eq!(decision["enum"], json!([ONCE, SESSION, DENY]));
        let once_only = Approval { session_covers: None, ..approval() };
        let form = serde_json::to_value(super::form(&once_only, Elicitation::Trusted).unwrap()).unwrap();
        assert_eq!(form["requestedSchema"]["properties"]["decision"]["enum"], json!([ONCE, DENY]));
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
        let dangerous = Approval { session_covers: None, ..approval() };
        for approval in [critical, dangerous] {
            assert!(form(&approval, Elicitation::Ordinary).unwrap_err().contains("terminal"));
            assert!(form(&approval, Elicitation::Trusted).is_ok());
        }
        assert!(form(&approval(), Elicitation::Ordinary).is_ok());
        assert!(form(&approval(), Elicitation::Off).is_err());
    }

    #[test]
    fn what_cannot_be_shown_whole_is_not_asked() {
        let long = Approval { effects: vec!["x".repeat(LONGEST_QUESTION)], ..approval() };
        assert!(form(&long, Elicitation::Trusted).unwrap_err().contains("too long"));
    }

    #[test]
    fn only_an_accepted_choice_is_a_yes() {
        let said = |action, content| {
            let mut result = ElicitResult::new(action);
            result.content = content;
            answer(&result, true, "u")
        };
        let by = || "u".to_owned();
        assert_eq!(said(Accept, Some(json!({"decision": ONCE}))), Answer::Once { by: by() });
        assert_eq!(said(Accept, Some(json!({"decision": SESSION}))), Answer::Session { by: by() });
        let denied = Answer::Denied { by: by(), message: None };
        assert_eq!(said(Accept, Some(json!({"decision": DENY}))), denied);
        assert_eq!(said(Decline, Some(json!({"decision": ONCE}))), denied);
        for (action, content) in [
            (Accept, None),
            (Accept, Some(json!({}))),
            (Accept, Some(json!({"decision": true}))),
            (Accept, Some(json!({"decision": "Allow Once"}))),
            (Accept, Some(json!("allow once"))),
            (Cancel, Some(json!({"decision": ONCE}))),
        ] {
            assert!(matches!(said(action, content), Answer::Nobody { .. }));
        }
        let mut unoffered = ElicitResult::new(Accept);
        unoffered.content = Some(json!({"decision": SESSION}));
        assert!(matches!(answer(&unoffered, false, "u"), Answer::Nobody { .. }));
    }
}
