//! Property tests of random plans in which one dependency changes before their approval is used.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;

use engine::Scope;
use parking_lot::Mutex;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};
use tool::Code;

use super::world::{Meanwhile, World, asked, block, call, code, grant, nobody};

/// Change of one dependency.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Drift {
    /// The file has another content.
    Content(String),
    /// The path holds another file with the same content.
    Replaced(String),
    Gone(String),
    Comes(String),
    /// A symbolic link leads to another target.
    Leads(String, &'static str),
    /// A folder is replaced by a symbolic link to another one.
    Moved(String, &'static str),
    Environment,
    Argument(&'static str, Value),
}

impl Drift {
    /// Makes the change on the disk.
    fn happens(&self, world: &World) {
        let write = |path: &Path, content: &str| {
            fs::write(path, content).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        match self {
            Self::Content(path) | Self::Comes(path) => write(&world.at(path), "something else"),
            Self::Replaced(path) => {
                let (path, new) = (world.at(path), world.at("new"));
                write(&new, &fs::read_to_string(&path).unwrap());
                fs::rename(new, path).unwrap();
            }
            Self::Gone(path) => fs::remove_file(world.at(path)).unwrap(),
            Self::Leads(path, target) => {
                fs::remove_file(world.at(path)).unwrap();
                symlink(target, world.at(path)).unwrap();
            }
            Self::Moved(path, target) => {
                let away = format!("{path}-before");
                fs::rename(world.at(path), world.at(&away)).unwrap();
                symlink(target, world.at(path)).unwrap();
            }
            Self::Environment | Self::Argument(..) => {}
        }
    }
}

/// Arguments of a call, and all its dependencies.
#[derive(Debug, Clone)]
struct Planned {
    arguments: Value,
    drifts: Vec<Drift>,
}

/// Files that every directory has: a script, one in a subfolder, one behind a link, and one that is
/// missing.
const SCRIPTS: [&str; 4] = ["a.sh", "nested/b.sh", "linked.sh", "absent.sh"];

fn furnish(world: &World) {
    for folder in ["", "sub/", "other/"] {
        let at = |name: &str| world.at(&format!("workspace/{folder}{name}"));
        for nested in ["nested", "nested2"] {
            fs::create_dir(at(nested)).unwrap();
            fs::write(at(&format!("{nested}/b.sh")), format!("echo {nested}")).unwrap();
            for name in ["out", "mod.py", "__main__.py", "index.js", "Makefile"] {
                fs::write(at(&format!("{nested}/{name}")), nested).unwrap();
            }
        }
        fs::create_dir(at("named")).unwrap();
        fs::write(at("named/package.json"), r#"{"main": "begin"}"#).unwrap();
        for name in ["a.sh", "c.sh", "out", "out2", "beside", "mod.py", "named/begin.js"] {
            fs::write(at(name), name).unwrap();
        }
        symlink("a.sh", at("linked.sh")).unwrap();
        symlink("out", at("outlink")).unwrap();
    }
    // A copy in another place is a different script.
    fs::write(world.at("workspace/c.sh"), "a.sh").unwrap();
    fs::write(world.at("bin2/other"), "other").unwrap();
}

/// Returns the dependencies of a script in this directory of the workspace.
fn of_script(script: &str, folder: &str) -> Vec<Drift> {
    let at = |name: &str| format!("workspace/{folder}{name}");
    match script {
        "linked.sh" => {
            vec![Drift::Content(at("a.sh")), Drift::Gone(at(script)), Drift::Leads(at(script), "c.sh")]
        }
        "absent.sh" | "json.py" => vec![Drift::Comes(at(script))],
        "nested" => vec![Drift::Moved(at("nested"), "nested2")],
        below if below.starts_with("nested/") => {
            vec![Drift::Content(at(script)), Drift::Gone(at(script)), Drift::Moved(at("nested"), "nested2")]
        }
        _ => vec![Drift::Content(at(script)), Drift::Gone(at(script))],
    }
}

fn part() -> impl Strategy<Value = (String, Option<&'static str>, Vec<Drift>)> {
    let file = |path: &str| path.to_owned();
    let tool = vec![
        Drift::Content(file("bin/tool")),
        Drift::Replaced(file("bin/tool")),
        Drift::Gone(file("bin/tool")),
    ];
    // Another program of the same name is found first.
    let other = vec![
        Drift::Content(file("bin2/other")),
        Drift::Replaced(file("bin2/other")),
        Drift::Comes(file("bin/other")),
    ];
    let how = select(vec![
        ("sh ", ""),
        ("./", ""),
        (". ./", ""),
        ("source ./", ""),
        ("bash -e ", ""),
        ("X=1 sh ", ""),
        ("timeout 5 sh ", ""),
        ("env A=2 sh ", ""),
        ("nice ./", ""),
        ("python3 ", ""),
        ("PYTHONPATH=. python3 ", ""),
        ("sh < ", ""),
        ("cat ", " | sh"),
        ("bash -c \"$(cat ", ")\""),
        ("sed -f ", " out"),
        ("sed -nf", ""),
        ("awk -f ", " out"),
        ("make -f ", ""),
        ("make --file=", ""),
        ("xargs sh ", ""),
        ("find . -exec sh ", " {} +"),
    ]);
    // Changes of the target of a name that is passed to a program.
    let led = select(vec![
        ("python3 -m mod", "mod.py"),
        ("python3 -Im nested.mod", "nested/mod.py"),
        ("python3 -m json.tool", "json.py"),
        ("python3 nested/", "nested/__main__.py"),
        ("node nested", "nested/index.js"),
        ("node named", "named/begin.js"),
        ("node --require ./named x.js", "named/begin.js"),
        ("make -C nested", "nested/Makefile"),
        ("cd nested && make", "nested/Makefile"),
        ("cp nested/b.sh here.sh && sh here.sh", "nested/b.sh"),
        ("cat nested/b.sh > here.sh; sh here.sh", "nested/b.sh"),
        ("cd nested && tool", "nested"),
        ("env -C nested sh b.sh", "nested/b.sh"),
        ("nice env -i --chdir=nested sh b.sh", "nested/b.sh"),
        ("unheard-of --in nested", "nested"),
    ]);
    prop_oneof![
        1 => select(vec!["tool x", "env tool", "timeout 3 tool -v", "'to'ol"])
            .prop_map(move |line| (line.to_owned(), None, tool.clone())),
        1 => select(vec!["other", "X=2 other y"]).prop_map(move |line| (line.to_owned(), None, other.clone())),
        3 => (how, select(SCRIPTS.to_vec()))
            .prop_map(|((before, behind), script)| {
                (format!("{before}{script}{behind}"), Some(script), Vec::new())
            }),
        2 => led.prop_map(|(line, led)| (line.to_owned(), Some(led), Vec::new())),
    ]
}

fn planned() -> impl Strategy<Value = Planned> {
    let directory = select(vec![("", ""), ("sub", "sub/"), ("other", "other/"), ("link", "sub/")]);
    let path = select(vec!["", "out", "new", "outlink", "nested/out"]);
    let parts = prop::collection::vec(part(), 1..4);
    let between = select(vec![" && ", "; ", " | ", " || "]);
    (parts, between, directory, path, "[a-z]{0,3}").prop_map(
        |(parts, between, (directory, folder), path, note)| {
            let mut drifts = vec![Drift::Environment];
            let mut lines = Vec::new();
            for (line, script, more) in parts {
                drifts.extend(more);
                drifts.extend(script.iter().flat_map(|script| of_script(script, folder)));
                lines.push(line);
            }
            if directory == "link" {
                drifts.push(Drift::Leads("workspace/link".to_owned(), "other"));
            }
            let written = |name: &str| format!("workspace/{folder}{name}");
            drifts.extend(match path {
                "out" => vec![
                    Drift::Content(written(path)),
                    Drift::Replaced(written(path)),
                    Drift::Gone(written(path)),
                ],
                "new" => vec![Drift::Comes(written(path))],
                "outlink" => vec![Drift::Content(written("out")), Drift::Leads(written(path), "out2")],
                "nested/out" => vec![Drift::Moved(written("nested"), "nested2"), Drift::Gone(written(path))],
                _ => Vec::new(),
            });
            let command = lines.join(between);
            let path = if path.is_empty() { String::new() } else { format!("{folder}{path}") };
            let others = [
                ("command", json!(format!("{command} --more"))),
                ("directory", json!(if directory == "sub" { "other" } else { "sub" })),
                ("path", json!(format!("{path}2"))),
                ("note", json!(format!("{note}!"))),
            ];
            drifts.extend(others.map(|(field, value)| Drift::Argument(field, value)));
            let arguments = json!({"command": command, "directory": directory, "path": path, "note": note});
            Planned { arguments, drifts }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 160, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_drifts_between_the_approval_and_the_run_is_refused(
        planned in planned(), which in any::<Index>(), while_asked: bool,
    ) {
        let Planned { arguments, drifts } = planned;
        let drift = which.get(&drifts).clone();
        let world = Arc::new(World::new());
        furnish(&world);
        let engine = world.engine(&[("A", "1")]);
        if while_asked && !matches!(drift, Drift::Environment | Drift::Argument(..)) {
            let there = world.clone();
            let asker = Meanwhile(Mutex::new(Some(Box::new(move || drift.happens(&there)))));
            let result = call(&engine, arguments, Arc::new(asker));
            prop_assert_eq!(code(&result), Some(Code::Permission), "{:?}", result.error());
            prop_assert_eq!(world.runs(), 0);
            return Ok(());
        }
        let id = asked(&engine, arguments.clone());
        block(engine.grant(&id, &grant(Scope::Once))).unwrap();
        drift.happens(&world);
        match &drift {
            Drift::Argument(field, value) => {
                let mut other = arguments.clone();
                other[field] = value.clone();
                prop_assert_ne!(asked(&engine, other), id);
                prop_assert_eq!(world.runs(), 0);
                // The control: the approved call still passes.
                prop_assert!(call(&engine, arguments, nobody()).ok());
            }
            drift => {
                let elsewhere = world.engine(&[("A", "2")]);
                let meets = if *drift == Drift::Environment { &elsewhere } else { &engine };
                let result = call(meets, arguments.clone(), nobody());
                prop_assert_eq!(code(&result), Some(Code::Permission), "{:?}", result.error());
                prop_assert_eq!(world.runs(), 0);
                // The approval is void, even if everything is restored.
                prop_assert_eq!(code(&call(&engine, arguments, nobody())), Some(Code::Approval));
            }
        }
    }

    #[test]
    fn where_nothing_drifts_the_call_passes_once(planned in planned(), restarted: bool) {
        let world = World::new();
        furnish(&world);
        let engine = world.engine(&[("A", "1")]);
        let id = asked(&engine, planned.arguments.clone());
        block(engine.grant(&id, &grant(Scope::Once))).unwrap();
        // Files on which the call does not depend may change.
        fs::write(world.at("workspace/beside"), "something else").unwrap();
        fs::write(world.at("workspace/sub/comes"), "").unwrap();
        let engine = if restarted { world.engine(&[("A", "1")]) } else { engine };
        let result = call(&engine, planned.arguments.clone(), nobody());
        prop_assert!(result.ok(), "{:?}", result.error());
        prop_assert_eq!(world.runs(), 1);
        prop_assert_ne!(asked(&engine, planned.arguments), id);
    }
}
