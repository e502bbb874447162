//! The process's standard streams, without threads if possible.
//!
//! The non-blocking flag belongs to the open file description, which a shell or a terminal may
//! share. With the flag set, the other process would suddenly get read errors, so this module never
//! sets it on a shared description. A pipe is reopened through `/proc`, which creates a new
//! description. A socket is used with per-call flags. All other streams (a terminal, a file) use
//! the runtime's blocking threads.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::net::{RecvFlags, SendFlags};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::unix::pipe;

/// Capacity of the pipe to the client, in bytes: the maximum that Linux permits an unprivileged
/// process (`pipe-max-size`). A large response then takes a sixteenth of the context switches.
const PIPE_CAPACITY: usize = 1024 * 1024;

/// Input stream of the client's messages.
pub(crate) enum Input {
    Pipe(pipe::Receiver),
    Socket(Socket),
    Blocking(tokio::io::Stdin),
}

/// Output stream of messages to the client.
pub(crate) enum Output {
    Pipe(pipe::Sender),
    Socket(Socket),
    Blocking(tokio::io::Stdout),
}

/// Opens standard input.
pub(crate) fn input() -> io::Result<Input> {
    Input::over(std::io::stdin().as_fd())
}

/// Opens standard output.
pub(crate) fn output() -> io::Result<Output> {
    Output::over(std::io::stdout().as_fd())
}

impl Input {
    fn over(stream: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(match kind(stream)? {
            Stream::Pipe => match reopen(stream, std::fs::OpenOptions::new().read(true)) {
                Ok(pipe) => Self::Pipe(pipe::Receiver::from_owned_fd(pipe)?),
                // The pipe belongs to another user, or `/proc` is not mounted.
                Err(_) => Self::Blocking(tokio::io::stdin()),
            },
            Stream::Socket => Self::Socket(Socket::over(stream)?),
            Stream::Other => Self::Blocking(tokio::io::stdin()),
        })
    }
}

impl Output {
    fn over(stream: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(match kind(stream)? {
            Stream::Pipe => {
                // Best effort: if the user's pipe quota is exhausted, the size stays unchanged.
                let _ = rustix::pipe::fcntl_setpipe_size(stream, PIPE_CAPACITY);
                match reopen(stream, std::fs::OpenOptions::new().write(true)) {
                    Ok(pipe) => Self::Pipe(pipe::Sender::from_owned_fd(pipe)?),
                    Err(_) => Self::Blocking(tokio::io::stdout()),
                }
            }
            Stream::Socket => Self::Socket(Socket::over(stream)?),
            Stream::Other => Self::Blocking(tokio::io::stdout()),
        })
    }
}

enum Stream {
    Pipe,
    Socket,
    Other,
}

fn kind(stream: BorrowedFd<'_>) -> io::Result<Stream> {
    let kind = std::fs::File::from(stream.try_clone_to_owned()?).metadata()?.file_type();
    Ok(if kind.is_fifo() {
        Stream::Pipe
    } else if kind.is_socket() {
        Stream::Socket
    } else {
        Stream::Other
    })
}

/// Reopens the pipe with a new file description.
fn reopen(stream: BorrowedFd<'_>, options: &mut std::fs::OpenOptions) -> io::Result<OwnedFd> {
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}", stream.as_raw_fd());
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    Ok(options.custom_flags(nonblocking).open(path)?.into())
}

/// A stream socket that another process may share. Node gives sockets to its children in place of pipes.
pub(crate) struct Socket(AsyncFd<OwnedFd>);

impl Socket {
    fn over(stream: BorrowedFd<'_>) -> io::Result<Self> {
        #[expect(
            deprecated,
            reason = "what makes it unsound is a type that gives out changing descriptors; an OwnedFd is one for life"
        )]
        let socket = AsyncFd::new(stream.try_clone_to_owned()?)?;
        Ok(Self(socket))
    }
}

impl AsyncRead for Input {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Pipe(pipe) => Pin::new(pipe).poll_read(context, buffer),
            Self::Blocking(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Socket(Socket(socket)) => loop {
                let mut ready = ready!(socket.poll_read_ready(context))?;
                let room = buffer.initialize_unfilled();
                let read = ready.try_io(|socket| {
                    rustix::net::recv(socket, room, RecvFlags::DONTWAIT).map_err(io::Error::from)
                });
                match read {
                    Ok(Ok((read, _))) => {
                        buffer.advance(read);
                        return Poll::Ready(Ok(()));
                    }
                    Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                    Ok(Err(error)) => return Poll::Ready(Err(error)),
                    // Spurious readiness: wait again.
                    Err(_) => {}
                }
            },
        }
    }
}

impl AsyncWrite for Output {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Pipe(pipe) => Pin::new(pipe).poll_write(context, bytes),
            Self::Blocking(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Socket(Socket(socket)) => loop {
                let mut ready = ready!(socket.poll_write_ready(context))?;
                let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                let written =
                    ready.try_io(|socket| rustix::net::send(socket, bytes, flags).map_err(io::Error::from));
                match written {
                    Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                    Ok(result) => return Poll::Ready(result),
                    Err(_) => {}
                }
            },
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Pipe(_) | Self::Socket(_) => Poll::Ready(Ok(())),
            Self::Blocking(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(context)
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::OFlags;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn is_nonblocking(stream: impl AsFd) -> bool {
        rustix::fs::fcntl_getfl(stream).unwrap().contains(OFlags::NONBLOCK)
    }

    async fn carries_a_large_message(mut input: Input, mut output: Output) {
        let message = vec![7; 3 * PIPE_CAPACITY];
        let sent = message.clone();
        let writer = tokio::spawn(async move {
            output.write_all(&sent).await.unwrap();
            output.flush().await.unwrap();
        });
        let mut received = vec![0; message.len()];
        input.read_exact(&mut received).await.unwrap();
        writer.await.unwrap();
        assert_eq!(received, message);
    }

    #[tokio::test]
    async fn a_pipe_is_read_without_a_thread_and_keeps_its_flags() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let input = Input::over(reader.as_fd()).unwrap();
        let output = Output::over(writer.as_fd()).unwrap();
        let (Input::Pipe(own), Output::Pipe(_)) = (&input, &output) else { panic!("both are pipes") };
        assert!(is_nonblocking(own), "the reopened pipe does not block");
        assert!(!is_nonblocking(&reader) && !is_nonblocking(&writer), "the shared ones still do");
        drop(writer);
        carries_a_large_message(input, output).await;
    }

    #[tokio::test]
    async fn a_socket_is_read_without_a_thread_and_keeps_its_flags() {
        let (left, right) = std::os::unix::net::UnixStream::pair().unwrap();
        let input = Input::over(left.as_fd()).unwrap();
        let output = Output::over(right.as_fd()).unwrap();
        assert!(matches!((&input, &output), (Input::Socket(_), Output::Socket(_))));
        assert!(!is_nonblocking(&left) && !is_nonblocking(&right));
        carries_a_large_message(input, output).await;
    }

    #[tokio::test]
    async fn the_end_of_the_other_side_is_the_end_of_the_stream() {
        let (left, right) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut input = Input::over(left.as_fd()).unwrap();
        let mut output = Output::over(left.as_fd()).unwrap();
        drop(right);
        assert_eq!(input.read(&mut [0]).await.unwrap(), 0);
        let error = output.write_all(b"x").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);

        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let mut output = Output::over(writer.as_fd()).unwrap();
        drop(reader);
        let error = output.write_all(b"x").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[tokio::test]
    async fn a_file_goes_through_the_blocking_streams() {
        let file = tempfile::tempfile().unwrap();
        assert!(matches!(Input::over(file.as_fd()).unwrap(), Input::Blocking(_)));
        assert!(matches!(Output::over(file.as_fd()).unwrap(), Output::Blocking(_)));
    }
}
