//! The suite of `tests/sandbox/cells` once more, in cells that waited.

#[path = "../sandbox/cells/attacks.rs"]
mod attacks;
#[path = "../sandbox/cells/development.rs"]
mod development;
#[path = "../sandbox/cells/ending.rs"]
mod ending;
#[path = "../sandbox/cells/files.rs"]
mod files;
#[path = "../sandbox/cells/homes.rs"]
mod homes;
#[path = "../sandbox/cells/late.rs"]
mod late;
#[path = "../sandbox/cells/limits.rs"]
mod limits;
#[path = "../sandbox/cells/support.rs"]
mod support;

use crate::SPAWNER;
use sandbox::{CellHost, CellSpec, Origin, Outcome, Pool, Program, SandboxError, Spawner};

/// Runs through the spawner, and verifies that: a suite that fell back would prove nothing.
fn run(
    spec: &CellSpec,
    host: &CellHost,
    command: &sandbox::Command,
    deadline: Option<std::time::Duration>,
    stopper: &sandbox::Stopper,
    on_output: &mut dyn FnMut(sandbox::Stream, &[u8]),
) -> Result<Outcome, SandboxError> {
    let host = CellHost { spawner: SPAWNER.get().cloned(), ..host.clone() };
    let outcome = sandbox::run(spec, &host, command, deadline, stopper, on_output)?;
    assert_eq!(outcome.origin, Origin::Spawner);
    Ok(outcome)
}

#[test]
fn a_second_spawner_is_refused_because_there_are_threads() {
    assert!(matches!(Spawner::start(Pool::default()), Err(SandboxError::TooLate { threads: 2.. })));
}

#[test]
fn a_root_that_stands_where_the_foundation_does_gets_a_cell_of_its_own() {
    let place = support::Place::new();
    let spec = CellSpec { read_only: vec!["/opt".into(), "/var".into()], ..place.spec.clone() };
    let host = CellHost { spawner: SPAWNER.get().cloned(), ..CellHost::default() };
    let command = sandbox::Command {
        program: Program::Shell("echo x > /opt/x; echo x > /var/tmp/x && cat /var/tmp/x".to_owned()),
        working_directory: spec.workspace.clone(),
    };
    let outcome =
        sandbox::run(&spec, &host, &command, None, &sandbox::Stopper::new().unwrap(), &mut |_, _| {})
            .unwrap();
    assert_eq!(outcome.origin, Origin::Made);
    assert_eq!(support::stdout(&outcome), "x\n", "the cell's own folder lies on top of the root's");
    assert!(support::stderr(&outcome).contains("Read-only file system"));
}

#[test]
fn all_cells_of_a_spawner_share_a_network_also_those_that_it_did_not_make() {
    let place = support::Place::new();
    let network_in = |spec: &CellSpec, host: &CellHost, origin| {
        let command = sandbox::Command {
            program: Program::Shell(
                "readlink /proc/self/ns/net; grep -c lo: /proc/net/dev; id -u".to_owned(),
            ),
            working_directory: spec.workspace.clone(),
        };
        let stopper = sandbox::Stopper::new().unwrap();
        let outcome = sandbox::run(spec, host, &command, None, &stopper, &mut |_, _| {}).unwrap();
        assert_eq!(outcome.origin, origin);
        (support::stdout(&outcome), outcome.enforcement.network)
    };
    let host = CellHost { spawner: SPAWNER.get().cloned(), ..CellHost::default() };
    let waiting = &place.spec;
    let made = CellSpec { read_only: vec!["/opt".into()], ..waiting.clone() };
    let (shared, reach) = network_in(waiting, &host, Origin::Spawner);
    assert_eq!(reach, sandbox::NetworkReach::Session);
    assert_eq!(network_in(waiting, &host, Origin::Spawner).0, shared);
    assert_eq!(network_in(&made, &host, Origin::Made), (shared.clone(), reach));
    assert!(shared.ends_with("\n1\n1000\n"), "{shared}");
    // The controls: without the spawner a cell has a separate network, and none of them is the
    // host's.
    let (own, reach) = network_in(&place.spec, &place.host, Origin::Made);
    assert_eq!(reach, sandbox::NetworkReach::Own);
    let host = std::fs::read_link("/proc/self/ns/net").unwrap().display().to_string();
    assert!(own != shared && !own.starts_with(&host) && !shared.starts_with(&host), "{own}{shared}{host}");
}

#[test]
fn the_cells_of_another_spawner_wait_in_a_network_of_its_own() {
    let place = support::Place::new();
    let network_in = |spec: &CellSpec, host: &CellHost, line: &str| {
        let command = sandbox::Command {
            program: Program::Shell(line.to_owned()),
            working_directory: spec.workspace.clone(),
        };
        let stopper = sandbox::Stopper::new().unwrap();
        let outcome = sandbox::run(spec, host, &command, None, &stopper, &mut |_, _| {}).unwrap();
        (support::stdout(&outcome), outcome.origin, outcome.enforcement.network)
    };
    let first = SPAWNER.get().cloned().unwrap();
    // This program has threads by now, and can still start the spawners.
    let others: Vec<_> = (0..3).map(|_| std::sync::Arc::new(first.another().unwrap())).collect();
    let line = "readlink /proc/self/ns/net; grep -c lo: /proc/net/dev; id -u";
    let mut seen = Vec::new();
    for spawner in others.iter().chain([&first]) {
        let (spec, spawner) = (place.spec.clone(), Some(spawner.clone()));
        let host = CellHost { spawner, ..CellHost::default() };
        let (network, origin, reach) = network_in(&spec, &host, line);
        assert_eq!((origin, reach), (Origin::Spawner, sandbox::NetworkReach::Session));
        assert_eq!(
            network_in(&spec, &host, line),
            (network.clone(), Origin::Spawner, reach),
            "one network for all of its cells"
        );
        // A cell that this program makes itself is in the network too.
        let made = CellSpec { read_only: vec!["/opt".into()], ..spec };
        assert_eq!(network_in(&made, &host, line), (network.clone(), Origin::Made, reach));
        seen.push(network);
    }
    let host = std::fs::read_link("/proc/self/ns/net").unwrap().display().to_string();
    assert!(
        seen.iter().all(|network| !network.starts_with(&host) && network.ends_with("\n1\n1000\n")),
        "{seen:?}"
    );
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 4, "no two share a network: {seen:?}");
}

#[test]
fn a_request_of_megabytes_arrives_whole() {
    let place = support::Place::new();
    let arguments: Vec<_> = ["/bin/sh", "-c", r#"echo $# "$(echo $* | cksum)""#, "sh"]
        .into_iter()
        .map(str::to_owned)
        .chain((0..10).map(|number| number.to_string().repeat(100_000)))
        .collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let said = support::stdout(&place.argv(&arguments).unwrap());
    // The control: the same in a cell that was made for the command.
    let command = sandbox::Command {
        program: Program::Argv(arguments.iter().map(Into::into).collect()),
        working_directory: place.spec.workspace.clone(),
    };
    let made = sandbox::run(
        &place.spec,
        &place.host,
        &command,
        None,
        &sandbox::Stopper::new().unwrap(),
        &mut |_, _| {},
    );
    let made = made.unwrap();
    assert_eq!((made.origin, support::stdout(&made)), (Origin::Made, said.clone()));
    assert!(said.starts_with("10 ") && said.ends_with(" 1000010\n"), "{said}");
}

#[test]
fn sixty_four_commands_at_once_all_run_in_cells_of_the_spawner() {
    let threads: Vec<_> = (0..64)
        .map(|number: u32| {
            std::thread::spawn(move || {
                let place = support::Place::new();
                place.output(&format!("echo {number} > file; cat file; ls /proc | grep -c '^[0-9]'"))
            })
        })
        .collect();
    for (number, thread) in threads.into_iter().enumerate() {
        let said = thread.join().unwrap();
        assert_eq!(said.lines().next(), Some(&*number.to_string()));
    }
}
