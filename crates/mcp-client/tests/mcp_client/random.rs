//! Servers that send anything: whatever it is, every call ends, and nothing is left behind.

use std::time::Duration;

use mcp_client::{Abilities, ClientError};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::fake::{Seen, call, connect, limits, says};

/// Message of a server, by what it does to the connection.
#[derive(Debug, Clone)]
enum Move {
    /// Answers the newest request of the client.
    Answer(Value),
    /// Sends a message that has nothing to do with it.
    Message(Value),
    Bytes(Vec<u8>),
}

fn any_move() -> impl Strategy<Value = Move> {
    let id = prop_oneof![
        Just(json!(null)),
        (0_u64..9).prop_map(|id| json!(id)),
        Just(json!("x")),
        Just(json!([1]))
    ];
    let method = prop::sample::select(vec![
        "ping",
        "roots/list",
        "sampling/createMessage",
        "elicitation/create",
        "notifications/progress",
        "notifications/message",
        "notifications/tools/list_changed",
        "notifications/cancelled",
        "tools/call",
        "",
    ]);
    let params = prop_oneof![
        Just(json!(null)),
        Just(json!({})),
        Just(json!([1, 2])),
        Just(json!({"progressToken": 2, "progress": 1})),
        Just(json!({"level": 5, "data": {"a": []}})),
    ];
    let result = prop_oneof![
        Just(says("ok")),
        Just(json!({})),
        Just(json!(null)),
        Just(json!({"content": 5})),
        Just(json!([])),
        Just(json!({"content": [1, {"type": "text"}, {"type": "resource", "resource": 3}]})),
    ];
    prop_oneof![
        3 => result.clone().prop_map(Move::Answer),
        2 => (id.clone(), method.clone(), params.clone())
            .prop_map(|(id, method, params)| Move::Message(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))),
        2 => (method, params).prop_map(|(method, params)| Move::Message(json!({"jsonrpc": "2.0", "method": method, "params": params}))),
        2 => (id, result).prop_map(|(id, result)| Move::Message(json!({"jsonrpc": "2.0", "id": id, "result": result}))),
        1 => prop::collection::vec(any::<u8>(), 0..40).prop_map(Move::Bytes),
        1 => "[{}\\[\\]\":,a-z0-9\n ]{0,40}".prop_map(|text| Move::Bytes(text.into_bytes())),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_call_ends_whatever_the_server_sends(moves in prop::collection::vec(any_move(), 0..30), closes in any::<bool>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let seen = Seen::able(Abilities { sampling: true, forms: true, urls: false, roots: true });
            let client = connect(&seen, move |mut server| async move {
                let mut newest = server.expect("tools/call").await;
                for next in moves {
                    match next {
                        Move::Answer(result) => {
                            server.answer(&newest, result).await;
                            // The client may have answered something in between.
                            match tokio::time::timeout(Duration::from_secs(1), server.expect("tools/call")).await {
                                Ok(request) => newest = request,
                                Err(_) => break,
                            }
                        }
                        Move::Message(message) => drop(server.send(message).await),
                        Move::Bytes(bytes) => drop(server.raw(&bytes).await),
                    }
                }
                if !closes {
                    while server.next().await.is_some() {}
                }
            })
            .await;
            for _ in 0..4 {
                let before = tokio::time::Instant::now();
                let answer = client.call_tool(call("t")).await;
                prop_assert!(before.elapsed() <= limits().answer);
                let is_known = matches!(
                    answer,
                    Ok(_) | Err(ClientError::Closed(_) | ClientError::Timeout { .. } | ClientError::InvalidAnswer { .. })
                );
                prop_assert!(is_known, "{answer:?}");
                prop_assert_eq!(client.server_use().running, 0);
            }
            prop_assert_eq!(client.closed().is_some(), seen.is_killed());
            drop(client);
            prop_assert!(seen.is_killed());
            Ok(())
        })?;
    }
}
