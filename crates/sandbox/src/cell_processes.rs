//! Search for the process behind a connection that left a network of cells: the kernel's socket
//! table tells the socket, and the open files of a cell's processes tell who has it.

use std::collections::HashSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use crate::stdin_wait::descendants;

/// Maximum number of processes of a cell that are examined.
const MAX_PROCESSES: usize = 4096;

/// The first processes of the cells that one call has started.
#[derive(Debug, Default)]
pub struct CellProcesses(Mutex<Vec<i32>>);

/// A connection of a program in a network of cells, as the accepting side sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellConnection {
    /// Address of the program's socket.
    pub client: SocketAddr,
    /// Address that the program connected to.
    pub server: SocketAddr,
}

impl CellProcesses {
    /// Adds a cell, by the process that all of its processes descend from.
    pub(crate) fn add(&self, first: i32) {
        self.0.lock().push(first);
    }

    /// Removes a cell that has ended.
    pub(crate) fn remove(&self, first: i32) {
        self.0.lock().retain(|known| *known != first);
    }

    /// Returns true if none of these cells is running.
    pub fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Returns the bytes of memory that the processes of these cells use, without what they share with
    /// files. Blocks while `/proc` is read.
    pub fn memory(&self) -> u64 {
        let cells = self.0.lock().clone();
        cells.into_iter().flat_map(|first| descendants(first, MAX_PROCESSES)).map(memory_of).sum()
    }

    /// Returns the program whose process has the connection open, or `None` if no process of these
    /// cells has it. Blocks while `/proc` is read.
    pub fn program_of(&self, connection: &CellConnection) -> Option<PathBuf> {
        let cells = self.0.lock().clone();
        cells.into_iter().find_map(|first| program_in(first, connection))
    }
}

/// Marks a cell as one of its call until this is dropped.
pub(crate) struct RunningCell<'a> {
    processes: Option<&'a CellProcesses>,
    first: i32,
}

impl<'a> RunningCell<'a> {
    pub(crate) fn of(processes: Option<&'a CellProcesses>, first: i32) -> Self {
        if let Some(processes) = processes {
            processes.add(first);
        }
        Self { processes, first }
    }
}

impl Drop for RunningCell<'_> {
    fn drop(&mut self) {
        if let Some(processes) = self.processes {
            processes.remove(self.first);
        }
    }
}

/// Returns the bytes of anonymous and of shared memory of a process; 0 if it has ended.
fn memory_of(process: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let kib = |field: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(field))?;
        value.split_whitespace().next()?.parse::<u64>().ok()
    };
    ["RssAnon:", "RssShmem:"].into_iter().filter_map(kib).sum::<u64>() * 1024
}

fn program_in(first: i32, connection: &CellConnection) -> Option<PathBuf> {
    let processes = descendants(first, MAX_PROCESSES);
    // The first process may be outside of the cell's network.
    let networks: Vec<i32> = {
        let mut seen = HashSet::new();
        let network = |pid: &i32| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
        processes
            .iter()
            .copied()
            .filter(|pid| network(pid).is_some_and(|network| seen.insert(network)))
            .collect()
    };
    let socket = networks.into_iter().find_map(|pid| {
        ["tcp", "tcp6"].into_iter().find_map(|table| {
            let table = fs::read_to_string(format!("/proc/{pid}/net/{table}")).ok()?;
            table.lines().skip(1).find_map(|line| inode_of(line, connection))
        })
    })?;
    let wanted = PathBuf::from(format!("socket:[{socket}]"));
    let holder = processes.into_iter().find(|pid| has_open(*pid, &wanted))?;
    fs::read_link(format!("/proc/{holder}/exe")).ok()
}

fn has_open(pid: i32, wanted: &Path) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    descriptors.flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(|target| target == wanted))
}

/// Reads one line of `/proc/PID/net/tcp` (`proc_pid_net(5)`). Returns the inode of the socket if the
/// line is that of the connection.
fn inode_of(line: &str, connection: &CellConnection) -> Option<u64> {
    let mut words = line.split_whitespace().skip(1);
    let (local, remote) = (address(words.next()?)?, address(words.next()?)?);
    let is_it = same(local, connection.client) && same(remote, connection.server);
    // Six words follow: state, queues, timer, retransmissions, user, timeouts.
    words.nth(6)?.parse().ok().filter(|inode| is_it && *inode != 0)
}

fn same(one: SocketAddr, other: SocketAddr) -> bool {
    one.ip().to_canonical() == other.ip().to_canonical() && one.port() == other.port()
}

/// Reads an address as the kernel prints it: words of four bytes in the machine's order, then the
/// port, all hexadecimal.
fn address(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.split_once(':')?;
    let mut bytes = Vec::with_capacity(16);
    for at in (0..host.len()).step_by(8) {
        let word = u32::from_str_radix(host.get(at..at + 8)?, 16).ok()?;
        bytes.extend(word.to_ne_bytes());
    }
    let ip = match bytes.len() {
        4 => IpAddr::V4(Ipv4Addr::from(*bytes.first_chunk()?)),
        16 => IpAddr::V6(Ipv6Addr::from(*bytes.first_chunk()?)),
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::{TcpListener, TcpStream};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test is about another process")]
    fn the_memory_of_a_cell_is_that_of_its_processes_that_run() {
        let cells = CellProcesses::default();
        assert_eq!(cells.memory(), 0);
        // Builtins alone, so that the shell itself holds the text.
        let script = r#"printf -v text "%033554432d" 0; echo ready; read -r end"#;
        let mut holder = Command::new("bash")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let first = i32::try_from(holder.id()).unwrap();
        cells.add(first);
        let mut ready = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        assert_eq!(ready, "ready\n");
        let memory = cells.memory();
        assert!((32 << 20..512 << 20).contains(&memory), "{memory}");
        drop(holder.stdin.take());
        holder.wait().unwrap();
        assert_eq!(cells.memory(), 0, "it has ended");
        cells.remove(first);
        assert_eq!(cells.memory(), 0);
    }

    #[test]
    fn a_line_of_the_kernels_table_is_read() {
        let line = "   0: 0100007F:1F90 0101A8C0:01BB 01 00000000:00000000 00:00000000 00000000  1000  0 424242 1 0 20";
        let [client, server] = ["127.0.0.1:8080", "192.168.1.1:443"].map(|text| text.parse().unwrap());
        #[cfg(target_endian = "little")]
        assert_eq!(inode_of(line, &CellConnection { client, server }), Some(424_242));
        assert_eq!(inode_of(line, &CellConnection { client: server, server: client }), None);
        assert_eq!(inode_of("  sl  local_address", &CellConnection { client, server }), None);
        assert_eq!(address("0100007F"), None);
    }

    #[test]
    fn a_connection_of_this_process_is_found_and_one_of_nobody_is_not() {
        for at in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(at) else { continue };
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let connection =
                CellConnection { client: stream.local_addr().unwrap(), server: stream.peer_addr().unwrap() };
            let own = i32::try_from(std::process::id()).unwrap();
            assert_eq!(program_in(own, &connection), std::env::current_exe().ok());
            let nobodys = CellConnection { server: "192.0.2.1:443".parse().unwrap(), ..connection };
            assert_eq!(program_in(own, &nobodys), None);
        }
    }
}
