//! SAGE's `secretProvider`: the access that a custom tool has to the vault, in the dialect `sage`.

use handfast::tool::{Class, Code, Context, Effect, Level, Place, Plan, Spec, Tool, ToolError};
use handfast::vault::RequestPart;
use handfast::{Dialect, EffectKind, Mode, Secrets};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::harness::{Fixture, Library};

const SECRET: &str = "sk-0123456789-abcdef";

/// A tool that pretends to send a secret to a host. The output is the message that the tool would send.
struct Notify;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Name of the secret in the plan.
    planned: String,
    /// Name of the secret that the tool requests.
    asked: String,
    /// Host that receives the secret.
    host: String,
}

#[derive(Serialize, JsonSchema)]
struct Output {
    header: String,
    bytes: usize,
}

impl Tool for Notify {
    type Args = Args;
    type Output = Output;
    const SPEC: Spec = Spec {
        level: Level::Moderate,
        class: Class { reads_only: false, destructive: false, idempotent: false, open_world: true },
        ..Spec::reading("notify", "Tells a host.")
    };

    fn plan(&self, args: &Args, _place: &Place) -> Result<Plan, ToolError> {
        let (name, host) = (args.planned.clone(), "api.example.com".to_owned());
        Ok(Plan::of(vec![Effect::UseSecret { name, host }]))
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let secrets = context.service::<Secrets>()?;
        let value = secrets.value_for(&args.asked, &args.host, RequestPart::Header)?;
        let text = std::str::from_utf8(&value)
            .map_err(|error| ToolError::new(Code::Runtime, "the secret is no text").because(error))?;
        Ok(Output { header: format!("Bearer {text}"), bytes: value.len() })
    }
}

fn asked(planned: &str, asked: &str, host: &str) -> Value {
    json!({"planned": planned, "asked": asked, "host": host})
}

#[test]
fn a_tool_is_given_the_secrets_that_its_plan_names_and_no_caller_sees_them() {
    let fixture = Fixture::new().with_vault();
    fixture.store("api_key", SECRET);
    fixture.store("other_key", "another-0123456789");
    let folder = fixture.home().join(".config/handfast");
    std::fs::create_dir_all(&folder).unwrap();
    let profile =
        "sandbox_config:\n  normal:\n    allowed_hosts: [api.example.com]\n    deny_secrets: [other_key]\n";
    std::fs::write(folder.join("config.yaml"), profile).unwrap();
    let sage = |mode: Mode| fixture.builder().dialect(Dialect::Sage).mode(mode).tool(Notify);
    let library = Library::of(sage(Mode::FullAuto));

    let sent = library.call("notify", asked("api_key", "api_key", "api.example.com"));
    assert_eq!((&sent["ok"], &sent["data"]["bytes"]), (&json!(true), &json!(SECRET.len())), "{sent:#}");
    assert_eq!(sent["data"]["header"], "Bearer [SECRET:api_key]", "{sent:#}");

    for (planned, name, host, code) in [
        ("api_key", "other_key", "api.example.com", "EPERMISSION"),
        ("api_key", "api_key", "elsewhere.example.com", "EPERMISSION"),
        // The user's denial applies to every tool.
        ("other_key", "other_key", "api.example.com", "EPERMISSION"),
        ("no_key", "no_key", "api.example.com", "ENOTFOUND"),
    ] {
        let refused = library.call("notify", asked(planned, name, host));
        assert_eq!(refused["error"]["code"], code, "{planned} {name} {host}: {refused:#}");
    }
    // Everything except reading is asked about, and is denied if the permissions do not name it.
    let by_mode = Library::of(sage(Mode::SmartAuto));
    let unanswered = by_mode.call("notify", asked("api_key", "api_key", "api.example.com"));
    assert_eq!(unanswered["error"]["code"], "EAPPROVAL", "{unanswered:#}");
    let narrowed = Library::of(sage(Mode::FullAuto).permission(EffectKind::Read));
    let denied = narrowed.call("notify", asked("api_key", "api_key", "api.example.com"));
    assert_eq!(denied["error"]["code"], "EPERMISSION", "{denied:#}");

    let rows: Vec<Value> = fixture.recorded().into_iter().filter(|row| row["tool"] == "notify").collect();
    assert!(rows.iter().any(|row| row.to_string().contains("api_key")), "{rows:#?}");
    assert!(!format!("{rows:?}").contains(SECRET) && !format!("{sent}{unanswered}").contains(SECRET));
}

#[test]
fn a_vault_that_nothing_opens_gives_nothing() {
    let fixture = Fixture::new().with_vault();
    fixture.store("api_key", SECRET);
    let other = fixture.outside().join("other-key");
    handfast::vault::make_key_file(&other).unwrap();
    let builder = fixture.builder().dialect(Dialect::Sage).mode(Mode::FullAuto).tool(Notify);
    let folder = fixture.home().join(".config/handfast");
    std::fs::create_dir_all(&folder).unwrap();
    let profile = "sandbox_config:\n  normal:\n    allowed_hosts: [api.example.com]\n";
    std::fs::write(folder.join("config.yaml"), profile).unwrap();
    let library = Library::of(builder.vault_key_file(other));
    let refused = library.call("notify", asked("api_key", "api_key", "api.example.com"));
    assert_eq!(refused["error"]["code"], "EUNAVAILABLE", "{refused:#}");
}
