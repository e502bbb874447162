//! Cost of `fetch_url` from the library, compared with the same request of a bare client on a
//! persistent connection. `cargo xtask bench` runs this example. By hand: `cargo run --release
//! --package handfast --example fetch_speed -- FOLDER`.

#![allow(clippy::print_stdout, reason = "a benchmark: it prints what it measured")]

use std::error::Error;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use handfast::Runtime;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::json;
use testkit::web::{Reply, Server};

/// Number of requests of each kind, in turns, after some that are not counted.
const REQUESTS: usize = 2_000;
const UNCOUNTED: usize = 50;
/// Maximum cost of a request at the median, in addition to that of a bare client.
const TARGET: Duration = Duration::from_micros(300);

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from).ok_or("name a folder to work in")?;
    let (workspace, configuration) = (folder.join("workspace"), folder.join("configuration"));
    for folder in [&workspace, &configuration] {
        std::fs::create_dir_all(folder)?;
    }
    let listed = "sandbox_config:\n  normal:\n    allowed_hosts: [127.0.0.1]\n";
    std::fs::write(configuration.join("config.yaml"), listed)?;
    let server = Server::http(|_| Reply::json(r#"{"id": 1, "title": "one"}"#));
    let runtime = Runtime::builder()
        .workspace(&workspace)
        .state(folder.join("state"))
        .configuration(configuration)
        .build()?;
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (bare, called) = tokio.block_on(measure(&runtime, &server))?;
    tokio.block_on(runtime.shutdown())?;
    println!(
        "\n| one GET of a server on this machine | bare | fetch_url | more than bare | target | ratio |"
    );
    println!("|---|---:|---:|---:|---:|---:|");
    for (name, share) in [("p50", 50), ("p95", 95)] {
        let [bare, called] = [&bare, &called].map(|durations| at(durations, share));
        let more = called.saturating_sub(bare);
        let ratio = more.as_secs_f64() / TARGET.as_secs_f64();
        println!("| {name} | {bare:.1?} | {called:.1?} | {more:.1?} | {TARGET:?} | {ratio:.2} |");
    }
    Ok(())
}

async fn measure(
    runtime: &Runtime,
    server: &Server,
) -> Result<(Vec<Duration>, Vec<Duration>), Box<dyn Error>> {
    let stream = tokio::net::TcpStream::connect(server.address).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let (mut bare, mut called) = (Vec::new(), Vec::new());
    for _ in 0..UNCOUNTED + REQUESTS {
        let began = Instant::now();
        let request = Request::get("/issues/1").header("host", server.address.to_string());
        let answer = sender.send_request(request.body(Empty::<Bytes>::new())?).await?;
        let body = answer.into_body().collect().await?.to_bytes();
        let parsed: serde_json::Value = serde_json::from_slice(&body)?;
        bare.push(began.elapsed());

        let url = format!("http://{}/issues/1", server.address);
        let began = Instant::now();
        let result = runtime.call("fetch_url", json!({"url": url})).await;
        called.push(began.elapsed());
        let text = serde_json::to_value(&result)?;
        // A failed call would be quick for the wrong reason.
        if text["data"]["data"] != parsed {
            return Err(format!("the call failed: {text:#}").into());
        }
    }
    Ok((bare.split_off(UNCOUNTED), called.split_off(UNCOUNTED)))
}

/// Returns the given percentile of the samples.
fn at(durations: &[Duration], share: usize) -> Duration {
    let mut sorted = durations.to_vec();
    sorted.sort();
    sorted.get(sorted.len() * share / 100).copied().unwrap_or_default()
}
