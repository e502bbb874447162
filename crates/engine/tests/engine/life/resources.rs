//! Tests of everything that outlives a call, with a pool and threads made for the purpose.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::mpsc::channel;

use jiff::Timestamp;
use serde_json::json;
use tool::{CallId, Owner, Resource, ResourcePool, ResourceUsage, SessionId, Stop};

use super::{Bench, runtime};

/// Pool with one resource of every session, which records what it is told.
#[derive(Default)]
struct Recorded(Mutex<Vec<(&'static str, Owner)>>);

impl ResourcePool for Recorded {
    fn list(&self, now: Timestamp) -> Vec<Resource> {
        vec![Resource {
            kind: "browser",
            owner: session(),
            since: now,
            description: "shows sk-1234567890abcdef".to_owned(),
            usage: ResourceUsage { bytes: Some(7), ..ResourceUsage::default() },
        }]
    }

    fn stop(&self, owner: &Owner) {
        self.0.lock().push(("stop", owner.clone()));
    }

    fn join(&self, owner: &Owner) {
        self.0.lock().push(("join", owner.clone()));
    }
}

fn session() -> Owner {
    Owner::Session(SessionId("s1".to_owned()))
}

#[test]
fn a_pool_is_listed_without_secrets_and_told_when_a_call_a_session_and_the_runtime_end() {
    let pool = Arc::new(Recorded::default());
    let bench = Bench::with([], vec![pool.clone()]);
    let listed = bench.engine.resources();
    assert_eq!((listed.len(), listed[0].kind), (1, "browser"));
    assert_eq!(listed[0].description, "shows [SECRET:TOKEN]");
    let call: CallId = bench.call("probe_read", json!({"path": "a"})).meta.call_id;
    runtime().block_on(async {
        bench.engine.end_session(&SessionId("s1".to_owned())).await;
        bench.engine.shutdown().await;
    });
    let told = pool.0.lock().clone();
    let expected = [
        ("stop", Owner::Call(call)),
        ("stop", session()),
        ("join", session()),
        ("stop", Owner::Runtime),
        ("join", Owner::Runtime),
    ];
    assert_eq!(told, expected);
}

/// Starts a thread that runs until it is stopped. The channel closes when it ends.
fn start(bench: &Bench, owner: Owner) -> std::sync::mpsc::Receiver<()> {
    let (lives, ends) = channel();
    let work = move |stop: &Stop| {
        let (says, hears) = channel();
        stop.on_request(move |_| says.send(()).unwrap());
        hears.recv().unwrap();
        drop(lives);
    };
    bench.engine.threads().start("waits", owner, work).unwrap();
    ends
}

#[test]
fn a_thread_ends_with_its_session_and_another_with_the_drop_of_the_engine() {
    let bench = Bench::new([]);
    let of_session = start(&bench, session());
    let of_runtime = start(&bench, Owner::Runtime);
    assert_eq!(bench.engine.resources().len(), 2);
    runtime().block_on(bench.engine.end_session(&SessionId("s1".to_owned())));
    assert!(of_session.try_recv().is_err_and(|error| error == std::sync::mpsc::TryRecvError::Disconnected));
    let listed = bench.engine.resources();
    assert_eq!((listed.len(), &listed[0].owner), (1, &Owner::Runtime));
    drop(bench);
    assert!(of_runtime.try_recv().is_err_and(|error| error == std::sync::mpsc::TryRecvError::Disconnected));
}
