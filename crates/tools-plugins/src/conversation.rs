//! Requests and answers over the pipes of a process that serves.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use plugins::LARGEST_ANSWER;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::{Errno, read, write};
use sandbox::{ProgramPipes, UntilConnected};
use tool::Stop;

/// Bytes per read.
const CHUNK: usize = 64 * 1024;

/// Reason why a conversation is over. The process must then end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The call was stopped.
    Stopped,
    /// The process had ended before it could read the request.
    EndedBefore,
    /// The process has ended, or closed its standard output, and may have read the request.
    Ended,
    /// The answer is too long.
    TooLong,
    /// The process wrote something that no request asked for.
    Unasked(Vec<u8>),
    /// A pipe fails.
    Failed(Errno),
}

/// The pipes of a process.
pub(crate) struct Conversation {
    input: OwnedFd,
    output: OwnedFd,
    /// Second writer of the output. It is kept until the process is known to have opened its own end.
    until_connected: Option<UntilConnected>,
}

/// Stop of a call as a descriptor.
pub(crate) struct StopEvent(Arc<OwnedFd>);

impl StopEvent {
    pub(crate) fn of(stop: &Stop) -> Result<Self, Errno> {
        let event = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let wakes = event.clone();
        stop.on_request(move |_| {
            // The only possible failure is a counter at its maximum, which wakes the thread as well.
            let _full = write(&wakes, &1_u64.to_ne_bytes());
        });
        Ok(Self(event))
    }
}

impl Conversation {
    pub(crate) fn over(pipes: ProgramPipes) -> Self {
        let ProgramPipes { input, output, until_connected } = pipes;
        Self { input, output, until_connected: Some(until_connected) }
    }

    /// Sends a request and returns the line of the answer. Blocks until then, or until the stop.
    ///
    /// # Errors
    /// [`Broken`]
    pub(crate) fn ask(&mut self, request: &[u8], stop: &StopEvent) -> Result<Vec<u8>, Broken> {
        self.expect_silence()?;
        self.send(request, stop)?;
        let mut answer = Vec::new();
        let mut chunk = vec![0_u8; CHUNK];
        loop {
            match read(&self.output, &mut chunk[..]) {
                Ok(0) => return Err(Broken::Ended),
                Ok(length) => {
                    let new = chunk.get(..length).unwrap_or_default();
                    let end = new.iter().position(|byte| *byte == b'\n');
                    let (line, rest) = new.split_at(end.map_or(length, |at| at + 1));
                    answer.extend_from_slice(line);
                    if answer.len() > LARGEST_ANSWER {
                        return Err(Broken::TooLong);
                    }
                    if !rest.is_empty() {
                        return Err(Broken::Unasked(rest.to_vec()));
                    }
                    if end.is_some() {
                        // The process has opened its end, so the end of the output now means that of the process.
                        self.until_connected = None;
                        return Ok(answer);
                    }
                }
                Err(Errno::AGAIN) => wait(&self.output, PollFlags::IN, stop)?,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(Broken::Failed(errno)),
            }
        }
    }

    /// Checks that the process has written nothing since its last answer.
    fn expect_silence(&self) -> Result<(), Broken> {
        let mut some = [0_u8; 512];
        match read(&self.output, &mut some) {
            Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Ok(0) => Err(Broken::EndedBefore),
            Ok(length) => Err(Broken::Unasked(some.get(..length).unwrap_or_default().to_vec())),
            Err(errno) => Err(Broken::Failed(errno)),
        }
    }

    fn send(&self, request: &[u8], stop: &StopEvent) -> Result<(), Broken> {
        let mut rest = request;
        while !rest.is_empty() {
            match write(&self.input, rest) {
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(Errno::AGAIN) => wait(&self.input, PollFlags::OUT, stop)?,
                Err(Errno::INTR) => {}
                Err(Errno::PIPE) if rest.len() == request.len() => return Err(Broken::EndedBefore),
                Err(Errno::PIPE) => return Err(Broken::Ended),
                Err(errno) => return Err(Broken::Failed(errno)),
            }
        }
        Ok(())
    }
}

/// Waits until the pipe is ready.
fn wait(pipe: &OwnedFd, wanted: PollFlags, stop: &StopEvent) -> Result<(), Broken> {
    let mut events = [PollFd::new(pipe, wanted), PollFd::new(&stop.0, PollFlags::IN)];
    match poll(&mut events, None) {
        Ok(_) if !events[1].revents().is_empty() => Err(Broken::Stopped),
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(Broken::Failed(errno)),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use rustix::fs::{OFlags, fcntl_setfl};
    use rustix::pipe::{PipeFlags, pipe_with};
    use tool::StopReason;

    use super::*;

    /// Returns a conversation, and the ends of the process.
    fn conversation() -> (Conversation, OwnedFd, OwnedFd) {
        let (their_input, input) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let (output, their_output) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        for ours in [&input, &output] {
            fcntl_setfl(ours, OFlags::NONBLOCK).unwrap();
        }
        let until_connected = their_output.try_clone().unwrap().into();
        (Conversation::over(ProgramPipes { input, output, until_connected }), their_input, their_output)
    }

    /// Answers one request with these bytes.
    fn answering(input: OwnedFd, output: OwnedFd, answer: Vec<u8>) -> thread::JoinHandle<OwnedFd> {
        thread::spawn(move || {
            let mut request = [0_u8; 64];
            read(&input, &mut request).unwrap();
            let mut rest = &answer[..];
            // The caller may give up before all is written.
            while let Some(written) = write(&output, rest).ok().filter(|_| !rest.is_empty()) {
                rest = &rest[written..];
            }
            drop(output);
            input
        })
    }

    fn asked(answer: &[u8]) -> Result<Vec<u8>, Broken> {
        let (mut talk, input, output) = conversation();
        let process = answering(input, output, answer.to_vec());
        let stop = Stop::default();
        let got = talk.ask(b"{}\n", &StopEvent::of(&stop).unwrap());
        drop(talk);
        process.join().unwrap();
        got
    }

    #[test]
    fn one_line_is_an_answer_and_nothing_else_is() {
        assert_eq!(asked(b"{\"a\":1}\n").unwrap(), b"{\"a\":1}\n");
        assert_eq!(asked(b"one\ntwo\n"), Err(Broken::Unasked(b"two\n".to_vec())));
        assert_eq!(asked(&vec![b'x'; LARGEST_ANSWER + CHUNK]), Err(Broken::TooLong));
    }

    #[test]
    fn the_end_of_a_process_and_unasked_output_are_noticed() {
        let (mut talk, input, output) = conversation();
        let stop = Stop::default();
        let event = StopEvent::of(&stop).unwrap();
        let process = answering(input, output, b"{}\n".to_vec());
        assert_eq!(talk.ask(b"{}\n", &event).unwrap(), b"{}\n");
        let _input = process.join().unwrap();
        assert_eq!(talk.ask(b"{}\n", &event), Err(Broken::EndedBefore));
        let (mut other, _their_input, their_output) = conversation();
        write(&their_output, b"noise").unwrap();
        assert_eq!(other.ask(b"{}\n", &event), Err(Broken::Unasked(b"noise".to_vec())));
    }

    #[test]
    fn a_stop_ends_the_wait_for_a_process_that_is_silent_or_reads_nothing() {
        for request in [b"{}\n".to_vec(), vec![b'x'; 1024 * 1024]] {
            let (mut talk, _input, _output) = conversation();
            let stop = Stop::default();
            let event = StopEvent::of(&stop).unwrap();
            let waiting = thread::spawn(move || talk.ask(&request, &event));
            stop.request(StopReason::Deadline);
            assert_eq!(waiting.join().unwrap(), Err(Broken::Stopped));
        }
    }
}
