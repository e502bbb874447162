//! Tests of the first messages, over a stream in memory. Each attack has the right way as its control.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::DuplexStream;

use super::*;

/// The extension's end of a connection that is being admitted.
struct Client {
    socket: WebSocketStream<DuplexStream>,
    nonce: String,
    server: String,
}

type Admission = tokio::task::JoinHandle<Result<WebSocketStream<DuplexStream>, Rejection>>;

async fn connected(expected: &Expected) -> (Client, Admission) {
    let (near, far) = tokio::io::duplex(1 << 16);
    let expected = expected.clone();
    let admission = tokio::spawn(async move {
        let socket = WebSocketStream::from_raw_socket(near, SocketRole::Server, Some(strict())).await;
        admit(socket, &expected).await
    });
    let socket = WebSocketStream::from_raw_socket(far, SocketRole::Client, None).await;
    let mut client = Client { socket, nonce: keys::nonce().unwrap(), server: String::new() };
    client.server = client.hear().await["nonce"].as_str().unwrap().to_owned();
    (client, admission)
}

impl Client {
    fn nonces(&self) -> Nonces<'_> {
        Nonces { server: &self.server, extension: &self.nonce, origin: ORIGIN }
    }

    async fn hear(&mut self) -> Value {
        match self.socket.next().await {
            Some(Ok(Message::Text(text))) => serde_json::from_str(&text).unwrap(),
            _ => Value::Null,
        }
    }

    async fn ask(&mut self, message: Value) -> Value {
        self.socket.send(Message::text(message.to_string())).await.unwrap();
        self.hear().await
    }

    async fn prove(&mut self, proof: String) -> Value {
        let message = json!({"type": "prove", "nonce": self.nonce, "proof": proof});
        self.ask(message).await
    }

    /// Pairs with a code, and returns the last answer.
    async fn pair(&mut self, code: &str) -> Value {
        let exchange = Exchange::begin().unwrap();
        let offer = self.ask(json!({"type": "pair", "nonce": self.nonce, "public": exchange.public})).await;
        let Some(public) = offer["public"].as_str() else { return offer };
        let agreed = exchange.agree_as_extension(&self.nonces(), public, code);
        self.ask(json!({"type": "confirm", "proof": agreed.proof(Role::Extension)})).await
    }
}

fn paired() -> (PairingKey, Expected) {
    let key = PairingKey(keys::random().unwrap());
    (key.clone(), Expected::Paired { key, instance: "here".to_owned() })
}

fn unpaired(began: Instant) -> (tempfile::TempDir, Arc<PairingCode>, Expected) {
    let folder = tempfile::tempdir().unwrap();
    let code = Arc::new(PairingCode::new(began).unwrap());
    let expected = Expected::New { code: code.clone(), state: Arc::from(folder.path()) };
    (folder, code, expected)
}

fn plain(code: &PairingCode) -> String {
    code.shown().replace('-', "")
}

#[tokio::test]
async fn both_sides_prove_themselves() {
    let (key, expected) = paired();
    let (mut client, admission) = connected(&expected).await;
    let proof = client.nonces().proof(&key, Role::Extension);
    let answer = client.prove(proof).await;
    assert_eq!((answer["type"].as_str(), answer["instance"].as_str()), (Some("proved"), Some("here")));
    assert!(client.nonces().is_proof(&key, Role::Server, answer["proof"].as_str().unwrap()));
    assert!(admission.await.unwrap().is_ok());
}

#[tokio::test]
async fn a_wrong_a_reflected_and_a_repeated_proof_are_refused() {
    let (key, expected) = paired();
    let (other, _admission) = connected(&expected).await;
    let earlier = other.nonces().proof(&key, Role::Extension);
    for attack in ["wrong", "reflected", "repeated", "none"] {
        let (mut client, admission) = connected(&expected).await;
        let proof = match attack {
            "wrong" => client.nonces().proof(&PairingKey(keys::random().unwrap()), Role::Extension),
            "reflected" => client.nonces().proof(&key, Role::Server),
            "repeated" => earlier.clone(),
            _ => String::new(),
        };
        let answer = client.prove(proof).await;
        assert_eq!(answer["reason"], "wrong_proof", "{attack}: {answer}");
        assert!(answer.get("proof").is_none(), "{attack}");
        assert!(admission.await.unwrap().is_err(), "{attack}");
    }
    let (mut client, _admission) = connected(&expected).await;
    let proof = client.nonces().proof(&key, Role::Extension);
    assert_eq!(client.prove(proof).await["type"], "proved", "the control");
}

#[tokio::test]
async fn a_second_extension_is_refused_while_one_is_paired_and_told_why() {
    let (key, expected) = paired();
    let (mut second, admission) = connected(&expected).await;
    let answer = second.pair("ABCD2345").await;
    assert_eq!(answer["reason"], "paired");
    assert!(answer["message"].as_str().unwrap().contains("unpair"), "{answer}");
    assert!(admission.await.unwrap().is_err());
    let (mut first, _admission) = connected(&expected).await;
    let proof = first.nonces().proof(&key, Role::Extension);
    assert_eq!(first.prove(proof).await["type"], "proved", "the control");
}

#[tokio::test]
async fn a_code_pairs_once() {
    let (folder, code, expected) = unpaired(Instant::now());
    let (mut first, admission) = connected(&expected).await;
    assert_eq!(first.pair(&plain(&code)).await["type"], "paired");
    assert!(admission.await.unwrap().is_ok());
    assert!(pairing::key(folder.path()).unwrap().is_some());
    let (mut second, admission) = connected(&expected).await;
    let answer = second.pair(&plain(&code)).await;
    assert_eq!(
        (&answer["reason"], &answer["message"]),
        (&json!("no_code"), &json!("the code was used already"))
    );
    assert!(admission.await.unwrap().is_err());
}

#[tokio::test]
async fn an_expired_code_pairs_nobody() {
    let two_minutes = Duration::from_mins(2);
    let (folder, code, expected) = unpaired(Instant::now().checked_sub(two_minutes).unwrap());
    let (mut late, _admission) = connected(&expected).await;
    let answer = late.pair(&plain(&code)).await;
    assert!(answer["message"].as_str().unwrap().contains("expired"), "{answer}");
    assert!(pairing::key(folder.path()).unwrap().is_none());
}

#[tokio::test]
async fn a_code_can_be_guessed_five_times() {
    let (folder, code, expected) = unpaired(Instant::now());
    for _ in 0..5 {
        let (mut guessing, _admission) = connected(&expected).await;
        assert_eq!(guessing.pair("22222222").await["reason"], "wrong_proof");
    }
    let (mut guessing, _admission) = connected(&expected).await;
    let answer = guessing.pair(&plain(&code)).await;
    assert!(answer["message"].as_str().unwrap().contains("too often"), "the right one is late: {answer}");
    assert!(pairing::key(folder.path()).unwrap().is_none());
}

#[tokio::test]
async fn a_message_that_is_none_or_is_too_large_ends_the_connection() {
    let (_, expected) = paired();
    for text in ["{}", "x", r#"{"type":"hello"}"#, r#"{"type":"confirm","proof":""}"#] {
        let (mut client, admission) = connected(&expected).await;
        client.socket.send(Message::text(text)).await.unwrap();
        assert_eq!(client.hear().await["reason"], "message", "{text}");
        assert!(admission.await.unwrap().is_err());
    }
    let (mut client, admission) = connected(&expected).await;
    let large = json!({"type": "prove", "nonce": client.nonce, "proof": "x".repeat(LARGEST)});
    client.socket.send(Message::text(large.to_string())).await.unwrap();
    assert_eq!(client.hear().await, Value::Null);
    assert!(admission.await.unwrap().is_err());
}
