//! The HTTP interface as an `OpenAPI` document. A test compares it with `docs/openapi.json`.

mod examples;

use serde_json::{Map, Value, json};

use self::examples::{Examples, examples};
use crate::credential::Role;
use crate::route::{Access, Route};

/// Description of one route.
struct RouteDescription {
    route: Route,
    method: &'static str,
    summary: &'static str,
    query: &'static [(&'static str, &'static str, &'static str)],
    body: Option<Value>,
    answer: Value,
}

/// Builds the document, in `OpenAPI` 3.1.
pub fn document() -> Value {
    let mut paths = Map::new();
    for said in all() {
        let path = paths.entry(said.route.path()).or_insert_with(|| json!({}));
        path[said.method] = operation(&said);
        path[said.method]["operationId"] = operation_id(&said).into();
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Handfast",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A status says whether a request could be taken; whether a tool worked is said by `ok` in the body. \
                Requests are refused unless `Host` is an address or a known name of this server, and `Origin`, where there is one, is \
                its own.",
        },
        "paths": paths,
        "components": {
            "securitySchemes": Role::ALL.iter().map(|role| {
                let words = match role {
                    Role::Agent => "The agents' token: calls.",
                    Role::User => "The user's token: answers to questions, and what was done.",
                    Role::Observer => "The observers' token: figures.",
                };
                let scheme = json!({ "type": "http", "scheme": "bearer", "description": words });
                (role.as_str().to_owned(), scheme)
            }).collect::<Map<_, _>>(),
            "schemas": schemas(),
        },
    })
}

fn operation(said: &RouteDescription) -> Value {
    let named = said.route.path().split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path = named
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }));
    let in_query = said.query.iter().map(|(name, kind, words)| {
        json!({ "name": name, "in": "query", "description": words, "schema": { "type": kind } })
    });
    let parameters: Vec<Value> = in_path.chain(in_query).collect();
    let mut operation = json!({
        "summary": said.summary,
        "responses": {
            "200": said.answer,
            "default": answer("The request was not taken.", reference("Failure")),
        },
    });
    if !parameters.is_empty() {
        operation["parameters"] = Value::from(parameters);
    }
    let Examples { asked, answered } = examples(&said.route, said.method);
    if let Some(body) = &said.body {
        let kind = if said.route == Route::Csp { "text/plain" } else { "application/json" };
        operation["requestBody"] = json!({ "content": { kind: { "schema": body, "example": asked } } });
    }
    let contents = operation["responses"]["200"]["content"].as_object_mut();
    let first = contents.and_then(|contents| contents.values_mut().next());
    if let Some(content) = first {
        content["example"] = answered;
    }
    operation["security"] = match said.route.access() {
        Access::Open => json!([]),
        Access::Only(roles) => roles.iter().map(|role| json!({ role.as_str(): [] })).collect(),
    };
    operation
}

/// Returns a unique name of the operation, for generated clients.
fn operation_id(said: &RouteDescription) -> String {
    let parts = said.route.path().split(['/', '.', '-']).filter(|part| !part.is_empty());
    let parts = parts.map(|part| part.trim_matches(['{', '}']));
    std::iter::once(said.method).chain(parts).collect::<Vec<_>>().join("_")
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn answer(words: &str, schema: impl Into<Value>) -> Value {
    json!({ "description": words, "content": { "application/json": { "schema": schema.into() } } })
}

fn list_of(schema: impl Into<Value>) -> Value {
    json!({ "type": "array", "items": schema.into() })
}

fn all() -> Vec<RouteDescription> {
    let id = String::new;
    let get = |route, summary, answer| RouteDescription {
        route,
        method: "get",
        summary,
        query: &[],
        body: None,
        answer,
    };
    let status = || answer("As it is.", json!({ "type": "object" }));
    let anything = || json!({ "type": "object" });
    let mut call = answer("The result of the call.", reference("Result"));
    call["content"]["text/event-stream"] = json!({ "schema": {
        "type": "string",
        "description": "Where nothing else is accepted: events `progress` (done, total, message), `approval` (approval_id, effects, reason) and at \
            last `result`.",
    } });
    let all_of_them: &[_] = &[("all", "boolean", "Those that can no longer be answered or used, too.")];
    vec![
        get(Route::Health, "Whether the process lives.", status()),
        get(Route::Ready, "Whether it takes calls.", status()),
        get(
            Route::Metrics,
            "Figures for Prometheus.",
            json!({ "description": "Figures.", "content": { "text/plain": { "schema": { "type": "string" } } } }),
        ),
        get(
            Route::Resource,
            "Where tokens for this server are had (RFC 9728); not there without an identity provider.",
            answer("The metadata of this protected resource.", anything()),
        ),
        get(Route::OpenApi, "This document.", answer("This document.", anything())),
        get(Route::Tools, "Every tool, with its schemas.", answer("The tools.", list_of(reference("Tool")))),
        RouteDescription {
            route: Route::Call,
            method: "post",
            summary: "Makes a call. A client that goes away cancels it.",
            query: &[],
            body: Some(reference("Call")),
            answer: call,
        },
        RouteDescription {
            route: Route::Check,
            method: "post",
            summary: "What the policy would decide on a call, and why. Nothing runs.",
            query: &[],
            body: Some(reference("Question")),
            answer: answer("The decision.", reference("Decision")),
        },
        RouteDescription {
            query: &[
                ("tool", "string", "Of this tool alone."),
                ("session", "string", "Of this session alone."),
                ("since", "string", "Not before this time (RFC 3339)."),
                ("before", "integer", "Only what was recorded before this row: `before` of the page before."),
                ("limit", "integer", "At most so many calls; 50 unless said otherwise, at most 1,000."),
            ],
            ..get(
                Route::Audit,
                "What was done, the newest first.",
                answer(
                    "A page.",
                    json!({ "type": "object", "properties": { "calls": list_of(anything()), "before": { "type": ["integer", "null"] } } }),
                ),
            )
        },
        get(Route::AuditOf(id()), "Every row of one call.", answer("The rows.", list_of(anything()))),
        RouteDescription {
            query: all_of_them,
            ..get(
                Route::Approvals,
                "Questions, the newest first.",
                answer("The questions.", list_of(reference("Approval"))),
            )
        },
        get(Route::Approval(id()), "One question.", answer("The question.", reference("Approval"))),
        RouteDescription {
            route: Route::Approve(id()),
            method: "post",
            summary: "Says yes.",
            query: &[],
            body: Some(reference("Yes")),
            answer: answer(
                "The question as it is now, what else is allowed, how many paths changed.",
                anything(),
            ),
        },
        RouteDescription {
            route: Route::Deny(id()),
            method: "post",
            summary: "Says no.",
            query: &[],
            body: Some(reference("No")),
            answer: answer("The question as it is now.", reference("Approval")),
        },
        RouteDescription {
            query: all_of_them,
            ..get(Route::Leases, "What is allowed for a time.", answer("The leases.", list_of(anything())))
        },
        RouteDescription {
            method: "delete",
            ..get(Route::Lease(id()), "Takes it back.", answer("What was taken back.", anything()))
        },
        get(
            Route::Events,
            "Questions as they come and are answered. While somebody listens, calls wait for their answers.",
            json!({ "description": "Events `approval`, each with the question.",
                "content": { "text/event-stream": { "schema": { "type": "string" } } } }),
        ),
        RouteDescription {
            route: Route::Csp,
            method: "post",
            summary: "Requests of CSP/1, each ended by an empty line; only of a server that speaks the dialect csp1.",
            query: &[],
            body: Some(json!({ "type": "string" })),
            answer: json!({ "description": "The answers, in the order in which they came to be.",
                "content": { "text/plain": { "schema": { "type": "string" } } } }),
        },
        RouteDescription {
            route: Route::Mcp,
            method: "post",
            summary: "One message of the Model Context Protocol (streamable HTTP, 2024-11-05 to 2026-07-28).",
            query: &[],
            body: Some(json!({ "type": "object" })),
            answer: answer("The answer, or a stream of messages that ends with it.", anything()),
        },
        get(
            Route::Mcp,
            "What a session of the protocol is told that belongs to no request, as it comes.",
            json!({ "description": "A stream of messages.",
                "content": { "text/event-stream": { "schema": { "type": "string" } } } }),
        ),
        RouteDescription {
            method: "delete",
            ..get(Route::Mcp, "Ends a session of the protocol.", answer("It has ended.", anything()))
        },
    ]
}

fn object(required: &[&str], properties: &Value) -> Value {
    let mut schema = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn schemas() -> Value {
    let text = |words: &str| json!({ "type": "string", "description": words });
    let arguments = json!({ "type": "object", "description": "The tool's arguments." });
    let error = object(
        &["code", "message", "effect", "retry"],
        &json!({
            "code": { "type": "string", "enum": tool::Code::ALL.map(tool::Code::as_str) },
            "message": text("What happened; names the field, path or limit."),
            "hint": text("What to do about it."),
            "effect": { "type": "string", "enum": ["none", "maybe", "done"], "description": "Whether the world changed." },
            "retry": { "description": "`never`, `now`, or an object with `after_ms`." },
            "approval_id": text("With EAPPROVAL: the question."),
        }),
    );
    let yes = json!({
        "scope": { "type": "string", "enum": ["once", "session", "project", "always"], "default": "once" },
        "pattern": text("What it is for, in place of what is offered."),
        "seconds": { "type": "integer", "description": "How long it is good for." },
    });
    json!({
        "Call": object(&["tool"], &json!({
            "tool": text("The tool's name."),
            "arguments": arguments,
            "cache": { "type": "boolean", "default": false, "description": "Whether a read may be answered from the cache." },
        })),
        "Question": object(&["tool"], &json!({ "tool": text("The tool's name."), "arguments": arguments })),
        "Result": object(&["ok", "meta"], &json!({
            "ok": { "type": "boolean", "description": "Whether the tool worked." },
            "data": { "description": "What the tool gave." },
            "error": reference("Error"),
            "meta": { "type": "object", "description": "What the layers have to say about the call." },
        })),
        "Error": error,
        "Failure": object(&["ok", "error"], &json!({ "ok": { "const": false }, "error": reference("Error") })),
        "Decision": object(&["decision", "level", "mode", "profile", "rule", "line", "reason", "hint", "effects"], &json!({
            "decision": { "type": "string", "enum": ["pass", "check", "deny"] },
            "level": text("The level of the call."),
            "mode": text("When humans are asked."),
            "profile": text("The profile that decided."),
            "rule": text("The rule that decided, with where it is written."),
            "reason": text("Why."),
            "line": { "type": "integer", "minimum": 1, "maximum": 9, "description": "The line of the decision list that applied." },
            "hint": { "type": ["string", "null"], "description": "What would change it; null where the call passes." },
            "part": text("The effect or the command of the line that decided."),
            "passes_with": {
                "type": "array",
                "items": { "type": "object" },
                "description": "The entries of lists with which the call would pass.",
            },
            "denied_commands": {
                "type": "array",
                "items": { "type": "string" },
                "description": "For a command: how each rule of `deny_exec_command` holds, and what gets past it.",
            },
            "preview": text("The difference or the command, as a human would see it. Only for the user."),
            "preview_more_lines": { "type": "integer", "description": "Lines left out at the end of the preview." },
            "effects": { "type": "array", "description": "Everything the call would do." },
        })),
        "Tool": object(&["name", "description", "level", "input_schema", "output_schema"], &json!({
            "name": text("Its name."),
            "description": text("What the model reads."),
            "level": text("How much it can do."),
            "input_schema": { "type": "object" },
            "output_schema": { "type": "object" },
        })),
        "Approval": object(&["id", "tool", "effects", "state", "expires_at"], &json!({
            "id": text("Its id."),
            "tool": text("The tool that would be called."),
            "effects": { "type": "array", "items": { "type": "string" } },
            "preview": { "type": ["string", "null"], "description": "What else there is to see." },
            "offers": { "type": "array", "description": "How far a yes may reach." },
            "state": text("waiting, approved, denied, used or expired."),
            "caller_waits": {
                "type": "boolean",
                "description": "Whether the call waits for the answer. Where it does not, the same call passes once after a yes.",
            },
            "expires_at": text("From when on it can be neither answered nor used."),
        })),
        "Yes": object(&[], &yes),
        "No": object(&[], &json!({ "message": text("A word for the agent.") })),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_and_method_is_in_the_document_and_nothing_else() {
        let document = document();
        let mut known: Vec<(String, String)> = Vec::new();
        for route in Route::all() {
            for method in route.methods().split(", ").filter(|method| *method != "HEAD") {
                known.push((route.path().to_owned(), method.to_ascii_lowercase()));
            }
        }
        let mut said: Vec<(String, String)> = Vec::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            said.extend(methods.as_object().unwrap().keys().map(|method| (path.clone(), method.clone())));
        }
        known.sort();
        said.sort();
        assert_eq!(known, said);
    }

    #[test]
    fn what_is_checked_in_is_this_document() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
        let there: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        assert!(there == document(), "docs/openapi.json is another; `cargo xtask docs` writes it");
    }
}
