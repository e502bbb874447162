//! `handfast csp`: answers CSP/1 requests on standard input.

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use dialects::Dialect;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::BufReader;

use super::serving::{prepare, present, start_spawner};
use super::{Failure, tokio_runtime};
use crate::cli::Global;
use crate::compose::{RuntimeOptions, compose};
use crate::report::note;
use crate::signals::Signals;

/// Interval between checks for a reader of the answers.
const LOOK: Duration = Duration::from_millis(500);

/// Maximum time for writing the answers to cancelled requests.
const LAST_ANSWERS: Duration = Duration::from_secs(10);

pub(super) fn run(global: &Global) -> Result<ExitCode, Failure> {
    if global.dialect.is_some_and(|dialect| dialect != Dialect::Csp1) {
        return Err(Failure::usage("CSP/1 is itself a dialect: leave --dialect out"));
    }
    let global = Global { dialect: Some(Dialect::Csp1), ..global.clone() };
    let composed = compose(RuntimeOptions::serving(&global, start_spawner()))?;
    if composed.toolset.dialect != Dialect::Csp1 {
        return Err(Failure::usage("the administrator's configuration names a dialect other than csp1"));
    }
    let options = door_csp::Options::new(composed.session.clone());
    if io::stdin().is_terminal() {
        note("answering CSP/1 on standard input; an empty line ends a request, Ctrl-D ends it");
    }
    let runtime = tokio_runtime()?;
    let engine = composed.engine.clone();
    prepare(&runtime, &engine);
    let _listening = present(&composed, None);
    let ended = runtime.block_on(async {
        let mut signals = Signals::listen()?;
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let input = BufReader::new(tokio::io::stdin());
        let serving = door_csp::serve(engine.clone(), options, input, tokio::io::stdout(), async {
            // The sender is never dropped before the end.
            let _ = stopped.await;
        });
        tokio::pin!(serving);
        let ended = tokio::select! {
            served = &mut serving => served.map(|()| 0),
            () = nobody_reads() => Ok(0),
            code = signals.next() => {
                let _ = stop.send(());
                tokio::select! {
                    // A reader that is too slow, or a second signal, forfeits these answers.
                    _ = tokio::time::timeout(LAST_ANSWERS, &mut serving) => {}
                    _ = signals.next() => {}
                }
                Ok(code)
            }
        };
        engine.shutdown().await;
        ended
    });
    runtime.shutdown_background();
    composed.store.close()?;
    composed.close_traces();
    match ended {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        ended => Ok(ExitCode::from(ended?)),
    }
}

/// Waits until standard output is a pipe or a socket without a reader.
async fn nobody_reads() {
    loop {
        tokio::time::sleep(LOOK).await;
        let out = io::stdout();
        let mut asked = [PollFd::new(&out, PollFlags::empty())];
        let told = poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        if told.is_ok() && asked[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) {
            return;
        }
    }
}
