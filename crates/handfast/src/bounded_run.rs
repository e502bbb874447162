//! The run of another program for a bounded time.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

/// Maximum size of the output that is returned, in bytes.
const LARGEST: u64 = 1024 * 1024;

/// The outcome of a run.
#[derive(Debug)]
pub(crate) enum BoundedRun {
    /// The program ended by itself.
    Ended {
        /// Beginning of standard output and standard error, in the order of writing.
        output: String,
        status: ExitStatus,
    },
    /// The program was killed at the end of its time, with its process group.
    TimedOut,
}

/// Runs a program with this standard input, until it ends or its time is over.
///
/// The output goes to a file without a name. A process that the program leaves behind therefore
/// delays nothing, as it would with a pipe.
///
/// # Errors
/// If the program cannot be started or watched. No process is left then.
pub(crate) fn run_within(mut command: Command, input: &[u8], limit: Duration) -> io::Result<BoundedRun> {
    let mut stdin = anonymous_file()?;
    stdin.write_all(input)?;
    stdin.rewind()?;
    let mut output = anonymous_file()?;
    let mut child = command
        .stdin(stdin)
        .stdout(output.try_clone()?)
        .stderr(output.try_clone()?)
        .process_group(0)
        .spawn()?;
    let has_ended = ends_within(&child, limit);
    if !matches!(has_ended, Ok(true)) {
        kill(&child);
    }
    let status = child.wait()?;
    if !has_ended? {
        return Ok(BoundedRun::TimedOut);
    }
    Ok(BoundedRun::Ended { output: beginning(&mut output)?, status })
}

/// Creates a file in memory, without a name.
fn anonymous_file() -> io::Result<File> {
    Ok(memfd_create("handfast", MemfdFlags::CLOEXEC)?.into())
}

/// Waits for the end of the program. Returns false if the time is over first.
fn ends_within(child: &Child, limit: Duration) -> io::Result<bool> {
    let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let began = Instant::now();
    loop {
        let left = limit.saturating_sub(began.elapsed());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&left)) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn kill(child: &Child) {
    // The group exists as long as its leader was not waited for.
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
}

fn beginning(file: &mut File) -> io::Result<String> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests run a shell")]
mod tests {
    use std::os::unix::fs::OpenOptionsExt as _;

    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_program_that_ends_returns_its_output_and_status() {
        let ran = run_within(shell("echo one; echo two >&2; exit 3"), b"", Duration::from_mins(1)).unwrap();
        let BoundedRun::Ended { output, status } = ran else { panic!("{ran:?}") };
        assert_eq!((output.as_str(), status.code()), ("one\ntwo\n", Some(3)));
    }

    #[test]
    fn a_program_that_hangs_is_killed_with_the_processes_of_its_group() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        let mode = rustix::fs::Mode::RWXU;
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let read = std::thread::spawn({
            let fifo = fifo.clone();
            // Returns when no process of the group has the FIFO open any longer.
            move || std::fs::read(fifo)
        });
        let script = format!("exec 3>{}; sleep 1000 & sleep 1000", fifo.display());
        let ran = run_within(shell(&script), b"", Duration::from_millis(200)).unwrap();
        assert!(matches!(ran, BoundedRun::TimedOut), "{ran:?}");
        // A shell that was killed before it opened the FIFO must not leave the reader waiting.
        drop(std::fs::OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(&fifo));
        assert_eq!(read.join().unwrap().unwrap(), b"");
    }

    #[test]
    fn a_process_that_the_program_leaves_behind_delays_nothing() {
        let ran = run_within(shell("sleep 1000 & echo $!"), b"", Duration::from_mins(1)).unwrap();
        let BoundedRun::Ended { output, .. } = ran else { panic!("{ran:?}") };
        let left_behind = Pid::from_raw(output.trim().parse().unwrap()).unwrap();
        rustix::process::kill_process(left_behind, Signal::KILL).unwrap();
    }

    #[test]
    fn a_missing_program_is_an_error() {
        let error = run_within(Command::new("/nowhere/client"), b"", Duration::from_mins(1)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
