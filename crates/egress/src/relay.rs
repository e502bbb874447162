//! Bidirectional copy between two connections, without changes.
//!
//! A side that reaches its end closes only its own direction. The other direction may continue as
//! long as there is traffic.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::time::sleep;

use crate::peek::PeekedStream;
use crate::slots::{Client, Slot};

/// Bytes per read.
const AT_ONCE: usize = 128 * 1024;

/// Maximum time without traffic: longer than servers delay a response.
const IDLE: Duration = Duration::from_mins(10);

/// Copies in both directions until both have ended, one fails, or traffic stops.
pub(crate) async fn join(client: PeekedStream<Client>, mut server: TcpStream) -> io::Result<()> {
    let PeekedStream { bytes, stream: Client { stream: mut client, place } } = client;
    let _working = place.work();
    server.write_all(&bytes).await?;
    drop(bytes);
    let moved = AtomicU64::new(0);
    let (client_reads, client_writes) = client.split();
    let (server_reads, server_writes) = server.split();
    let both = async {
        tokio::try_join!(
            copy(client_reads, server_writes, &moved, &place),
            copy(server_reads, client_writes, &moved, &place)
        )
        .map(drop)
    };
    tokio::select! {
        ended = both => ended,
        () = stillness(&moved, IDLE) => Err(io::ErrorKind::TimedOut.into()),
    }
}

async fn copy(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    moved: &AtomicU64,
    place: &Slot,
) -> io::Result<()> {
    let mut buffer = vec![0; AT_ONCE];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..count]).await?;
        moved.fetch_add(1, Ordering::Relaxed);
        place.moves();
    }
}

/// Returns after a time `most` without traffic, sampled twice in that time.
async fn stillness(moved: &AtomicU64, most: Duration) {
    let (mut seen, mut still) = (moved.load(Ordering::Relaxed), 0);
    while still < 2 {
        sleep(most / 2).await;
        let now = moved.load(Ordering::Relaxed);
        still = if now == seen { still + 1 } else { 0 };
        seen = now;
    }
}
