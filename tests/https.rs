//! An HTTPS file server with its own certificate authority, and with git's HTTP backend at `/git/`.
//! Below `/moved/` it answers a fetch with a redirection to a push, and it accepts the requests of a
//! forge's and a registry's API.

#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use rcgen::{BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A running server, whose threads end with the test.
pub(crate) struct Https {
    pub(crate) port: u16,
    /// Certificate of the authority, in PEM.
    pub(crate) authority: String,
    /// The first line of each request.
    pub(crate) asked: Arc<Mutex<Vec<String>>>,
    /// All bytes that the server received.
    pub(crate) received: Arc<Mutex<Vec<u8>>>,
    /// User and password without which nothing is served below `/git/`.
    pub(crate) credentials: Arc<Mutex<Option<String>>>,
}

impl Https {
    /// Serves the folder at `127.0.0.1`, with a certificate for these names and addresses.
    pub(crate) fn serving(folder: &Path, names: &[&str]) -> Self {
        let (issuer, certificate, key) = certified(names);
        let chain = vec![CertificateDer::from(certificate.der().to_vec())];
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (asked, received) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<Mutex<Vec<u8>>>::default());
        let (config, folder) = (Arc::new(config), folder.to_owned());
        let credentials = Arc::<Mutex<Option<String>>>::default();
        let (asking, receiving, needed) = (asked.clone(), received.clone(), credentials.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (config, folder) = (config.clone(), folder.clone());
                let kept = (asking.clone(), receiving.clone());
                let needed = needed.lock().clone();
                std::thread::spawn(move || {
                    let connection = ServerConnection::new(config).unwrap();
                    // A client may refuse the certificate or disconnect, which is not the server's
                    // fault.
                    let _broken =
                        serve(&mut StreamOwned::new(connection, stream), &folder, &kept, needed.as_deref());
                });
            }
        });
        Self { port, authority: issuer, asked, received, credentials }
    }
}

/// Makes a certificate authority, in PEM, and a certificate for these names and addresses with its key.
pub(crate) fn certified(names: &[&str]) -> (String, Certificate, KeyPair) {
    let mut parameters = CertificateParams::new(Vec::<String>::new()).unwrap();
    parameters.distinguished_name.push(DnType::CommonName, "the authority of a test");
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap();
    (issuer.pem(), certificate, key)
}

/// First lines of the requests, and all received bytes.
type Kept = (Arc<Mutex<Vec<String>>>, Arc<Mutex<Vec<u8>>>);

type Stream = StreamOwned<ServerConnection, TcpStream>;

/// Answers one request, and closes.
fn serve(
    stream: &mut Stream,
    folder: &Path,
    (asked, received): &Kept,
    credentials: Option<&str>,
) -> std::io::Result<()> {
    let mut all = Vec::new();
    let end = loop {
        if let Some(end) = all.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        read_more(stream, &mut all)?;
    };
    let head = String::from_utf8_lossy(&all[..end]).into_owned();
    let mut body = all.split_off(end);
    let header = |name: &str| {
        let lines = head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned()).next()
    };
    let first = head.lines().next().unwrap_or_default().to_owned();
    asked.lock().push(first.clone());
    if header("expect").is_some() {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    if let Some(length) = header("content-length") {
        while body.len() < length.parse::<usize>().unwrap() {
            read_more(stream, &mut body)?;
        }
    }
    if header("transfer-encoding").is_some() {
        while !body.ends_with(b"0\r\n\r\n") {
            read_more(stream, &mut body)?;
        }
    }
    received.lock().extend_from_slice(&[head.as_bytes(), &body].concat());
    let mut words = first.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let all = [head.as_bytes(), &body].concat();
    let answer = if path == "/echo" {
        let value = header("authorization").unwrap_or_default();
        let head = format!(
            "HTTP/1.1 200 OK\r\nX-Echo: {value}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            all.len()
        );
        [head.as_bytes(), &all].concat()
    } else if path == "/pieces" {
        let mut answer =
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n".to_vec();
        for byte in &all {
            answer.extend_from_slice(&[b'1', b'\r', b'\n', *byte, b'\r', b'\n']);
        }
        answer.extend_from_slice(b"0\r\n\r\n");
        answer
    } else if path == "/compressed" {
        b"HTTP/1.1 200 OK\r\nContent-Encoding: compress\r\nContent-Length: 4\r\nConnection: close\r\n\r\n\x1f\x9d\x90\x61".to_vec()
    } else if credentials.is_some_and(|needed| {
        path.starts_with("/git/")
            && header("authorization") != Some(format!("Basic {}", STANDARD.encode(needed)))
    }) {
        b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"git\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec()
    } else if let Some(repository) = path.strip_prefix("/moved/").filter(|_| method == "POST") {
        let repository = repository.trim_end_matches("git-upload-pack");
        format!("HTTP/1.1 307 Temporary Redirect\r\nLocation: /git/{repository}git-receive-pack\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").into_bytes()
    } else if path.starts_with("/git/") || path.starts_with("/moved/") {
        let body = if header("transfer-encoding").is_some() { joined(&body) } else { body };
        git(folder, method, &path.replacen("/moved/", "/git/", 1), query, &header, &body)
    } else if path == "/api/graphql" {
        json("200 OK", &graphql(&String::from_utf8_lossy(&body)))
    } else if path.starts_with("/api/v3/") || path == "/-/whoami" {
        let password = credentials.and_then(|needed| needed.split(':').nth(1)).unwrap_or_default();
        let token = header("authorization").unwrap_or_default();
        if [format!("Bearer {password}"), format!("token {password}")].contains(&token) {
            json("200 OK", r#"{"login": "me", "username": "me"}"#)
        } else {
            json("401 Unauthorized", r#"{"message": "Bad credentials"}"#)
        }
    } else if path == "/login/device/code" {
        // RFC 8628, section 3.2.
        json(
            "200 OK",
            r#"{"device_code": "d1", "user_code": "WDJB-MJHT", "verification_uri": "https://forge.example/device", "expires_in": 60, "interval": 1}"#,
        )
    } else if path == "/login/oauth/access_token" {
        let times = asked.lock().iter().filter(|line| line.contains(path)).count();
        let password = credentials.and_then(|needed| needed.split(':').nth(1)).unwrap_or_default();
        match times {
            1 => json("200 OK", r#"{"error": "authorization_pending"}"#),
            _ => json(
                "200 OK",
                &format!(r#"{{"access_token": "{password}", "token_type": "bearer", "expires_in": 28800}}"#),
            ),
        }
    } else if path == "/graphql" || path.starts_with("/repos/") || method == "PUT" {
        json("200 OK", "{\"done\":1}\n")
    } else {
        file(&folder.join(path.trim_start_matches('/')))
    };
    stream.write_all(&answer)?;
    stream.conn.send_close_notify();
    stream.flush()
}

/// Answers the operations of GitHub's GraphQL API that `gh pr create` sends, by their fields.
fn graphql(request: &str) -> String {
    let has = |name: &str| request.contains(name);
    let data = if has("createPullRequest") {
        r#"{"createPullRequest": {"pullRequest": {"id": "PR_1", "url": "https://forge.example/me/site/pull/1"}}}"#
    } else if has("__type") {
        r#"{"PullRequest": {"fields": []}, "Repository": {"fields": []}}"#
    } else if has("pullRequests(") {
        r#"{"repository": {"pullRequests": {"nodes": []}, "defaultBranchRef": {"name": "main"}}}"#
    } else {
        r#"{"viewer": {"login": "me"}, "repository": {"id": "R_1", "name": "site", "owner": {"login": "me"}, "hasIssuesEnabled": true, "description": "", "hasWikiEnabled": false, "viewerPermission": "WRITE", "defaultBranchRef": {"name": "main"}, "isPrivate": false, "parent": null, "mergeCommitAllowed": true, "rebaseMergeAllowed": true, "squashMergeAllowed": true}}"#
    };
    format!("{{\"data\": {data}}}")
}

/// Builds an answer in JSON.
fn json(status: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}").into_bytes()
}

/// Joins the chunks of a body.
fn joined(mut chunks: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let end = chunks.windows(2).position(|window| window == b"\r\n").unwrap();
        let length = usize::from_str_radix(std::str::from_utf8(&chunks[..end]).unwrap(), 16).unwrap();
        if length == 0 {
            return all;
        }
        all.extend_from_slice(&chunks[end + 2..end + 2 + length]);
        chunks = &chunks[end + 4 + length..];
    }
}

fn read_more(stream: &mut Stream, into: &mut Vec<u8>) -> std::io::Result<()> {
    let mut bytes = [0; 16 * 1024];
    match stream.read(&mut bytes)? {
        0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
        count => {
            into.extend_from_slice(&bytes[..count]);
            Ok(())
        }
    }
}

fn file(path: &Path) -> Vec<u8> {
    let path = if path.is_dir() { path.join("index.html") } else { PathBuf::from(path) };
    let (status, content) = match std::fs::read(&path) {
        Ok(content) => ("200 OK", content),
        Err(_) => ("404 Not Found", Vec::new()),
    };
    let kind = if path.extension().is_some_and(|extension| extension == "html") {
        "text/html"
    } else {
        "application/octet-stream"
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        content.len()
    );
    [head.into_bytes(), content].concat()
}

fn git(
    folder: &Path,
    method: &str,
    path: &str,
    query: &str,
    header: &dyn Fn(&str) -> Option<String>,
    body: &[u8],
) -> Vec<u8> {
    let mut backend = Command::new("git")
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", folder)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", path)
        .env("QUERY_STRING", query)
        .env("REQUEST_METHOD", method)
        .env("CONTENT_TYPE", header("content-type").unwrap_or_default())
        .env("HTTP_CONTENT_ENCODING", header("content-encoding").unwrap_or_default())
        .env("HTTP_GIT_PROTOCOL", header("git-protocol").unwrap_or_default())
        .env("GIT_CONFIG_COUNT", "2")
        .env("GIT_CONFIG_KEY_0", "safe.directory")
        .env("GIT_CONFIG_VALUE_0", "*")
        .env("GIT_CONFIG_KEY_1", "http.receivepack")
        .env("GIT_CONFIG_VALUE_1", "true")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    backend.stdin.take().unwrap().write_all(body).unwrap();
    let answer = backend.wait_with_output().unwrap().stdout;
    let text = String::from_utf8_lossy(&answer);
    let status = text.lines().find_map(|line| line.strip_prefix("Status: ")).unwrap_or("200 OK").to_owned();
    [format!("HTTP/1.1 {status}\r\nConnection: close\r\n").into_bytes(), answer].concat()
}
