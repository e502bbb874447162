//! The languages that `handfast setup languages` installs: said to be missing, installed while a server runs, and
//! refused if the program for them is another one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::harness::{Fixture, Run};
use crate::http::Up;

const BOX: &str =
    "class Box {\n public:\n  int size() { return width(); }\n  int width() { return 2; }\n};\n";
const MAIN: &str = "#include \"box.h\"\n\nint total() {\n  Box box;\n  return box.size();\n}\n";
const CART: &str = "namespace Shop {\n  class Cart {\n    int Total() { return Price() * 2; }\n    int Price() { return 3; }\n  }\n}\n";
const PYTHON: &str = "def first():\n    pass\n\ndef second():\n    first()\n";

/// Returns the program that the build of the workspace has made.
fn program() -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_handfast")).with_file_name("handfast-languages");
    assert!(built.is_file(), "{} is missing; build it with: cargo build --workspace", built.display());
    built
}

fn repository() -> Fixture {
    Fixture::with_files(&[("src/box.h", BOX), ("src/main.cpp", MAIN), ("Cart.cs", CART), ("a.py", PYTHON)])
}

fn install(fixture: &Fixture, from: &Path) -> Run {
    fixture.run(&["setup", "languages", "--from", from.to_str().unwrap()])
}

fn callers(answer: &Value) -> Vec<String> {
    let rows = answer["data"]["rows"].as_array().unwrap_or_else(|| panic!("{answer:#}"));
    rows.iter().map(|row| format!("{} {}", row["g"].as_str().unwrap(), row["f"].as_str().unwrap())).collect()
}

const CALLS: &str = "MATCH (g)-[:CALLS]->(f:Function) RETURN g.name AS g, f.name AS f ORDER BY g, f";

#[test]
fn languages_that_are_installed_appear_in_a_running_server_and_go_with_their_program() {
    let fixture = repository();
    let server = Up::start(&fixture, &[]);
    let ask = || server.call("graph_query", json!({"query": CALLS}));
    let without = ask();
    // A header is read as one of C.
    assert_eq!(callers(&without), ["box width", "second first"], "{without:#}");
    let said = without["meta"]["warnings"].to_string();
    assert!(said.contains("1 file of C# and 1 file of C++; run `handfast setup languages`"), "{said}");
    assert_eq!(ask()["meta"]["warnings"], without["nothing"], "it is said once");

    let installed = install(&fixture, &program());
    assert_eq!(installed.code, 0, "{}", installed.stderr);
    assert!(installed.stderr.contains("C++ and C#"), "{}", installed.stderr);
    let with = ask();
    assert_eq!(
        callers(&with),
        ["Total Price", "second first", "size width", "total size"],
        "a header is of C++ now: {with:#}"
    );
    assert_eq!(with["data"]["freshness"]["indexed"], 4);
    fixture.write("src/more.cc", "int more() { return total(); }\nint total();\n");
    assert!(callers(&ask()).contains(&"more total".to_owned()));

    let again = fixture.run(&["setup", "languages"]);
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert!(again.stderr.contains("nothing is needed"), "{}", again.stderr);
    let removed = fixture.run(&["setup", "languages", "--remove"]);
    assert_eq!(removed.code, 0, "{}", removed.stderr);
    assert_eq!(callers(&ask()), callers(&without));
}

#[test]
fn stats_and_doctor_say_which_languages_are_there() {
    let fixture = repository();
    let stats = || fixture.run(&["graph", "stats"]).stdout;
    let without = stats();
    assert!(without.contains("cpp") && without.contains("run `handfast setup languages`"), "{without}");
    let doctor = || {
        let findings = fixture.run(&["doctor", "--json"]).json();
        findings.as_array().unwrap().iter().find(|finding| finding["name"] == "languages").unwrap().clone()
    };
    assert!(doctor()["hint"].as_str().unwrap().contains("handfast setup languages"));
    assert_eq!(install(&fixture, &program()).code, 0);
    let with = stats();
    assert!(with.contains("cpp") && !with.contains("setup languages"), "{with}");
    let found = doctor();
    assert_eq!(found["verdict"], "holds", "{found}");
    assert!(found["detail"].as_str().unwrap().contains("C++ and C#"), "{found}");
}

#[test]
fn a_package_of_a_release_is_taken_and_so_is_a_folder_with_one() {
    let fixture = repository();
    let folder = fixture.outside().join("packages");
    fs::create_dir(&folder).unwrap();
    let wheel = folder.join("handfast_languages-0.1.0-py3-none-any.whl");
    let script = "import sys, zipfile\n\
        z = zipfile.ZipFile(sys.argv[1], 'w')\n\
        z.writestr('handfast_languages-0.1.0.dist-info/METADATA', 'Name: handfast-languages\\n')\n\
        z.write(sys.argv[2], 'handfast_languages-0.1.0.data/scripts/handfast-languages')\n";
    let made = Command::new("python3").args(["-c", script]).args([&wheel, &program()]).status();
    assert!(made.unwrap().success());
    for from in [&wheel, &folder] {
        let run = install(&fixture, from);
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert_eq!(fixture.run(&["setup", "languages", "--remove"]).code, 0);
    }
}

#[test]
fn what_is_not_the_program_of_this_version_is_refused_and_nothing_changes() {
    let fixture = repository();
    let script = |name: &str, text: &str| {
        let path = fixture.outside().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let place = fixture.state().join("languages/handfast-languages");
    let other = fixture.outside().join("other");
    let mut greeting = greeting();
    let at = greeting.windows(5).position(|part| part == b"0.1.0").expect("the version of the workspace");
    greeting[at] = b'9';
    fs::write(fixture.outside().join("greeting"), &greeting).unwrap();
    fs::write(&other, format!("#!/bin/sh\ncat {}\n", fixture.outside().join("greeting").display())).unwrap();
    for (from, why) in [
        (script("text", "no program\n"), "cannot be used"),
        (script("silent", "#!/bin/sh\nexit 0\n"), "ended without an answer"),
        (script("chatty", "#!/bin/sh\nprintf '\\005\\000\\000\\000hello'\n"), "it is no handfast-languages"),
        (script("long", "#!/bin/sh\nprintf '\\377\\377\\377\\377'\n"), "too long"),
        (script("broken.whl", "PK no zip"), "cannot be used"),
        (other, "it is of Handfast 9.1.0, and this is 0.1.0"),
        (fixture.outside().join("gone"), "cannot be used"),
        (fixture.workspace(), "neither handfast-languages nor a package"),
    ] {
        let run = install(&fixture, &from);
        assert_ne!(run.code, 0, "{}: {}", from.display(), run.stderr);
        assert!(run.stderr.contains(why), "{}: {}", from.display(), run.stderr);
        // The user's file is named, and not the copy that was made of it.
        assert!(run.stderr.contains(&from.display().to_string()), "{}: {}", from.display(), run.stderr);
        assert!(!place.exists());
    }
    let run = fixture.run(&["setup", "languages"]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("cargo build --release --package languages"), "{}", run.stderr);
    assert_eq!(fixture.run(&["setup", "languages", "--remove"]).code, 0, "there is nothing to remove");
}

/// Returns the first message of the program.
fn greeting() -> Vec<u8> {
    let ran = Command::new(program()).stdin(Stdio::null()).output().unwrap();
    assert!(ran.status.success());
    ran.stdout
}

#[test]
fn a_program_that_another_version_left_is_refused_with_what_to_do() {
    let fixture = repository();
    let place = fixture.state().join("languages/handfast-languages");
    fs::create_dir(place.parent().unwrap()).unwrap();
    // In another process, because a program that this one has open for writing cannot be started.
    let script = "printf '#!/bin/sh\\necho old\\n' >\"$1\"; chmod 700 \"$1\"";
    assert!(Command::new("sh").args(["-c", script, "sh"]).arg(&place).status().unwrap().success());
    let run = fixture.run(&["graph", "query", CALLS]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stdout.contains("second"), "{}", run.stdout);
    assert!(run.stderr.contains("cannot be used") && run.stderr.contains("run `handfast setup languages`"));
    assert_eq!(install(&fixture, &program()).code, 0, "the right one takes its place");
    assert!(fixture.run(&["graph", "query", CALLS]).stdout.contains("width"));
}

#[test]
fn a_program_that_was_taken_over_costs_its_files_alone() {
    let fixture = repository();
    fs::write(fixture.outside().join("greeting"), greeting()).unwrap();
    let greets = format!("#!/bin/sh\ncat {}\n", fixture.outside().join("greeting").display());
    // It ends, answers with noise, with a length beyond any, with nothing, and with more than it was asked for.
    for rest in [
        "exit 3\n",
        "head -c 4 >/dev/null; printf '\\007\\000\\000\\000garbage'; cat >/dev/null\n",
        "head -c 4 >/dev/null; printf '\\377\\377\\377\\377'; cat >/dev/null\n",
        "head -c 4 >/dev/null; printf '\\000\\000\\000\\000'; cat >/dev/null\n",
        "head -c 4 >/dev/null; exec cat /dev/zero\n",
    ] {
        let evil = fixture.outside().join("evil");
        fs::write(&evil, format!("{greets}{rest}")).unwrap();
        assert_eq!(install(&fixture, &evil).code, 0);
        let query = "MATCH (f:File) RETURN f.path AS path, f.gap AS gap ORDER BY path";
        let found = fixture.run(&["graph", "query", query, "--json"]).json();
        let rows = found["rows"].to_string();
        assert_eq!(rows.matches("\"failed\"").count(), 3, "{rest}: {rows}");
        assert!(rows.contains("a.py"), "{rows}");
        assert!(fixture.run(&["graph", "query", CALLS]).stdout.contains("second"), "{rest}");
    }
    // No such answer was kept: the right program is asked anew.
    assert_eq!(install(&fixture, &program()).code, 0);
    let found = fixture.run(&["graph", "query", CALLS]).stdout;
    assert!(found.contains("Total") && found.contains("width"), "{found}");
}

#[test]
fn the_graph_of_a_commit_has_these_languages_too() {
    let fixture = repository();
    let git = |words: &[&str]| {
        let config = ["-c", "user.name=a", "-c", "user.email=a@example.com"];
        let run =
            Command::new("git").args(config).args(words).current_dir(fixture.workspace()).output().unwrap();
        assert!(run.status.success(), "{run:?}");
    };
    git(&["init", "-q"]);
    git(&["add", "-A"]);
    git(&["commit", "-qm", "one"]);
    fs::remove_file(fixture.workspace().join("src/main.cpp")).unwrap();
    let ask = || fixture.run(&["graph", "query", CALLS, "--commit", "HEAD"]).stdout;
    assert!(!ask().contains("total"));
    assert_eq!(install(&fixture, &program()).code, 0);
    assert!(ask().contains("total"), "{}", ask());
}
