use std::path::Path;

use super::super::PackageParts;
use super::*;

struct Place {
    packages: Packages,
    store: PluginStore,
    _state: tempfile::TempDir,
    source: tempfile::TempDir,
}

fn place() -> Place {
    let (state, source) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    plugins::scaffold(&source.path().join("plugins/word_count"), "word_count", plugins::Language::Shell)
        .unwrap();
    std::fs::write(source.path().join("unrelated"), "not read").unwrap();
    Place {
        packages: Packages::of(state.path()),
        store: PluginStore::at(state.path().join("plugins")),
        _state: state,
        source,
    }
}

impl Place {
    fn put(&self) -> PluginFolder {
        let content = read(self.source.path()).unwrap();
        let wanted = NewPackage { name: "one", source: "/from", commit: None, content: &content };
        self.packages.put(&wanted, &self.store, Timestamp::UNIX_EPOCH).unwrap();
        content
    }

    fn plugin(&self) -> Option<plugins::PluginState> {
        self.store.all().unwrap().pop().map(|plugin| plugin.state)
    }
}

#[test]
fn a_package_comes_is_replaced_and_goes_with_its_plugins() {
    let place = place();
    let first = place.put();
    let package = place.packages.find("one").unwrap();
    assert_eq!(package.read().unwrap().hash, first.hash);
    assert!(!package.content.join("unrelated").exists());
    let enabled = place.plugin().unwrap();
    assert!(enabled.is_enabled && enabled.name == "word_count");
    std::fs::write(place.source.path().join("plugins/word_count/main.sh"), "echo").unwrap();
    place.put();
    assert_ne!(place.plugin().unwrap().hash, enabled.hash, "the new content is the allowed one");
    // A plugin that the user has disabled stays so.
    place.store.disable(&package.content.join("plugins/word_count")).unwrap();
    place.put();
    assert!(!place.plugin().unwrap().is_enabled);
    place.packages.remove("one", &place.store, Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!((place.plugin(), place.packages.all().unwrap().len()), (None, 0));
    let left: Vec<_> =
        std::fs::read_dir(&place.packages.folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [".lock"]);
}

#[test]
fn what_a_killed_process_leaves_is_settled_by_the_next_one() {
    let place = place();
    place.put();
    // Killed before the plugin was enabled.
    let folder = place.packages.find("one").unwrap().folder(content::PLUGINS).join("word_count");
    place.store.forget(&folder).unwrap();
    // Killed in the middle of a draft, and of a removal.
    std::fs::create_dir_all(place.packages.folder.join(".draft-x/content")).unwrap();
    place.packages.settle(&place.store, Timestamp::UNIX_EPOCH).unwrap();
    assert!(place.plugin().unwrap().is_enabled);
    assert!(!place.packages.folder.join(".draft-x").exists());
    // Killed after the rename of a removal.
    std::fs::rename(place.packages.folder.join("one"), place.packages.folder.join(".draft-y")).unwrap();
    place.packages.settle(&place.store, Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!((place.plugin(), place.packages.all().unwrap().len()), (None, 0));
    assert!(!place.packages.folder.join(".draft-y").exists());
}

#[test]
fn a_package_whose_files_were_changed_is_not_used_and_refused() {
    let place = place();
    std::fs::create_dir_all(place.source.path().join("skills/a")).unwrap();
    std::fs::write(place.source.path().join("skills/a/SKILL.md"), "---\ndescription: d\n---\n").unwrap();
    place.put();
    assert_eq!(place.packages.parts(false, &|_| {}).unwrap().skills.len(), 1);
    assert_eq!(place.packages.parts(true, &|_| {}).unwrap().skills.len(), 0);
    let package = place.packages.find("one").unwrap();
    std::fs::write(package.content.join("skills/a/SKILL.md"), "---\ndescription: other\n---\n").unwrap();
    let told = std::sync::Mutex::new(Vec::new());
    let parts =
        place.packages.parts(false, &|problem: &str| told.lock().unwrap().push(problem.to_owned())).unwrap();
    assert_eq!(parts.skills.len(), 0);
    assert!(told.lock().unwrap()[0].contains("have changed"));
}

#[test]
fn rules_that_deny_stay_in_force_whatever_happens_to_the_files_of_their_package() {
    let place = place();
    let rules = "rules: {deny_exec_command: [curl]}\n";
    std::fs::write(place.source.path().join("package.yaml"), rules).unwrap();
    place.put();
    let parts = || place.packages.parts(false, &|_| {});
    let denied = |parts: PackageParts| parts.rules[0].1["deny_exec_command"].to_string();
    assert_eq!(denied(parts().unwrap()), "[\"curl\"]");
    let package = place.packages.find("one").unwrap();
    std::fs::remove_file(package.content.join("package.yaml")).unwrap();
    assert_eq!(denied(parts().unwrap()), "[\"curl\"]", "the rules of the record count");
    let record = place.packages.folder.join("one").join(RECORD);
    let text = std::fs::read_to_string(&record).unwrap();
    // A record from before the rules were in it.
    std::fs::write(&record, text.replace("\"rules\"", "\"other\"")).unwrap();
    assert!(parts().unwrap_err().error.to_string().contains("not known"));
    let changed = |pointer: &str, value: &str| {
        let mut record: serde_json::Value = serde_json::from_str(&text).unwrap();
        *record.pointer_mut(pointer).unwrap() = value.into();
        record.to_string()
    };
    let damaged = ["{", "", &changed("/name", "two"), &changed("/rules/deny_exec_command", "curl")];
    for damaged in damaged {
        std::fs::write(&record, damaged).unwrap();
        assert!(parts().is_err(), "{damaged}");
    }
    std::fs::write(&record, "{").unwrap();
    let problem = parts().unwrap_err().error.to_string();
    assert!(problem.contains("handfast remove one"), "{problem}");
    // The user can remove it, and the others are still known.
    let known = || (place.packages.all().unwrap().len(), place.packages.damaged().unwrap().len());
    assert_eq!(known(), (0, 1));
    place.packages.remove("one", &place.store, Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(known(), (0, 0));
    assert!(parts().unwrap().rules.is_empty());
}

fn brings(files: &[(&str, &str)]) -> Result<Brings, String> {
    let texts = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
    Brings::of(&PluginFolder::of_texts(Path::new("/p"), &texts).unwrap())
}

#[test]
fn what_could_widen_or_is_no_part_is_refused() {
    let good =
        brings(&[("package.yaml", "rules: {deny_exec_command: [curl]}\nmcp_servers: {a: {command: x}}\n")])
            .unwrap();
    assert_eq!((good.rules.len(), good.servers.len()), (1, 1));
    for (yaml, named) in [
        ("rules: {allowed_exec_command: [curl]}", "allowed_exec_command"),
        ("rules: {mode: full_auto}", "mode"),
        ("rules: {deny_read_paths: ['!.env']}", "!"),
        ("rules: {deny_read_paths: .env}", "list"),
        ("mcp_servers: {a: {command: x, level: safe}}", "level"),
        ("mcp_servers: {a: {command: x, shows: [/]}}", "shows"),
        ("mcp_servers: {a: x}", "no object"),
        ("colour: red", "colour"),
        (
            &format!("mcp_servers: {{a: {{command: x, env: {{A: {}}}}}}}", "y".repeat(3_000)),
            "too long to be shown",
        ),
        ("description: nothing", "brings nothing"),
    ] {
        let problem = brings(&[("package.yaml", yaml)]).unwrap_err();
        assert!(problem.contains(named), "{yaml}: {problem}");
    }
    for (path, text) in [
        ("skills/a/README.md", "no skill"),
        ("skills/lone.md", "beside"),
        ("agents/a.txt", "x"),
        ("agents/a.md", "no front matter"),
        ("plugins/a/main.sh", "x"),
        (".mcp.json", "{"),
        (".mcp.json", "{}"),
    ] {
        assert!(brings(&[(path, text)]).is_err(), "{path}");
    }
}
