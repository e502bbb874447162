//! Tests of the files that a command finds in its home from the previous one.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use sandbox::{Exit, Home, KeptHome};

use super::support::{Place, is_root, stderr, stdout};

/// Makes a place whose cells keep the caches of their home in a separate folder.
fn place() -> (Place, Arc<KeptHome>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut place = Place::new();
    let home = Arc::new(KeptHome::new(folder.path().join("home"), &place.spec.workspace).unwrap());
    place.host.kept_home = Some(home.clone());
    (place, home, folder)
}

#[test]
fn caches_are_there_for_the_next_command_and_for_no_other_workspace() {
    let (place, home, _folder) = place();
    let line = "mkdir -p ~/.cache/pip/http ~/.cargo/registry/index ~/go/pkg/mod && \
                for cache in .npm .cache/pip/http .cache/go-build .cargo/registry/index go/pkg/mod .m2/repository; do \
                echo $cache > ~/$cache/mark || exit 1; done";
    let outcome = place.sh(line);
    assert_eq!(
        (outcome.exit, outcome.enforcement.home),
        (Exit::Code(0), Home::CachesKept),
        "{}",
        stderr(&outcome)
    );
    let look = "cd && cat .npm/mark .cache/pip/http/mark .cache/go-build/mark .cargo/registry/index/mark \
                go/pkg/mod/mark .m2/repository/mark";
    assert_eq!(
        place.output(look),
        ".npm\n.cache/pip/http\n.cache/go-build\n.cargo/registry/index\ngo/pkg/mod\n.m2/repository\n"
    );
    assert!(home.caches().join("npm/mark").exists());
    let (other, ..) = self::place();
    assert_eq!(other.output("cd && find -L . -name mark"), "");
}

#[test]
fn nothing_but_caches_outlives_a_command() {
    let (place, ..) = place();
    let outcome = place.sh("cd && mkdir -p .config/git .local/bin .local/lib .cargo/bin .cache/launcher && \
        touch .bashrc .profile .gitconfig .config/git/config .npmrc .cargo/config.toml .cargo/bin/x .local/bin/x \
        .local/lib/x .cache/launcher/x go/x && echo cache > .npm/kept && find . -name x | wc -l");
    assert_eq!((outcome.exit, stdout(&outcome)), (Exit::Code(0), "5\n".to_owned()), "{}", stderr(&outcome));
    assert_eq!(
        place.output("cd && cat .npm/kept; find . -type f; ls .cargo go .cache | grep x || true"),
        "cache\n./.kept/npm/kept\n"
    );
}

#[test]
fn without_a_folder_the_same_caches_are_in_memory() {
    let place = Place::new();
    let outcome = place.sh("cd && echo x > .npm/a && mkdir -p .cache/go-build/00 go/pkg/mod && cat .npm/a");
    assert_eq!(stdout(&outcome), "x\n", "{}", stderr(&outcome));
    assert_eq!(outcome.enforcement.home, Home::Fresh);
    assert_eq!(place.output("ls ~/.npm"), "");
}

#[test]
fn what_is_kept_belongs_to_nobody_who_could_do_harm_with_it() {
    let (place, home, folder) = place();
    place.output("cp /bin/true ~/.npm/program && ~/.npm/program && mkdir ~/.npm/deep");
    let outcome = place.sh("chmod u+s ~/.npm/program");
    assert_eq!(outcome.exit, Exit::Code(1), "{}", stdout(&outcome));
    for name in ["", "npm", "npm/program", "npm/deep"] {
        let found = fs::metadata(home.caches().join(name)).unwrap();
        let own = fs::metadata(folder.path()).unwrap().uid();
        assert!(
            if is_root() { found.uid() != 0 && found.gid() != 0 } else { found.uid() == own },
            "{name}: {found:?}"
        );
    }
    // No other user than that of this program can enter the folder.
    assert_eq!(fs::metadata(folder.path().join("home")).unwrap().mode() & 0o777, 0o700);
    let mounts = place.output("grep /home/agent/.kept /proc/self/mountinfo");
    assert!(mounts.contains("nosuid") && mounts.contains("nodev"), "{mounts}");
}

#[test]
fn a_command_that_ruins_its_caches_does_not_ruin_the_next_ones() {
    let (place, home, _folder) = place();
    place.output("cd ~/.kept && rm -rf pip go && ln -s /etc go && echo x > pip && mkdir -p npm/closed && chmod 0 npm/closed . ");
    assert_eq!(
        place.output(
            "cd && ls -d .npm/closed && echo y > .cache/pip/y && mkdir go/pkg/mod && cat .cache/pip/y"
        ),
        ".npm/closed\ny\n"
    );
    assert!(home.caches().join("go/mod").is_dir());
}

#[test]
fn nothing_of_the_host_is_seen_around_the_caches() {
    let (place, home, folder) = place();
    fs::write(folder.path().join("beside"), "secret").unwrap();
    let around = folder.path().display();
    assert_eq!(place.output("cd -P ~/.npm/../.. && pwd && find . -name lock"), "/home/agent\n");
    let outcome = place.sh(&format!("cat {around}/beside {around}/home/lock"));
    assert_eq!((outcome.exit, stdout(&outcome)), (Exit::Code(1), String::new()));
    // A file of the workspace cannot be hard-linked into a cache, nor a file of a cache into the
    // workspace.
    let outcome = place.sh("echo x > here && ln here ~/.npm/here");
    assert!(stderr(&outcome).contains("cross-device"), "{}", stderr(&outcome));
    assert!(!home.caches().join("npm/here").exists());
}

#[test]
fn caches_that_cannot_be_kept_are_in_memory_and_the_command_runs() {
    let mut place = Place::new();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let home = KeptHome::new(file.join("home"), &place.spec.workspace).unwrap();
    place.host.kept_home = Some(Arc::new(home));
    let outcome = place.sh("echo x > ~/.npm/a && cat ~/.npm/a");
    assert_eq!((stdout(&outcome), outcome.enforcement.home), ("x\n".to_owned(), Home::Fresh));
}

#[test]
fn nobody_has_the_caches_alone_while_a_command_runs() {
    let (place, home, _folder) = place();
    place.output("true");
    let observed = parking_lot::Mutex::new(Vec::new());
    let command = sandbox::Command {
        program: sandbox::Program::Shell("echo running".to_owned()),
        working_directory: place.spec.workspace.clone(),
    };
    super::run(
        &place.spec,
        &place.host,
        &command,
        Some(super::support::TIMEOUT),
        &sandbox::Stopper::new().unwrap(),
        &mut |_, _| {
            observed.lock().push(home.alone().unwrap().is_none());
        },
    )
    .unwrap();
    assert_eq!(observed.into_inner(), [true]);
    assert!(home.alone().unwrap().is_some());
}
