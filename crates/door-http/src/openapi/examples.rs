//! Examples of each request and its response.

use serde_json::{Value, json};

use crate::route::Route;

/// Example of a request body, if the route takes one, and of a response.
pub(super) struct Examples {
    pub(super) asked: Value,
    pub(super) answered: Value,
}

/// Returns the examples of a route.
pub(super) fn examples(route: &Route, method: &str) -> Examples {
    let answered = |answered: Value| Examples { asked: Value::Null, answered };
    let call = "01a20a2760a36d60bd0865";
    let question = json!({
        "id": "a-01a20a27fd7e", "tool": "file_write", "level": "moderate", "effects": ["write /srv/app/notes.md"],
        "preview": "+ one more line", "offers": [{"scope": "session", "covers": "exactly this write", "seconds": 28800}],
        "state": "waiting", "expires_at": "2026-11-24T20:44:42Z",
    });
    let row = json!({
        "sequence": 17, "kind": "call", "time": "2026-11-23T20:44:42.531108Z", "call": call, "door": "http",
        "dialect": "handfast", "tool": "file_read", "decision": "pass", "outcome": "ok", "effect": "none",
    });
    let lease = json!({
        "id": "l-01a20a27fe", "scope": "session", "kind": "exact", "tool": "file_write", "covers": "exactly this write",
        "expires_at": "2026-11-24T04:44:42Z", "uses": 1,
    });
    match (route, method) {
        (Route::Health | Route::Ready, _) => answered(json!({"status": "ok"})),
        (Route::Metrics, _) => answered(json!("handfast_calls_total{outcome=\"ok\"} 12\n")),
        (Route::OpenApi, _) => answered(json!({"openapi": "3.1.0", "info": {"title": "Handfast"}})),
        (Route::Resource, _) => answered(json!({
            "resource": "https://tools.example/mcp", "authorization_servers": ["https://id.example"],
            "scopes_supported": ["hands.call"], "bearer_methods_supported": ["header"], "resource_name": "Handfast",
        })),
        (Route::Tools, _) => answered(json!([{
            "name": "file_read", "description": "Reads a text file.", "level": "safe",
            "input_schema": {"type": "object"}, "output_schema": {"type": "object"},
        }])),
        (Route::Call, _) => Examples {
            asked: json!({"tool": "file_read", "arguments": {"path": "README.md"}}),
            answered: json!({
                "ok": true, "data": {"content": "# App\n"}, "meta": {"call_id": call, "duration_ms": 3, "decision": "pass"},
            }),
        },
        (Route::Check, _) => Examples {
            asked: json!({"tool": "file_write", "arguments": {"path": "notes.md", "content": "one more line\n"}}),
            answered: json!({
                "decision": "check", "level": "moderate", "mode": "smart_auto", "profile": "normal",
                "rule": "mode: smart_auto (profile normal, built in)", "line": 9, "reason": "it writes",
                "hint": "allow it with `allowed_write_paths`", "effects": [{"effect": "write", "path": "/srv/app/notes.md"}],
            }),
        },
        (Route::Audit, _) => answered(json!({"calls": [{"call": call, "rows": [row]}], "before": null})),
        (Route::AuditOf(_), _) => answered(json!([row])),
        (Route::Approvals, _) => answered(json!([question])),
        (Route::Approval(_), _) => answered(question),
        (Route::Approve(_), _) => Examples {
            asked: json!({"scope": "session"}),
            answered: json!({"approval": question, "lease": lease, "applied": null}),
        },
        (Route::Deny(_), _) => {
            Examples { asked: json!({"message": "write it into docs/ instead"}), answered: question }
        }
        (Route::Leases, _) => answered(json!([lease])),
        (Route::Lease(_), _) => answered(lease),
        (Route::Events, _) => answered(json!("event: approval\ndata: {\"id\":\"a-01a20a27fd7e\"}\n\n")),
        (Route::Agents, _) => answered(json!({"agents": [{
            "id": "a1b2c3d4e5", "parent": "0", "state": "running", "task": "Fix the test.", "model": "local/small",
            "since": "2026-11-23T20:44:42Z", "tokens": 1200, "usd": 0.01, "limit_usd": 0.5,
        }]})),
        (Route::AgentEvents, _) => answered(json!(
            "event: event\ndata: {\"agent\":\"a1b2c3d4e5\",\"event\":\"call\",\"tool\":\"file_read\"}\n\n"
        )),
        // The description of a mount contains its examples.
        (Route::Mount(_), _) => answered(Value::Null),
    }
}
