//! Tries the artefacts in a clean root: a small system without Rust and without a network, in which each artefact is
//! installed as `docs/INSTALL.md` says, and then every command of the read-me is followed.
//!
//! The scripts beside this crate's sources do the work; `clean-root/commands.py` lists the commands. With `--emulated`, the
//! program of the other architecture is run in the same root by an emulator. Making the root needs a network and takes minutes, so it
//! is kept below the build folder. Its files belong to root: `sudo rm -r target/clean-root` removes it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::artefacts::file_name;
use crate::command::{Failure, Result, capture, probe, read, run, write};
use crate::product::{NAME, Product};
use crate::target::Target;

/// Users that install: root, and the ordinary user that `make.sh` makes.
const USERS: [&str; 2] = ["root", "ada"];
/// Programs that make and enter the root, each with the Debian package that has it.
const PROGRAMS: [(&str, &str); 5] = [
    ("debootstrap", "debootstrap"),
    ("mkfs.ext4", "e2fsprogs"),
    ("unshare", "util-linux"),
    ("pivot_root", "util-linux"),
    ("ip", "iproute2"),
];
/// The oldest QEMU that was tried with success; 7.2 has no `openat2`.
const OLDEST_QEMU: u32 = 10;
/// Longest time for one form and user. A program that hangs is a failure.
const SECONDS: &str = "900";

/// Tries the artefacts of this folder. Returns a line for each way to install and each user.
///
/// # Errors
///
/// Fails after all of them were tried if one does not work.
pub(crate) fn try_all(product: &Product, artefacts: &Path, emulated: bool) -> Result<Vec<String>> {
    check_artefacts(product, artefacts, emulated)?;
    let scripts = product.root.join("xtask/dist/clean-root");
    // The cheap check precedes the long work.
    let forms = capture(Command::new("python3").arg(scripts.join("commands.py")).arg(&product.root))?;
    let emulators = if emulated { emulators()? } else { Vec::new() };
    check_programs()?;
    let folder = product.build_folder.join("clean-root");
    let root = Root { image: image(product, &folder, &scripts)?, folder };
    root.bring(product, &scripts, artefacts, &emulators)?;

    let mut trials: Vec<(&str, String)> = Vec::new();
    for form in forms.lines() {
        trials.extend(
            USERS.map(|user| (user, format!("/usr/bin/python3 /handfast/clean-root/follow.py {form}"))),
        );
    }
    for (target, _) in &emulators {
        let script = "/opt/client/bin/python /handfast/clean-root/emulated.py";
        trials.push(("ada", format!("{script} {}", target.python())));
    }
    let (mut lines, mut failures) = (Vec::new(), Vec::new());
    for (user, script) in &trials {
        match root.run(&scripts, user, script) {
            Ok(printed) => lines.push(printed.trim().to_owned()),
            Err(failure) => failures.push(format!("as {user}, `{script}`: {failure}")),
        }
    }
    if failures.is_empty() {
        Ok(lines)
    } else {
        Err(Failure(format!("in the clean root:\n{}\n{}", lines.join("\n"), failures.join("\n"))))
    }
}

/// The image of the clean root's system, and the folder for what one trial brings and changes.
struct Root {
    image: PathBuf,
    folder: PathBuf,
}

impl Root {
    fn brought(&self) -> PathBuf {
        self.folder.join("brought")
    }

    /// Copies what the scripts need into the folder that they see as /handfast.
    fn bring(
        &self,
        product: &Product,
        scripts: &Path,
        artefacts: &Path,
        emulators: &[(Target, PathBuf)],
    ) -> Result<()> {
        let brought = self.brought();
        run(as_root("rm").arg("-rf").arg(&brought))?;
        for path in ["README.md", "docs/INSTALL.md"] {
            write(&brought.join(path), &product.read(path)?)?;
        }
        run(Command::new("cp").arg("-r").arg(scripts).arg(brought.join("clean-root")))?;
        run(Command::new("cp").arg("-r").arg(artefacts).arg(brought.join("artefacts")))?;
        for (target, emulator) in emulators {
            let name = format!("{NAME}-{}-{target}", product.version);
            let archive = artefacts.join(format!("{name}.tar.gz"));
            let to = brought.join(target.python());
            std::fs::create_dir_all(&to)
                .map_err(|error| Failure(format!("cannot make a folder: {error}")))?;
            let mut tar = Command::new("tar");
            tar.arg("-xzf").arg(&archive).arg("--strip-components=1").arg("-C").arg(&to);
            run(tar.arg(format!("{name}/{NAME}")))?;
            run(Command::new("cp").arg("--dereference").arg(emulator).arg(to.join("emulator")))?;
        }
        // The ordinary user reads them, too, whatever the mask of this one.
        run(Command::new("chmod").args(["-R", "a+rX"]).arg(&brought))
    }

    /// Runs a script as this user in the root, which is as new for each, and returns what it printed.
    fn run(&self, scripts: &Path, user: &str, script: &str) -> Result<String> {
        eprintln!("$ as {user}: {script}");
        let scratch = self.folder.join("scratch");
        run(as_root("rm").args(["-rf", "--one-file-system"]).arg(&scratch))?;
        let mut command = as_root("timeout");
        command.args(["--kill-after=10", SECONDS, "unshare", "--mount", "--pid", "--net", "--ipc", "--uts"]);
        command.args(["--fork", "--kill-child", "sh"]).arg(scripts.join("enter.sh"));
        command.arg(&self.image).arg(&scratch).arg(self.brought()).arg(user).arg(script);
        let printed = capture(&mut command);
        run(as_root("rm").args(["-rf", "--one-file-system"]).arg(&scratch))?;
        printed
    }
}

/// Makes the image of the clean root's system, unless it is there. Returns its path.
fn image(product: &Product, folder: &Path, scripts: &Path) -> Result<PathBuf> {
    let (image, system, stamp) = (folder.join("system.img"), folder.join("system"), folder.join("made-of"));
    let tools = scripts.join("tools.txt");
    let requirements = product.read("xtask/test-tools/requirements.txt")?;
    let of = [read(&scripts.join("make.sh"))?, read(&tools)?, requirements].concat();
    if std::fs::read_to_string(&stamp).is_ok_and(|made| made == of) {
        return Ok(image);
    }
    run(as_root("rm").args(["-rf", "--one-file-system"]).args([&image, &system, &stamp]))?;
    std::fs::create_dir_all(folder).map_err(|error| Failure(format!("cannot make a folder: {error}")))?;
    let mut make = as_root("unshare");
    make.args(["--mount", "sh"]).arg(scripts.join("make.sh")).args([&image, &system, &tools]);
    run(&mut make)?;
    // The stamp is written last, so an interrupted installation never counts as complete.
    write(&stamp, &of)?;
    Ok(image)
}

/// Refuses artefacts that are incomplete, changed since, or of another version.
fn check_artefacts(product: &Product, artefacts: &Path, emulated: bool) -> Result<()> {
    let mut sums = Command::new("sha256sum");
    run(sums.args(["--check", "--strict", "--quiet", "SHA256SUMS"]).current_dir(artefacts))?;
    let needed =
        Target::ALL.into_iter().filter(|target| emulated || Target::of_this_machine() == Some(*target));
    for target in needed {
        let path = artefacts.join(format!("{NAME}-{}-{target}.tar.gz", product.version));
        if !path.is_file() {
            let (name, folder) = (file_name(&path), artefacts.display());
            return Err(Failure(format!("{name} is not in {folder}; make the artefacts anew")));
        }
    }
    Ok(())
}

/// Returns an emulator for each architecture that this machine has not.
fn emulators() -> Result<Vec<(Target, PathBuf)>> {
    let others = Target::ALL.into_iter().filter(|target| Target::of_this_machine() != Some(*target));
    others.map(|target| Ok((target, emulator(target)?))).collect()
}

/// Returns a QEMU that has the system call `openat2`, with which Handfast opens every file.
fn emulator(target: Target) -> Result<PathBuf> {
    let names = ["-static", ""].map(|end| format!("qemu-{}{end}", target.python()));
    let wanted = format!("--emulated needs {} of QEMU {OLDEST_QEMU} or newer", names[1]);
    let path = names.iter().find_map(|name| found(name)).ok_or_else(|| Failure::new(&wanted))?;
    let stated = capture(Command::new(&path).arg("--version"))?;
    let version = stated.split_once(" version ").and_then(|(_, version)| version.split('.').next());
    match version.and_then(|version| version.parse::<u32>().ok()) {
        Some(version) if version >= OLDEST_QEMU => Ok(path),
        _ => Err(Failure(format!("{wanted}; this is {}", stated.lines().next().unwrap_or_default()))),
    }
}

fn check_programs() -> Result<()> {
    match PROGRAMS.iter().find(|(program, _)| found(program).is_none()) {
        None => Ok(()),
        Some((program, package)) => {
            Err(Failure(format!("the clean root needs {program}: sudo apt install {package}")))
        }
    }
}

/// Returns the path of a program, which may be one for root.
fn found(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    folders.map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// Returns a command that runs as root, by `sudo` if this process does not.
fn as_root(program: &str) -> Command {
    if probe(Command::new("sh").args(["-c", r#"test "$(id -u)" = 0"#])) {
        Command::new(program)
    } else {
        let mut sudo = Command::new("sudo");
        sudo.arg(program);
        sudo
    }
}
