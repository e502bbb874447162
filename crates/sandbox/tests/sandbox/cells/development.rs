//! Tests that ordinary development works in a cell.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sandbox::{Exit, Program, SandboxError};

use super::support::{Place, stderr, stdout};

#[test]
fn a_shell_has_pipes_here_documents_jobs_and_substitutions() {
    let place = Place::new();
    assert_eq!(place.output("printf 'b\\na\\n' | sort | tr '\\n' ' '"), "a b ");
    assert_eq!(place.output("cat <<END\nhere\nEND"), "here\n");
    assert_eq!(place.output("(echo one > f; echo two >> f) & wait; cat f"), "one\ntwo\n");
    assert_eq!(place.output("cat <(echo a) <(echo b)"), "a\nb\n");
    assert_eq!(place.output("mkfifo pipe; echo kept | tee >(cat > pipe) > /dev/null & cat pipe"), "kept\n");
    assert_eq!(place.output("echo x > /dev/stdout; echo y > /dev/stderr; echo z > /dev/null"), "x\n");
    assert_eq!(place.output("trap 'echo caught' USR1; kill -USR1 $$; sleep 0; echo on"), "caught\non\n");
    assert_eq!(place.output("read -r line; echo \"$? [$line]\""), "1 []\n");
    assert_eq!(place.sh("-x").exit, Exit::Code(127), "a line that begins with a dash is a line");
}

#[test]
fn the_user_is_agent_with_a_private_home() {
    let place = Place::new();
    assert_eq!(place.output("whoami; id -un; id -gn; id -u; echo ~; pwd"), {
        let workspace = place.spec.workspace.display();
        format!("agent\nagent\nagent\n1000\n/home/agent\n{workspace}\n")
    });
    // The link names of the caches always exist.
    let look = "find ~ -type f -o -name mark | sort";
    let made = place.output(&format!(
        "touch ~/file && mkdir -p ~/.cache/mark && test -w /tmp && test -w /var/tmp && test -w /dev/shm && {look}"
    ));
    assert_eq!(made, "/home/agent/.cache/mark\n/home/agent/file\n");
    assert_eq!(place.output(look), "", "the next cell has a home of its own");
}

#[test]
fn home_files_are_there_and_the_environment_is_built_from_nothing() {
    let mut place = Place::new();
    place.spec.home_files =
        vec![(".gitconfig".into(), b"[user]\n\tname = A\n".to_vec()), ("a/b/c".into(), b"deep".to_vec())];
    place.spec.environment.insert("EXTRA".into(), "given".into());
    assert_eq!(place.output("git config user.name; cat ~/a/b/c"), "A\ndeep");
    assert_eq!(
        place.output("env | cut -d= -f1 | grep -v -x -e _ -e SHLVL | sort | tr '\\n' ' '"),
        "EXTRA HOME LANG LOGNAME PATH PWD SHELL TERM TMPDIR USER "
    );
}

#[test]
fn what_is_written_belongs_to_the_owner_of_the_workspace() {
    let place = Place::new();
    place.output("mkdir -p made/below && echo x > made/below/file && test -O made/below/file");
    let owner = |path: PathBuf| fs::metadata(path).map(|metadata| (metadata.uid(), metadata.gid())).unwrap();
    assert_eq!(owner(place.path("made/below/file")), owner(place.path("")));
}

#[test]
fn git_works_on_a_repository_of_the_workspaces_owner() {
    let place = Place::new();
    place.write("file", "text\n");
    let line = "git init -q . && git add file && git -c user.name=a -c user.email=a@b commit -q -m first \
                && git status --porcelain && git log --format=%s && echo more >> file && git diff --stat | tail -1";
    assert_eq!(place.output(line), "first\n 1 file changed, 1 insertion(+)\n");
}

#[test]
fn c_programs_with_threads_are_built_by_make_and_run() {
    let place = Place::new();
    place.write(
        "t.c",
        "#include <pthread.h>\n#include <stdio.h>\nstatic void *f(void *x){*(int*)x+=1;return 0;}\n\
         int main(void){int n=0;pthread_t t;for(int i=0;i<20;i++){pthread_create(&t,0,f,&n);pthread_join(t,0);}\
         printf(\"%d\\n\",n);return 0;}\n",
    );
    place.write("Makefile", "t: t.c\n\t$(CC) -pthread -o $@ $<\n");
    assert_eq!(place.output("make -s -j2 t && ./t"), "20\n");
}

#[test]
fn python_has_processes_terminals_sockets_and_temporary_files() {
    let place = Place::new();
    place.write(
        "t.py",
        r#"
import multiprocessing, os, pty, socket, subprocess, tempfile, threading
with multiprocessing.Pool(2) as pool:
    print(pool.map(abs, [-1, -2]))
leader, follower = pty.openpty()
os.write(follower, b"typed\n")
typed = b""
while not typed.endswith(b"\n"):
    typed += os.read(leader, 100)
print(os.isatty(follower), typed)
server = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=lambda: server.accept()[0].sendall(b"tcp")).start()
print(socket.create_connection(server.getsockname()).recv(10))
one, other = socket.socketpair()
one.send(b"unix"); print(other.recv(10))
listener = socket.socket(socket.AF_UNIX); listener.bind("sock"); listener.listen()
client = socket.socket(socket.AF_UNIX); client.connect("sock"); print("connected")
with tempfile.NamedTemporaryFile() as file:
    print(file.name.startswith("/tmp/"))
print(subprocess.run(["sh", "-c", "exit 3"]).returncode)
print(len(socket.if_nameindex()))
"#,
    );
    let expected = "[1, 2]\nTrue b'typed\\r\\n'\nb'tcp'\nb'unix'\nconnected\nTrue\n3\n1\n";
    assert_eq!(place.output("/usr/bin/python3 t.py"), expected);
}

#[test]
fn node_runs_timers_threads_and_children() {
    let place = Place::new();
    place.write(
        "t.js",
        "const {Worker}=require('worker_threads');const cp=require('child_process');\n\
         console.log(cp.execSync('echo child').toString().trim(), require('os').cpus().length > 0);\n\
         new Worker('require(\"worker_threads\").parentPort.postMessage(1)',{eval:true})\n\
         .on('message',m=>setTimeout(()=>console.log('worker',m),1));\n",
    );
    assert_eq!(place.output("node t.js"), "child true\nworker 1\n");
}

#[test]
fn cargo_builds_offline_with_the_toolchain_and_registry_shown_read_only() {
    let cargo = Path::new(env!("CARGO"));
    let toolchain = cargo.parent().and_then(Path::parent).unwrap();
    let registry = env!("CARGO_MANIFEST_DIR");
    // The registry that this build has filled, found by the source of a dependency.
    let cargo_home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
    let Some(cargo_home) = cargo_home.filter(|home| home.join("registry/src").is_dir()) else {
        eprintln!(
            "no filled registry is readable for this user ({registry}): only the C and script tests count"
        );
        return;
    };
    let mut place = Place::new();
    place.write(
        "Cargo.toml",
        "[package]\nname=\"t\"\nversion=\"0.1.0\"\nedition=\"2024\"\n[dependencies]\nmemchr=\"2\"\n",
    );
    place.write("src/main.rs", "fn main(){println!(\"{:?}\",memchr::memchr(b'c',b\"abc\"))}\n");
    place.spec.read_only = vec![toolchain.to_owned(), cargo_home.clone()];
    let mut search: Vec<PathBuf> = vec![toolchain.join("bin")];
    search.extend(["/usr/bin".into(), "/bin".into()]);
    place.spec.search_path = search;
    place.spec.environment.insert("CARGO_HOME".into(), cargo_home.into());
    assert_eq!(place.output("cargo build -q --offline && ./target/debug/t"), "Some(2)\n");
}

#[test]
fn programs_that_cannot_start_are_told_apart() {
    let place = Place::new();
    place.write("plain", "text");
    place.output(
        "printf '#!/no/such/interpreter\\n' > script; printf 'no header\\n' > bare; chmod +x script bare",
    );
    assert!(matches!(place.argv(&["no-such-program"]), Err(SandboxError::ProgramNotFound { .. })));
    assert!(matches!(place.argv(&["./no-such-program"]), Err(SandboxError::ProgramNotFound { .. })));
    for program in ["./plain", "./script", "./bare", "."] {
        let result = place.argv(&[program, "x"]);
        let named = matches!(&result, Err(SandboxError::NotExecutable { program: found, .. }) if found == program)
            || (program == "." && matches!(result, Err(SandboxError::ProgramNotFound { .. })));
        assert!(named, "{program}: {result:?}");
    }
    let outcome = place.argv(&["echo", "found", "by", "name"]).unwrap();
    assert_eq!(stdout(&outcome), "found by name\n");
}

#[test]
fn a_working_directory_that_is_not_in_the_cell_is_said() {
    let place = Place::new();
    let elsewhere = tempfile::tempdir().unwrap();
    for folder in [elsewhere.path(), Path::new("/root"), Path::new("/no/such")] {
        let command = sandbox::Command {
            program: Program::Shell("true".to_owned()),
            working_directory: folder.to_owned(),
        };
        let stopper = sandbox::Stopper::new().unwrap();
        let result = sandbox::run(&place.spec, &place.host, &command, None, &stopper, &mut |_, _| {});
        assert!(matches!(result, Err(SandboxError::WorkingDirectory { .. })), "{folder:?}: {result:?}");
    }
}

#[test]
fn cells_run_side_by_side() {
    let place = Place::new();
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..16)
            .map(|number| {
                scope.spawn({
                    let place = &place;
                    move || place.output(&format!("echo {number}; cat /proc/self/comm"))
                })
            })
            .collect();
        for (number, run) in runs.into_iter().enumerate() {
            assert_eq!(run.join().unwrap(), format!("{number}\ncat\n"));
        }
    });
}

#[test]
fn streams_are_kept_apart_and_counted() {
    let place = Place::new();
    let outcome = place.sh("echo out; echo err >&2; printf 'no newline' >&2; exit 5");
    assert_eq!((stdout(&outcome).as_str(), stderr(&outcome).as_str()), ("out\n", "err\nno newline"));
    assert_eq!((outcome.stdout.lines, outcome.stderr.lines), (1, 2));
    assert_eq!((outcome.exit, outcome.ended), (Exit::Code(5), sandbox::EndReason::Finished));
}
