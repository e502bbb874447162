//! The inside half of a probe: one attempt to overstep the limits, made by a process in a cell, or
//! outside of one as the control.
//!
//! The result of an attempt is one line on standard output. A process that ends without one has not
//! answered.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};
use rustix::process::{
    Gid, Pid, Signal, Uid, WaitId, WaitIdOptions, WaitOptions, geteuid, getpid, kill_process, setsid, waitid,
    waitpid,
};
use rustix::thread::{
    CapabilitySet, SecureComputingMode, capabilities, capability_is_in_bounding_set, no_new_privs,
    secure_computing_mode, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

use crate::egress_listener::PROXY_PORT;
use crate::isolation::try_namespaces;
use crate::sys::{self, AtEnd, Side, attempts};

/// Content of a probe's files.
pub const MARKER: &str = "marker of a probe";
/// Output of a process that waits to be seen or killed.
pub(super) const WAITING: &str = "waiting";
/// Attempts that cannot be refused: waiting, looking around, and writing a number of bytes.
pub(super) const WAIT: &str = "wait";
pub(super) const LOOK: &str = "look";
pub(super) const OUTPUT: &str = "output";

/// Kinds of namespaces that belong to a cell, as `/proc/self/ns` names them.
pub(super) const NAMESPACES: [&str; 7] = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"];

/// Maximum lifetime of a process that should have been killed.
const LONGEST_SURVIVAL: Duration = Duration::from_mins(1);

/// The result of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The attempt worked.
    Done(String),
    /// The attempt was refused.
    Refused(String),
}

impl Answer {
    /// Parses the line that [`attempt`] prints; returns `None` for any other line.
    pub(super) fn parse(output: &str) -> Option<Self> {
        let (word, detail) = output.trim_end().split_once(' ')?;
        match word {
            "done" => Some(Self::Done(detail.to_owned())),
            "refused" => Some(Self::Refused(detail.to_owned())),
            _ => None,
        }
    }
}

/// Makes the attempt named by the arguments and prints its result. The program of an
/// [`Attempter`](super::Attempter) must call this, in a process with one thread.
///
/// An attempt that is not refused takes effect on the machine. The attempts are harmless: they
/// read, write and kill only objects that the probe has made for them.
///
/// # Errors
/// Returns an error if the attempt is unknown or could not be started.
pub fn attempt(arguments: &[OsString]) -> io::Result<()> {
    let (name, arguments) =
        arguments.split_first().and_then(|(name, rest)| Some((name.to_str()?, rest))).ok_or_else(unknown)?;
    let answer = match name {
        WAIT => return wait(),
        LOOK => return look(),
        OUTPUT => return write_out(number(arguments, 0)?),
        _ => make(name, arguments)?,
    };
    let line = match answer {
        Ok(detail) => format!("done {detail}\n"),
        Err(error) => format!("refused {error}\n"),
    };
    io::stdout().write_all(line.as_bytes())
}

/// Makes an attempt. The inner result is the answer; the outer one is an error if no attempt was
/// made.
fn make(name: &str, arguments: &[OsString]) -> io::Result<io::Result<String>> {
    let path = |index: usize| arguments.get(index).map(Path::new).ok_or_else(unknown);
    Ok(match name {
        "read" => read(path(0)?),
        "seek" => seek(path(0)?),
        "read-by-symlink" => std::os::unix::fs::symlink(path(0)?, path(1)?).and_then(|()| read(path(1)?)),
        "read-by-hard-link" => fs::hard_link(path(0)?, path(1)?).and_then(|()| read(path(1)?)),
        "read-after-rename" => fs::rename(path(0)?, path(1)?).and_then(|()| read(path(2)?)),
        "write" => fs::write(path(0)?, MARKER).map(|()| "it was written".to_owned()),
        "write-in-home" => fs::write(in_home(path(0)?)?, MARKER).map(|()| "it was written".to_owned()),
        "read-in-home" => read(&in_home(path(0)?)?),
        "set-user-id-mode" => fs::set_permissions(path(0)?, fs::Permissions::from_mode(0o4755))
            .map(|()| "the bit was set".to_owned()),
        "set-user-id-program" => gain(arguments)?,
        "connect" => TcpStream::connect(("127.0.0.1", number(arguments, 0)?)).map(connected),
        "ask-proxy" => ask_proxy(text(arguments)?),
        "look-up" => (text(arguments)?, 0).to_socket_addrs().and_then(|mut found| {
            let first = found.next().ok_or_else(|| io::Error::other("it has no address"))?;
            Ok(format!("it is {}", first.ip()))
        }),
        "connect-abstract" => {
            let name = arguments.first().ok_or_else(unknown)?;
            let address = SocketAddr::from_abstract_name(name.as_bytes())?;
            UnixStream::connect_addr(&address).map(connected)
        }
        "connect-path" => UnixStream::connect(path(0)?).map(connected),
        "namespace" => namespace(path(0)?),
        "mount" => {
            // Outside of a cell, an ordinary user may mount in new namespaces alone.
            let _refused_inside = attempts::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS);
            mount("tmpfs", path(0)?, "tmpfs", MountFlags::empty(), None)
                .map(|()| "mounted".to_owned())
                .map_err(io::Error::from)
        }
        "trace" => attempts::ask_to_be_traced().map(|()| "it is traced".to_owned()).map_err(io::Error::from),
        "memory" => Ok(touch(number(arguments, 0)?)),
        "processes" => fork_many(number(arguments, 0)?),
        "file-size" => fill(path(0)?, number(arguments, 1)?),
        "see" => see(path(0)?),
        "kill" => kill(number(arguments, 0)?),
        "survive" => survive(path(0)?),
        "have-namespaces" => {
            become_user(number(arguments, 0)?)?;
            try_namespaces().map(|()| "there are namespaces".to_owned()).map_err(io::Error::other)
        }
        _ => return Err(unknown()),
    })
}

/// Returns the path of this name in the home of this process, which the cell has chosen.
fn in_home(name: &Path) -> io::Result<PathBuf> {
    std::env::home_dir().map(|home| home.join(name)).ok_or_else(unknown)
}

fn unknown() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "there is no such attempt")
}

fn number<T: std::str::FromStr>(arguments: &[OsString], index: usize) -> io::Result<T> {
    let text = arguments.get(index).and_then(|argument| argument.to_str());
    text.and_then(|text| text.parse().ok()).ok_or_else(unknown)
}

fn connected<T>(_stream: T) -> String {
    "connected".to_owned()
}

fn text(arguments: &[OsString]) -> io::Result<&str> {
    arguments.first().and_then(|text| text.to_str()).ok_or_else(unknown)
}

/// Asks the proxy of this process's network for a page of the host.
fn ask_proxy(host: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", PROXY_PORT))?;
    write!(stream, "GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let first = answer.lines().next().unwrap_or_default();
    if first.starts_with("HTTP/1.1 2") {
        return Ok(format!("{host} answered"));
    }
    let last = answer.lines().last().unwrap_or_default();
    Err(io::Error::other(format!("{first}: {last}")))
}

/// Searches for a file with the marker, at any depth.
fn seek(folder: &Path) -> io::Result<String> {
    let (mut pending, mut found) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                pending.push(path);
            } else if fs::read_to_string(&path).is_ok_and(|content| content.contains(MARKER)) {
                found.push(path);
            }
        }
    }
    match found.first() {
        Some(first) => Ok(format!("{} were found, among them {}", found.len(), first.display())),
        None => Err(io::Error::other("none was found")),
    }
}

fn read(path: &Path) -> io::Result<String> {
    let content = fs::read(path)?;
    if content == MARKER.as_bytes() {
        return Ok("its content was read".to_owned());
    }
    Err(io::Error::other("it does not have its content"))
}

/// Makes a user namespace in the given way.
fn namespace(way: &Path) -> io::Result<String> {
    match way.to_str() {
        Some("unshare") => attempts::unshare(libc::CLONE_NEWUSER)?,
        Some("clone") => match attempts::fork_into_namespaces(libc::CLONE_NEWUSER)? {
            None => sys::exit(0),
            Some(child) => reap(child)?,
        },
        Some("clone3") => match sys::clone_into_namespaces(libc::CLONE_NEWUSER, AtEnd::ChildSignal, None)? {
            Side::Child => sys::exit(0),
            Side::Parent(child, _) => reap(child)?,
        },
        _ => return Err(unknown()),
    }
    Ok("it was made".to_owned())
}

fn reap(child: i32) -> io::Result<()> {
    waitpid(Pid::from_raw(child), WaitOptions::empty())?;
    Ok(())
}

/// Uses this much memory, in bytes.
fn touch(bytes: usize) -> String {
    let mut memory = vec![0_u8; bytes];
    for page in memory.chunks_mut(4096) {
        if let Some(first) = page.first_mut() {
            *first = 1;
        }
    }
    let used: usize =
        std::hint::black_box(&memory).chunks(4096).filter(|page| page.first() == Some(&1)).count();
    format!("{} MiB were used", used >> 8)
}

/// Time for which a resource is occupied that a watchdog should see: several of its samples.
const HELD: Duration = Duration::from_secs(1);

/// Runs `count` processes at once for some time.
fn fork_many(count: usize) -> io::Result<String> {
    let (reader, writer) = io::pipe()?;
    for made in 0..count {
        match sys::fork() {
            Ok(None) => {
                drop(writer);
                // Ends with its parent, for any reason.
                let _end = rustix::io::read(&reader, &mut [0_u8; 1]);
                sys::exit(0)
            }
            Ok(Some(_)) => {}
            Err(errno) => return Err(io::Error::other(format!("{errno} after {made} processes"))),
        }
    }
    thread::sleep(HELD);
    Ok(format!("{count} processes were there at once"))
}

fn fill(path: &Path, bytes: u64) -> io::Result<String> {
    let written = io::copy(&mut io::repeat(0).take(bytes), &mut File::create(path)?)?;
    Ok(format!("{} MiB were written", written >> 20))
}

/// Prints facts about this process, each on a line that begins with its name.
fn look() -> io::Result<()> {
    let sets = capabilities(None)?;
    let none = (sets.effective | sets.permitted | sets.inheritable).is_empty();
    let bounded = (0..u64::BITS).all(|bit| {
        let one = CapabilitySet::from_bits_retain(1 << bit);
        !capability_is_in_bounding_set(one).unwrap_or(false)
    });
    let mut facts = format!(
        "capabilities {}\nbounding-set {}\nno-new-privileges {}\nseccomp {}\nuser {}\n",
        if none { "none" } else { "some" },
        if bounded { "empty" } else { "not empty" },
        no_new_privs()?,
        secure_computing_mode()? == SecureComputingMode::Filter,
        geteuid().as_raw(),
    );
    for name in NAMESPACES {
        // An unreadable link gives an empty value, which the reader treats as unknown.
        let link = fs::read_link(format!("/proc/self/ns/{name}")).unwrap_or_default();
        facts.push_str(&format!("namespace.{name} {}\n", link.display()));
    }
    io::stdout().write_all(facts.as_bytes())
}

fn write_out(bytes: u64) -> io::Result<()> {
    io::copy(&mut io::repeat(b'x').take(bytes), &mut io::stdout()).map(drop)
}

/// Searches for a process with this argument.
fn see(argument: &Path) -> io::Result<String> {
    let own = getpid().as_raw_nonzero().get();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let process: Option<i32> = entry.file_name().to_str().and_then(|name| name.parse().ok());
        if process.is_none_or(|process| process == own) {
            continue;
        }
        // A process that has ended in the meantime or hides its arguments counts as not seen.
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if line.split(|&byte| byte == 0).any(|found| found == argument.as_os_str().as_bytes()) {
            return Ok("its command line was read".to_owned());
        }
    }
    Err(io::Error::from(Errno::SRCH))
}

fn kill(pid: i32) -> io::Result<String> {
    let process = Pid::from_raw(pid).filter(|&pid| pid != getpid()).ok_or(Errno::SRCH)?;
    kill_process(process, Signal::KILL)?;
    Ok("the signal was sent".to_owned())
}

/// Gives up root's rights. This process has one thread.
fn become_user(id: u32) -> io::Result<()> {
    let (user, group) = (Uid::from_raw(id), Gid::from_raw(id));
    set_thread_groups(&[])?;
    set_thread_res_gid(group, group, group)?;
    set_thread_res_uid(user, user, user)?;
    Ok(())
}

/// Starts a program of the system that runs with its owner's rights, and checks whose rights it
/// has.
fn gain(candidates: &[OsString]) -> io::Result<io::Result<String>> {
    // Root has nothing to gain, and in a cell no process is root.
    if geteuid().is_root() {
        become_user(65534)?;
    }
    let program = candidates.first().ok_or_else(unknown)?;
    #[expect(
        clippy::disallowed_methods,
        reason = "this runs in a cell, or is the control of what runs in one"
    )]
    let mut command = Command::new(program);
    // Without input the program cannot ask a question that a user would have to answer.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // When `spawn` returns, the new process runs the other program.
    let mut started = match command.spawn() {
        Ok(started) => started,
        Err(error) => return Ok(Err(error)),
    };
    let pid = Pid::from_child(&started);
    // A stopped or ended process stays until it is reaped.
    let _ended = kill_process(pid, Signal::STOP);
    waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
    let status = fs::read_to_string(format!("/proc/{}/status", started.id()));
    let _ended = started.kill();
    started.wait()?;
    let status = status?;
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
    let ids: Vec<&str> = users.split_whitespace().collect();
    Ok(match ids[..] {
        [real, effective, ..] if real != effective => Ok(format!("it ran as user {effective}")),
        [_, _, ..] => Err(io::Error::other("it ran with the rights of who started it")),
        _ => return Err(io::Error::other("nothing is known of its user")),
    })
}

/// Prints that it waits, and waits until its input ends.
fn wait() -> io::Result<()> {
    writeln!(io::stdout(), "{WAITING}")?;
    io::copy(&mut io::stdin(), &mut io::sink()).map(drop)
}

/// Leaves a detached process behind that ignores SIGTERM, and continues. Both processes lock the
/// file while they live.
fn survive(path: &Path) -> io::Result<String> {
    // Blocked signals have the effect of ignored ones.
    let _blocked = sys::block_signals();
    let file = File::create(path)?;
    flock(&file, FlockOperation::LockExclusive)?;
    if sys::fork()?.is_none() {
        let _own_session = setsid();
        if let Ok(Some(_)) = sys::fork() {
            sys::exit(0);
        }
        thread::sleep(LONGEST_SURVIVAL);
        sys::exit(0);
    }
    writeln!(io::stdout(), "{WAITING}")?;
    thread::sleep(LONGEST_SURVIVAL);
    Ok("it was not killed".to_owned())
}
