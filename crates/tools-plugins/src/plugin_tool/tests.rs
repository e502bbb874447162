use std::sync::Arc;

use jiff::Timestamp;
use plugins::{Language, scaffold};
use testkit::Workspace;
use tool::dynamic_tool;

use super::*;

/// Returns a workspace whose commands run in a real cell.
fn workspace() -> Workspace {
    let workspace = Workspace::new();
    let cell = CellSpec {
        workspace: workspace.path().to_owned(),
        spool_directory: workspace.at("../outside"),
        output_limit: 1 << 20,
        ..CellSpec::default()
    };
    workspace.with_service(Arc::new(cell)).with_service(Arc::new(CellHost::default()))
}

/// Returns the state with a new plugin for the shell, which is enabled.
fn enabled(around: &Path) -> (PluginStore, StoredPlugin) {
    let store = PluginStore::at(around.join("state"));
    let folder = around.join("word_count");
    scaffold(&folder, "word_count", Language::Shell).unwrap();
    let content = plugins::PluginFolder::read(&folder).unwrap();
    store.enable("word_count", &content, Timestamp::UNIX_EPOCH).unwrap();
    let stored = store.all().unwrap().pop().unwrap();
    (store, stored)
}

#[test]
fn a_plugin_fulfils_what_every_tool_must() {
    let around = tempfile::tempdir().unwrap();
    let (store, stored) = enabled(around.path());
    let tool = dynamic_tool(PluginTool::of(&store, &stored).unwrap());
    testkit::check_family(&[tool], workspace);
}

#[test]
fn a_call_plans_its_command_with_its_level_and_no_network() {
    let around = tempfile::tempdir().unwrap();
    let (store, stored) = enabled(around.path());
    let tool = PluginTool::of(&store, &stored).unwrap();
    let plan = tool.plan(&Value::Null, &Place::at("/w".into())).unwrap();
    assert_eq!((plan.level, plan.network), (Some(tool::Level::Safe), Some(NetworkLimit::default())));
    let script = store.copy_of(&stored.state.hash).join("main.sh");
    let command = CommandLine::Argv(vec!["sh".to_owned(), script.to_str().unwrap().to_owned()]);
    assert_eq!(plan.effects, [Effect::Run { command, directory: "/w".into() }]);
    assert!(tool.preview(&Value::Null).unwrap().contains("has no network"));
}

#[test]
fn it_refuses_a_plugin_whose_copy_was_changed() {
    let around = tempfile::tempdir().unwrap();
    let (store, stored) = enabled(around.path());
    std::fs::write(store.copy_of(&stored.state.hash).join("main.sh"), "echo other").unwrap();
    let refused = PluginTool::of(&store, &stored).err().unwrap();
    assert!(refused.0.contains("damaged"), "{refused:?}");
}
