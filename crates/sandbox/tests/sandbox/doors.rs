//! Tests of the exits of a network of cells: connections made in a cell arrive outside of it, and
//! no others do.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use sandbox::{CellHost, CellSpec, Command, Exit, Outcome, PROXY_PORT, Program, Stopper, run};

const PORT: u16 = 443;

/// Returns the host of cells with a network of their own, and egress.
fn host() -> CellHost {
    let host = CellHost::default();
    let network = Some(host.isolation.make_network().unwrap());
    CellHost { network, has_egress: true, ..host }
}

fn run_line(host: &CellHost, folder: &std::path::Path, line: &str) -> Outcome {
    let spec = CellSpec {
        workspace: folder.to_owned(),
        spool_directory: std::env::temp_dir(),
        output_limit: 1 << 20,
        ..CellSpec::default()
    };
    let command = Command { program: Program::Shell(line.to_owned()), working_directory: folder.to_owned() };
    run(&spec, host, &command, None, &Stopper::new().unwrap(), &mut |_, _| {}).unwrap()
}

/// Answers each connection with the intended address and the received text.
fn answer(listener: TcpListener) {
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut received = String::new();
            let meant = stream.local_addr().unwrap();
            // The other side ends its half first.
            let mut bytes = [0_u8; 64];
            let count = stream.read(&mut bytes).unwrap();
            received.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
            stream.write_all(format!("{meant} got {received}").as_bytes()).unwrap();
        }
    });
}

#[test]
fn a_connection_to_any_address_arrives_outside_and_says_which_was_meant() {
    let folder = tempfile::tempdir().unwrap();
    let host = host();
    let doors = host.open_listeners(&[PORT]).unwrap().unwrap();
    assert!(doors.proxy.local_addr().unwrap().ip().is_loopback());
    for listener in doors.everywhere {
        answer(listener);
    }
    answer(doors.proxy);
    let line = format!(
        "for at in 93.184.216.34/{PORT} 10.1.2.3/{PORT} 127.0.0.1/{PROXY_PORT}; do \
         exec 3<>/dev/tcp/$at; printf hello >&3; cat <&3; echo; done"
    );
    let outcome = run_line(&host, folder.path(), &line);
    assert_eq!(outcome.exit, Exit::Code(0), "{}", String::from_utf8_lossy(&outcome.stderr.head));
    let printed = String::from_utf8(outcome.stdout.head).unwrap();
    let meant: Vec<_> = printed.lines().map(|line| line.replace("[::ffff:", "").replace(']', "")).collect();
    assert_eq!(
        meant,
        [
            "93.184.216.34:443 got hello".to_owned(),
            "10.1.2.3:443 got hello".to_owned(),
            format!("127.0.0.1:{PROXY_PORT} got hello")
        ]
    );
    assert!(outcome.enforcement.summary().contains(&"network:allowed_hosts".to_owned()));
}

#[test]
fn a_port_without_a_door_refuses_and_no_command_takes_one_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let host = host();
    let _doors = host.open_listeners(&[PORT]).unwrap().unwrap();
    let refused = run_line(&host, folder.path(), "exec 3<>/dev/tcp/93.184.216.34/22");
    assert_ne!(refused.exit, Exit::Code(0));
    assert!(String::from_utf8_lossy(&refused.stderr.head).contains("Connection refused"));
    // A command could take a door's port if that were not reserved.
    let line = "python3 -c 'import socket; socket.socket().bind((\"127.0.0.1\", 881))'";
    let taken = run_line(&host, folder.path(), line);
    assert!(String::from_utf8_lossy(&taken.stderr.head).contains("PermissionError"));
}

#[test]
fn a_second_set_of_doors_of_one_network_is_refused() {
    let host = host();
    let doors = host.open_listeners(&[80, PORT]).unwrap().unwrap();
    assert_eq!(doors.everywhere.len(), 2);
    host.open_listeners(&[80]).unwrap_err();
    drop(doors);
    host.open_listeners(&[80]).unwrap();
}

#[test]
fn a_question_for_a_name_arrives_whatever_server_it_is_for() {
    let folder = tempfile::tempdir().unwrap();
    let host = host();
    let doors = host.open_listeners(&[]).unwrap().unwrap();
    let names = doors.names;
    let heard = thread::spawn(move || {
        let mut bytes = [0_u8; 64];
        let (count, _) = names.recv_from(&mut bytes).unwrap();
        bytes[..count].to_vec()
    });
    let outcome = run_line(&host, folder.path(), "printf question > /dev/udp/203.0.113.9/53");
    assert_eq!(outcome.exit, Exit::Code(0));
    assert_eq!(heard.join().unwrap(), b"question");
}
