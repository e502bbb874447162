//! A full disk while something is saved or put in place: the error reports it, and nothing is half
//! done.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::harness::{Fixture, program};

/// Runs a script with a small disk mounted at the workspace or the state. In the script, `call TOOL
/// ARGUMENTS` and `handfast ...` run the program. `full` leaves about 100 kB of the disk free, and
/// `look` prints one digest of the workspace.
///
/// Returns the output of the script: JSON values and lines of text.
fn on_a_small_disk(fixture: &Fixture, place: &str, megabytes: u32, script: &str) -> Vec<Value> {
    let functions = r#"
        mount -t tmpfs -o "size=$size" handfast "$place"
        handfast() { "$program" --workspace "$workspace" --state "$state" --no-input "$@" || true; }
        call() { handfast call --yes "$1" "$2"; }
        full() { free=$(df --output=avail -B1 "$place" | tail -1); head -c $((free - 100000)) /dev/zero >"$place/$1"; }
        look() { tar --sort=name --exclude=filler --mtime=@0 -cf - -C "$workspace" . | sha256sum; }
        cd "$workspace"
    "#;
    let is_root = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()) == 0;
    // Mounting a small disk needs root, or a user namespace.
    let namespaces: &[&str] = if is_root { &["--mount"] } else { &["--user", "--map-root-user", "--mount"] };
    let output = Command::new("unshare")
        .args(namespaces)
        .args(["sh", "-euc", &format!("{functions}{script}")])
        .env("size", format!("{megabytes}m"))
        .env("place", if place == "state" { fixture.state() } else { fixture.workspace() })
        .env("workspace", fixture.workspace())
        .env("state", fixture.state())
        .env("program", program())
        .env("HOME", fixture.home())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| json!(line))).collect()
}

#[track_caller]
fn assert_no_space(result: &Value) {
    let error = &result["error"];
    assert_eq!((&error["code"], &error["effect"]), (&json!("ERUNTIME"), &json!("none")), "{result:#}");
    assert!(error["message"].as_str().unwrap().to_lowercase().contains("no space left"), "{result:#}");
}

#[test]
fn what_cannot_be_saved_is_not_changed() {
    let fixture = Fixture::with_files(&[("small", "s\n")]);
    let seen = on_a_small_disk(
        &fixture,
        "state",
        4,
        r#"
        head -c 8000000 /dev/urandom >big
        look
        call file_write '{"path": "big", "content": "x"}'; look
        call file_delete '{"path": "big"}'; look
        call file_patch '{"patch": "*** Begin Patch\n*** Update File: small\n@@\n-s\n+t\n*** Delete File: big\n*** End Patch"}'; look
        call shell_execute '{"command": "echo t >small; rm big"}'; look
        call file_write '{"path": "small", "content": "t\n"}'
        cat small
        handfast undo --since 1h --json
        look
        "#,
    );
    let [before, changes @ .., small, text, undone, after] = &seen[..] else { panic!("{seen:#?}") };
    assert_eq!(changes.len(), 8, "{seen:#?}");
    for pair in changes.chunks(2) {
        assert_no_space(&pair[0]);
        assert_eq!(&pair[1], before, "{:#}", pair[0]);
    }
    // The control: a change that fits is saved, so the refused changes left nothing behind that
    // takes space.
    assert_eq!((&small["ok"], text.as_str()), (&json!(true), Some("t")), "{small:#}");
    assert!(undone["checkpoint"].is_string() && after == before, "{undone:#}");
}

#[test]
fn what_cannot_be_put_in_place_leaves_everything_as_it_was() {
    let fixture = Fixture::new();
    let lines: String = (0..30_000).map(|number| format!("+line {number} of the new file\\n")).collect();
    let patch = format!(
        "*** Begin Patch\\n*** Update File: small\\n@@\\n-s\\n+t\\n*** Add File: new\\n{lines}*** End Patch"
    );
    std::fs::write(fixture.outside().join("patch.json"), format!("{{\"patch\": \"{patch}\"}}")).unwrap();
    let seen = on_a_small_disk(
        &fixture,
        "workspace",
        4,
        r#"
        echo s >small; mkdir d; head -c 1000000 /dev/urandom >d/old
        look
        call file_delete '{"path": "d", "recursive": true}'
        full filler
        look
        call shell_execute '{"command": "echo t >small; mkdir n; head -c 1000000 /dev/zero >n/new"}'; look
        handfast call --yes file_patch - <../patch.json; look
        id=$(handfast checkpoints list --json | sed 's/.*"id":"\([0-9a-f]*\)".*/\1/')
        call checkpoint_restore "{\"id\": \"$id\"}"; look
        ls -A
        rm filler
        call checkpoint_restore "{\"id\": \"$id\"}"
        look
        "#,
    );
    let [before, deleted, without, changes @ .., left_d, left_f, undone, after] = &seen[..] else {
        panic!("{seen:#?}")
    };
    assert_eq!(deleted["ok"], true, "{deleted:#}");
    assert_eq!(changes.len(), 6, "{seen:#?}");
    for pair in changes.chunks(2) {
        assert_no_space(&pair[0]);
        assert_eq!(&pair[1], without, "{:#}", pair[0]);
    }
    assert_eq!((left_d, left_f), (&json!("filler"), &json!("small")));
    // The control: with space, the deleted folder comes back.
    assert_eq!(undone["ok"], true, "{undone:#}");
    assert_eq!(after, before);
}

/// Ways to take about 40 MB of a disk, each of which then waits to be stopped.
const WAYS: [&str; 5] = [
    "head -c 40000000 /dev/zero > big; sleep 60",
    "for i in 1 2 3 4 5 6 7 8; do head -c 5000000 /dev/zero > part$i; done; sleep 60",
    "fallocate -l 40000000 big; sleep 60",
    "exec 3> gone; rm gone; head -c 40000000 /dev/zero >&3; sleep 60",
    "python3 -c 'import mmap; f = open(\"m\", \"w+b\"); f.truncate(40000000); m = mmap.mmap(f.fileno(), 40000000); [m.write_byte(1) or m.seek(4095, 1) for _ in range(9700)]'; sleep 60",
];

/// Writes a profile that asks nobody. If a folder is given, commands may write to it directly.
fn writing_to(fixture: &Fixture, folder: Option<&std::path::Path>) {
    let config = fixture.home().join(".config/handfast");
    std::fs::create_dir_all(&config).unwrap();
    let mut normal = json!({"mode": "full_auto", "undoable": "table"});
    if let Some(folder) = folder {
        normal["allowed_write_paths"] = json!([".", folder]);
        normal["allowed_read_paths"] = json!([".", folder]);
    }
    // JSON is a subset of YAML.
    let profile = json!({ "sandbox_config": { "normal": normal } }).to_string();
    std::fs::write(config.join("config.yaml"), profile).unwrap();
}

#[track_caller]
fn assert_bounded(results: &[Value]) {
    assert_eq!(results.len(), WAYS.len() + 1, "{results:#?}");
    for (way, result) in WAYS.iter().zip(results) {
        let message = result["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains("half of the free space"), "{way}: {result:#}");
        let hint = result["error"]["hint"].as_str().unwrap_or_default();
        assert!(hint.contains("limits.disk_bytes"), "{way}: {result:#}");
    }
    let modest = &results[WAYS.len()];
    assert_eq!(modest["data"]["stdout"], "done\n", "{modest:#}");
    let words = modest["meta"]["sandbox"].as_array().unwrap();
    assert!(words.contains(&json!("limit:disk_space=watchdog")), "{words:?}");
}

/// Builds the calls of all ways in this folder, and of one that takes less.
fn calls(folder: &str) -> String {
    let call = |line: &str| {
        let script = format!("cd {folder}; {line}; rm -f big part* gone m modest");
        let arguments = json!({"command": format!("bash -c {}", word(&script)), "timeout": 50}).to_string();
        format!(
            "rm -f \"$place\"/big \"$place\"/part* \"$place\"/m; call shell_execute {}\n",
            word(&arguments)
        )
    };
    let modest = "head -c 9000000 /dev/zero > modest; sync; echo done";
    WAYS.iter().chain([&modest]).map(|way| call(way)).collect()
}

fn word(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[test]
fn a_command_fills_at_most_half_of_what_is_free_where_its_changes_are_kept_apart() {
    let fixture = Fixture::new();
    writing_to(&fixture, None);
    assert_bounded(&on_a_small_disk(&fixture, "state", 64, &calls(".")));
}

#[test]
fn a_command_fills_at_most_half_of_what_is_free_where_it_writes_directly() {
    let fixture = Fixture::new();
    let folder = fixture.workspace();
    writing_to(&fixture, Some(&folder));
    let other = fixture.home().join("other");
    std::fs::create_dir(&other).unwrap();
    // The small disk is a further root of another workspace.
    let script = format!("workspace={}\n{}", word(other.to_str().unwrap()), calls(folder.to_str().unwrap()));
    assert_bounded(&on_a_small_disk(&fixture, "workspace", 64, &script));
}

/// Bytes of the state's disk that are left free, from far too few to enough.
const LEFT_FREE: [u32; 12] = [
    20_000, 60_000, 100_000, 150_000, 200_000, 300_000, 400_000, 600_000, 800_000, 1_000_000, 1_500_000,
    3_000_000,
];

#[test]
fn a_change_whose_end_could_not_be_recorded_is_not_made() {
    let fixture = Fixture::with_files(&[("held", "before\n")]);
    let mut script = "call file_write '{\"path\": \"other\", \"content\": \"x\"}'\n".to_owned();
    for (turn, free) in LEFT_FREE.iter().enumerate() {
        let lines = format!("turn {turn}\\\\n").repeat(500);
        // The text takes little space. The file names take more space as database rows than as file
        // contents.
        let many: String = (0..200).map(|file| format!("f{turn}-{file} ")).collect();
        script += &format!(
            "rm -f \"$place/filler\"; full_to() {{ free=$(df --output=avail -B1 \"$place\" | tail -1); \
             [ $free -lt $1 ] || head -c $((free - $1)) /dev/zero >\"$place/filler\"; }}\n\
             answer() {{ answer=$(\"$@\"); echo \"${{answer:-0}}\"; }}\n\
             full_to {free}; printf '{{\"path\": \"held\", \"content\": \"{lines}\"}}' | answer handfast call --yes file_write -\n\
             head -1 held\n\
             answer call shell_execute '{{\"command\": \"touch {many}\"}}'\n\
             ls | grep -c ^f{turn}- || true\n"
        );
    }
    let seen = on_a_small_disk(&fixture, "state", 8, &script);
    let mut text = "before".to_owned();
    let (mut made, mut refused) = (0, 0);
    for (turn, results) in seen[1..].chunks(4).enumerate() {
        let [write, held, touch, files] = results else { panic!("{seen:#?}") };
        for (result, was_made) in
            [(write, held == &json!(format!("turn {turn}"))), (touch, files == &json!(200))]
        {
            if result["ok"] == true {
                made += 1;
                assert!(was_made && result["meta"]["checkpoint"].is_string(), "{result:#}");
            } else {
                refused += 1;
                // Without enough space, the program does not start.
                if result != &json!(0) {
                    assert_no_space(result);
                }
                assert!(!was_made, "{result:#}");
            }
        }
        if write["ok"] == true {
            text = format!("turn {turn}");
        }
        assert_eq!(held, &json!(text), "{write:#}");
    }
    assert!(made >= 4 && refused >= 4, "{made} made, {refused} refused");
}
