//! The user's `PATH` as a way out or in: nothing beside its programs becomes visible, and no program
//! that a call could have written is taken for one of the user's.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use serde_json::{Value, json};

use crate::functional::search_path::{configure, file, output, path_of, program, shell};
use crate::harness::{Fixture, repository};

const KEY: &str = "planted-key-5512";

/// Keys, notes and other projects, by their path in the home.
const PLANTED: &[&str] = &[
    ".aws/credentials",
    ".config/gh/hosts.yml",
    ".config/app/settings",
    ".config/handfast/skills/x",
    ".fly/config.yml",
    ".gnupg/private-keys-v1.d/x",
    ".netrc",
    ".npmrc",
    ".ssh/bin/notes",
    ".ssh/config",
    ".ssh/id_rsa",
    "Documents/diary",
    "diary",
    "dotfiles/ssh/id_ed25519",
    "tools/demo/.git/config",
    "tools/demo/.npmrc",
    "tools/demo/lib/credentials.toml",
    "tools/keyed/auth.json",
    "tools/keyed/notes",
    "work/lib/other",
    "work/other/.git/HEAD",
    "work/other/notes",
    "work/plan",
];

/// Programs, and files that they need, in folders to which `PATH` may lead.
const NEEDED: &[&str] = &[
    ".fly/bin/fly",
    "bin/own",
    "tools/demo/bin/demo",
    "tools/demo/lib/library",
    "tools/keyed/bin/keyed",
    "work/bin/run",
];

fn planted() -> Fixture {
    let fixture = Fixture::new();
    for path in PLANTED {
        // Executable, as every file of some file systems is.
        program(&fixture, path, &format!("{KEY}\n"));
    }
    for path in NEEDED {
        program(&fixture, path, "#!/bin/sh\necho needed-8823\n");
    }
    fixture
}

/// Returns the files around the workspace in which a command finds a text.
fn found(fixture: &Fixture, path: &OsString, text: &str) -> Vec<String> {
    fixture.write("seek.sh", &format!("grep -rlIs {text} \"$1\" /tmp /run /root | sort\n"));
    let line = format!("sh seek.sh {}; echo looked", fixture.outside().display());
    let mut command = fixture.command();
    command.env("PATH", path);
    command.args(["call", "--yes", "shell_execute", &json!({ "command": line }).to_string()]);
    let result: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    let output = result["data"]["stdout"].as_str().unwrap_or_else(|| panic!("{result:#}")).to_owned();
    let files = output.strip_suffix("looked\n").unwrap_or_else(|| panic!("{result:#}"));
    let home = format!("{}/", fixture.home().display());
    // The script itself names the text.
    files.lines().filter(|file| !file.ends_with("seek.sh")).map(|file| file.replace(&home, "")).collect()
}

#[test]
fn whatever_stands_in_path_shows_programs_and_nothing_beside_them() {
    let fixture = planted();
    let home = fixture.home();
    file(&fixture, "file", "");
    symlink("loop-b", home.join("loop-a")).unwrap();
    symlink("loop-a", home.join("loop-b")).unwrap();
    symlink(".ssh", home.join("to-keys")).unwrap();
    symlink(&home, home.join("to-home")).unwrap();
    symlink("dotfiles/ssh", home.join("bin/keys")).unwrap();
    symlink(home.join(".ssh/id_rsa"), home.join("bin/id")).unwrap();
    symlink(home.join("diary"), home.join("Documents/shortcut")).unwrap();
    fs::create_dir_all(home.join(".local/bin")).unwrap();
    symlink("../.netrc", home.join(".local/bin/machines")).unwrap();
    assert!(Command::new("mkfifo").arg(home.join("fifo")).status().unwrap().success());
    fs::create_dir(fixture.state().join("bin")).unwrap();
    fs::write(fixture.state().join("bin/note"), KEY).unwrap();
    fs::create_dir(home.join("closed")).unwrap();
    fs::set_permissions(home.join("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    let at = |name: &str| home.join(name).into_os_string();
    let mut entries: Vec<OsString> = [
        "",
        ".ssh",
        ".ssh/bin",
        "to-keys",
        "to-keys/bin",
        "to-home",
        ".aws",
        ".config",
        ".config/gh",
        ".config/handfast",
        ".fly/bin",
        ".fly",
        ".gnupg",
        ".local/bin",
        "bin",
        "bin/keys",
        "closed",
        "Documents/../bin",
        "file",
        "file/bin",
        "fifo",
        "loop-a",
        "loop-a/bin",
        "absent",
        "tools/demo/bin",
        "tools/keyed/bin",
        "work/bin",
        "work",
    ]
    .map(at)
    .into();
    entries.extend(
        ["", ".", "..", "relative/bin", "/", "/proc/self/root/root", "/proc", "/dev"].map(OsString::from),
    );
    entries.push(fixture.outside().into_os_string());
    entries.push(fixture.state().join("bin").into_os_string());
    entries.push(OsString::from_vec(b"/no/\xff\x01such".to_vec()));
    entries.push(OsString::from(format!("/{}", "x".repeat(5_000))));
    entries.push("/usr/bin".into());
    let path = entries.join(&OsString::from(":"));
    assert_eq!(found(&fixture, &path, KEY), [] as [&str; 0]);
    // The controls: the programs are there, and a search without a cell finds every key.
    assert_eq!(found(&fixture, &path, "needed-8823"), NEEDED);
    let outside = Command::new("grep").args(["-rlI", KEY]).arg(&home).output().unwrap();
    let outside = String::from_utf8(outside.stdout).unwrap();
    assert!(PLANTED.iter().all(|path| outside.contains(path)), "{outside}");
}

#[test]
fn each_entry_alone_shows_no_key_either() {
    let fixture = planted();
    for entry in
        ["", "bin", "tools/demo/bin", "tools/keyed/bin", "work/bin", "work", ".fly/bin", ".fly", ".local/bin"]
    {
        let path = OsString::from(path_of(&fixture, &[entry]));
        assert_eq!(found(&fixture, &path, KEY), [] as [&str; 0], "{entry}");
    }
}

#[test]
fn thousands_of_entries_are_no_error_and_the_first_ones_count() {
    let fixture = planted();
    let mut entries: Vec<String> =
        vec![fixture.home().join("tools/demo/bin").display().to_string(), "/usr/bin".into()];
    for number in 0..900 {
        let folder = program(&fixture, &format!("many/{number}/bin/p{number}"), "#!/bin/sh\n");
        entries.push(folder.parent().unwrap().display().to_string());
    }
    entries.extend((0..2_000).map(|number| format!("/no/such/{number}")));
    entries.push(fixture.home().join("bin").display().to_string());
    let path = entries.join(":");
    assert_eq!(output(&fixture, &path, "demo"), "needed-8823\n");
    // Entries after too many others are left out, and said.
    let result = shell(&fixture, &[("PATH", &path)], "own");
    assert_eq!(result["data"]["exit_code"], 127, "{result:#}");
    let told = result["meta"]["warnings"][0].as_str().unwrap();
    assert!(told.contains("/home/bin of `PATH`") && told.contains("more folders than"), "{result:#}");
}

/// Makes a call with nobody to ask.
fn unasked(fixture: &Fixture, path: &str, command: &str) -> Value {
    let arguments = json!({ "command": command }).to_string();
    fixture.run_with(&[("PATH", path)], &["call", "shell_execute", &arguments]).json()
}

#[test]
fn a_program_in_a_folder_that_calls_or_others_write_is_not_taken_for_one_of_the_user() {
    const PLANT: &str = "#!/bin/sh\necho planted-2290\n";
    let fixture = Fixture::new();
    let home = fixture.home();
    configure(
        &fixture,
        "sandbox_config:\n  normal:\n    undoable: table\n    allowed_write_paths: [./, ~/scratch]\n    allowed_read_paths: [./, ~/scratch, ~/reference]\n",
    );
    for folder in ["scratch/bin", "scratch/deep/tools/bin", "open/bin", "user/bin", "reference/bin"] {
        program(&fixture, &format!("{folder}/ls"), PLANT);
    }
    fs::set_permissions(home.join("open/bin"), fs::Permissions::from_mode(0o1777)).unwrap();
    fixture.write("bin/ls", PLANT);
    fs::set_permissions(fixture.workspace().join("bin/ls"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink(home.join("scratch/deep"), home.join("link")).unwrap();
    // A link that a call can turn to any folder.
    symlink(home.join("user"), fixture.workspace().join("turned")).unwrap();
    symlink(home.join("user"), home.join("scratch/turned")).unwrap();
    symlink(home.join("scratch/turned"), home.join("twice")).unwrap();
    let workspace = fixture.workspace();
    let [own, turned] =
        ["bin", "turned/bin"].map(|folder| format!("{}:/usr/bin:/bin", workspace.join(folder).display()));
    let mut paths = vec![own, turned];
    for folder in [
        "scratch/bin",
        "scratch/deep/tools/bin",
        "link/tools/bin",
        "scratch/turned/bin",
        "twice/bin",
        "open/bin",
    ] {
        paths.push(path_of(&fixture, &[folder]));
    }
    for path in paths {
        let result = unasked(&fixture, &path, "ls");
        assert_eq!(result["ok"], true, "{path}: {result:#}");
        assert!(!result.to_string().contains("planted-2290"), "{path}: {result:#}");
        let found = unasked(&fixture, &path, "command -v ls");
        assert_eq!(found["data"]["stdout"], "/usr/bin/ls\n", "{path}: {found:#}");
    }
    // The controls: a folder of the user's own, and one that calls only read.
    for folder in ["user/bin", "reference/bin"] {
        let result = unasked(&fixture, &path_of(&fixture, &[folder]), "ls");
        assert_eq!(result["data"]["stdout"], "planted-2290\n", "{folder}: {result:#}");
    }
    // A link from the user's folder to a file that calls write is found, and asked about.
    fs::remove_file(home.join("user/bin/ls")).unwrap();
    symlink(home.join("scratch/bin/ls"), home.join("user/bin/ls")).unwrap();
    let result = unasked(&fixture, &path_of(&fixture, &["user/bin"]), "ls");
    assert_eq!(result["error"]["code"], "EAPPROVAL", "{result:#}");
}

#[test]
fn a_folder_that_a_call_can_turn_a_link_to_stays_hidden() {
    let fixture = planted();
    symlink(fixture.home().join("tools"), fixture.workspace().join("turned")).unwrap();
    symlink(fixture.workspace().join("turned"), fixture.home().join("in-between")).unwrap();
    let direct =
        OsString::from(format!("{}:/usr/bin", fixture.workspace().join("turned/demo/bin").display()));
    for path in [direct, OsString::from(path_of(&fixture, &["in-between/demo/bin"]))] {
        assert_eq!(found(&fixture, &path, "needed-8823"), [] as [&str; 0], "{path:?}");
    }
}

#[test]
fn the_deny_lists_hold_in_what_path_leads_to() {
    let fixture = planted();
    file(&fixture, "tools/demo/lib/customer.dat", KEY);
    file(&fixture, "tools/demo/lib/customer.dat.bak", KEY);
    program(&fixture, "single/blocked.dat", &format!("#!/bin/sh\n# {KEY}\n"));
    symlink(fixture.home().join("single/blocked.dat"), fixture.home().join("bin/blocked")).unwrap();
    configure(
        &fixture,
        "sandbox_config:\n  normal:\n    deny_read_paths: ['*.dat', '~/work/']\n    undoable: pass\n",
    );
    let path = OsString::from(path_of(&fixture, &["tools/demo/bin", "bin", "work/bin"]));
    assert_eq!(found(&fixture, &path, KEY), [] as [&str; 0]);
    assert_eq!(
        found(&fixture, &path, "needed-8823"),
        ["bin/own", "tools/demo/bin/demo", "tools/demo/lib/library"]
    );
    // The control: without the rules the files are there.
    configure(&fixture, "{}\n");
    let shown = found(&fixture, &path, KEY);
    assert_eq!(
        shown,
        ["single/blocked.dat", "tools/demo/lib/customer.dat", "tools/demo/lib/customer.dat.bak"]
    );
}

#[test]
fn a_listed_toolchain_shows_no_home_and_no_keys() {
    let fixture = planted();
    let path = OsString::from("/usr/bin:/bin");
    for listed in ["~/", "~/.ssh", "~/.config", "/", "~/work/../"] {
        configure(&fixture, &format!("toolchains: ['{listed}']\n"));
        assert_eq!(found(&fixture, &path, KEY), [] as [&str; 0], "{listed}");
    }
    let state = fixture.state().display().to_string();
    configure(
        &fixture,
        &format!("toolchains: ['{state}', '{}', '~/tools/demo']\n", fixture.outside().display()),
    );
    assert_eq!(found(&fixture, &path, KEY), [] as [&str; 0]);
    assert_eq!(found(&fixture, &path, "needed-8823"), ["tools/demo/bin/demo", "tools/demo/lib/library"]);
}

#[test]
fn a_file_system_that_hangs_is_not_touched() {
    if !rustix::process::geteuid().is_root() || !std::path::Path::new("/dev/fuse").exists() {
        return;
    }
    let fixture = planted();
    let home = fixture.home();
    let hanging = home.join("mnt/tools");
    fs::create_dir_all(&hanging).unwrap();
    for link in ["nearby", ".cargo", "go"] {
        symlink(&hanging, home.join(link)).unwrap();
    }
    symlink(hanging.join("bin/far"), home.join("bin/far")).unwrap();
    program(&fixture, "mnt/bin/around", "#!/bin/sh\n");
    // The search for the files of denied programs follows links, too.
    configure(&fixture, "sandbox_config:\n  normal:\n    deny_exec_command: [touch]\n");
    file(&fixture, "mnt/lib/x", "");
    let path = path_of(
        &fixture,
        &["mnt/tools/bin", "nearby/bin", "nearby", "mnt/tools", "mnt/bin", "bin", "tools/demo/bin"],
    );
    let line = json!({ "command": "demo; far; around; ls" }).to_string();
    let own = fixture.command();
    let mut command = Command::new("python3");
    command
        .arg(repository().join("tests/security/hanging_folder.py"))
        .arg(&hanging)
        .arg(own.get_program())
        .args(own.get_args())
        .args(["call", "--yes", "shell_execute", &line])
        .env("HOME", &home)
        .env("CARGO_HOME", hanging.join("cargo"))
        .env("JAVA_HOME", hanging.join("java"))
        .env("PATH", format!("{path}:{}", std::env::var("PATH").unwrap()))
        .current_dir(fixture.workspace());
    let run = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    let (answer, counted) =
        stdout.trim_end().rsplit_once('\n').unwrap_or_else(|| panic!("{stdout} {stderr}"));
    let result: Value = serde_json::from_str(answer).unwrap_or_else(|_| panic!("{stdout} {stderr}"));
    assert!(result["data"]["stdout"].as_str().unwrap().starts_with("needed-8823\n"), "{result:#}");
    let told = result["meta"]["warnings"][0].as_str().unwrap();
    assert!(told.contains("another machine or program (fuse.hanging)"), "{told}");
    assert!(told.contains("`toolchains: ["), "{told}");
    // No request was about anything in the folder; the control made one.
    let (made, control) = counted.split_once(' ').unwrap();
    assert_eq!(made, "0", "{stdout} {stderr}");
    assert_ne!(control, "0");
}
