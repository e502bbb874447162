//! Streams with faults at random places.

use llm::Finish;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::server::{Piece, Reply, answer, unchecked};
use crate::streams::{self, ALL};

/// Returns the number of values within a value, itself included.
fn values(value: &Value) -> usize {
    let within: Vec<&Value> = match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(fields) => fields.values().collect(),
        _ => Vec::new(),
    };
    // BOUNDED: the streams of these tests are a few values deep.
    1 + within.into_iter().map(values).sum::<usize>()
}

/// Replaces one of the values within a value.
fn replace(value: &mut Value, which: usize, by: &Value) -> usize {
    if which == 0 {
        *value = by.clone();
        return 1;
    }
    let within: Vec<&mut Value> = match value {
        Value::Array(items) => items.iter_mut().collect(),
        Value::Object(fields) => fields.values_mut().collect(),
        _ => Vec::new(),
    };
    let mut seen = 1;
    for inner in within {
        if which < seen {
            break;
        }
        // BOUNDED: the streams of these tests are a few values deep.
        let own = values(inner);
        if which < seen + own {
            replace(inner, which - seen, by);
        }
        seen += own;
    }
    seen
}

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(json!(true)),
        Just(json!(-1)),
        Just(json!(1e300)),
        Just(json!(u64::MAX)),
        Just(json!("")),
        Just(json!("x")),
        Just(json!([])),
        Just(json!({})),
        Just(json!([{}])),
        Just(json!([null])),
        "\\PC{0,12}".prop_map(Value::String),
    ]
}

proptest! {
    /// Streams with a value replaced, and events left out, doubled or exchanged, are answered or refused, and
    /// nothing that was answered lacks its end.
    #[test]
    fn a_damaged_stream_is_answered_or_refused(
        which in 0_usize..4,
        damages in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0_u8..5, any_value()), 1..4),
        cut in 1_usize..200,
    ) {
        let (wire, name) = ALL[which];
        let mut events = streams::answer(wire);
        for (at, other, kind, by) in damages {
            if events.is_empty() {
                break;
            }
            let (at, other) = (at.index(events.len()), other.index(events.len()));
            match kind {
                0 => { events.remove(at); }
                1 => events.insert(other, events[at].clone()),
                2 => events.swap(at, other),
                _ => {
                    let count = values(&events[at]);
                    replace(&mut events[at], other * 7 % count, &by);
                }
            }
        }
        let bytes = unchecked(wire, &events);
        let pieces = bytes.chunks(cut).map(|piece| Piece::Bytes(piece.to_vec().into())).collect();
        match answer(wire, name, Reply::pieces(pieces)) {
            Ok(response) => {
                let calls = response.calls().count();
                // An event with two calls may stand there four times.
                prop_assert!(calls <= 8 && (response.finish != Finish::ToolCalls || calls > 0));
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}
