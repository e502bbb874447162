//! Two connections joined: what comes on one goes out on the other, untouched.
//!
//! A side that has said all ends its half alone; the other may go on for as long as it likes, as long as anything moves.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::time::sleep;

use crate::ahead::Ahead;
use crate::places::{Client, Place};

/// Bytes that are moved at once.
const AT_ONCE: usize = 128 * 1024;

/// How long nothing may move: longer than servers keep a request waiting.
const IDLE: Duration = Duration::from_mins(10);

/// Joins them until both have ended, one breaks, or nothing moves any more.
pub(crate) async fn join(client: Ahead<Client>, mut server: TcpStream) -> io::Result<()> {
    let Ahead { bytes, stream: Client { stream: mut client, place } } = client;
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
    place: &Place,
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

/// Returns when nothing has moved for so long, looked at twice in that time.
async fn stillness(moved: &AtomicU64, most: Duration) {
    let (mut seen, mut still) = (moved.load(Ordering::Relaxed), 0);
    while still < 2 {
        sleep(most / 2).await;
        let now = moved.load(Ordering::Relaxed);
        still = if now == seen { still + 1 } else { 0 };
        seen = now;
    }
}
