//! Response of an embeddings server: one vector for each text, matched by its index.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

/// Maximum number of characters of a server's error message that are repeated.
const LONGEST_WORDS: usize = 300;

#[derive(Deserialize)]
struct Body {
    data: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    /// Index of the text in the request. Some servers omit it and keep the order.
    index: Option<usize>,
    embedding: Numbers,
}

/// Components of a vector. Some servers always send them as the base64 of their bytes.
#[derive(Deserialize)]
#[serde(untagged)]
enum Numbers {
    Plain(Vec<f32>),
    Encoded(String),
}

/// Reads the vectors of `count` texts from a response, in the order of the texts, and scales each
/// to length 1.
pub(crate) fn vectors(body: &[u8], count: usize) -> Result<Vec<Vec<f32>>, String> {
    let body: Body = serde_json::from_slice(body)
        .map_err(|error| format!("the response is not from an embeddings server ({error})"))?;
    if body.data.len() != count {
        return Err(format!("{} vectors were returned for {count} texts", body.data.len()));
    }
    let mut vectors: Vec<Option<Vec<f32>>> = vec![None; count];
    for (place, entry) in body.data.into_iter().enumerate() {
        let index = entry.index.unwrap_or(place);
        let slot = vectors.get_mut(index).filter(|slot| slot.is_none());
        *slot.ok_or_else(|| {
            format!("a vector is for the text {index}, which already has one or does not exist")
        })? = Some(unit(entry.embedding)?);
    }
    vectors.into_iter().map(|vector| vector.ok_or_else(|| "a text has no vector".to_owned())).collect()
}

fn unit(numbers: Numbers) -> Result<Vec<f32>, String> {
    let mut vector = match numbers {
        Numbers::Plain(vector) => vector,
        Numbers::Encoded(text) => {
            let bytes = STANDARD.decode(text).map_err(|error| format!("a vector is not base64 ({error})"))?;
            let (numbers, rest) = bytes.as_chunks::<4>();
            if !rest.is_empty() {
                return Err("the bytes of a vector are not four-byte numbers".to_owned());
            }
            numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
        }
    };
    let length = vector.iter().map(|number| f64::from(*number).powi(2)).sum::<f64>().sqrt();
    if !length.is_finite() || length <= 0.0 {
        return Err("a vector has no direction".to_owned());
    }
    for number in &mut vector {
        #[expect(clippy::cast_possible_truncation, reason = "at most one, and rounding is what is meant")]
        let scaled = (f64::from(*number) / length) as f32;
        *number = scaled;
    }
    Ok(vector)
}

/// Returns the error message of a server, from `{"error": {"message": ...}}` or from other shapes.
pub(crate) fn words(body: &[u8]) -> String {
    let parsed: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let said = ["/error/message", "/error", "/message", "/detail"]
        .iter()
        .find_map(|place| parsed.pointer(place)?.as_str())
        .map_or_else(|| String::from_utf8_lossy(body).into_owned(), str::to_owned);
    let said: String =
        said.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST_WORDS).collect();
    said.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_come_in_the_order_of_their_texts_and_have_the_length_one() {
        let encoded = STANDARD.encode([0_f32, 5.0].map(f32::to_le_bytes).concat());
        let body = format!(
            r#"{{"object": "list", "data": [{{"index": 1, "embedding": "{encoded}"}}, {{"index": 0, "embedding": [3, -4]}}]}}"#
        );
        assert_eq!(vectors(body.as_bytes(), 2).unwrap(), [[0.6, -0.8], [0.0, 1.0]]);
        let unnumbered = r#"{"data": [{"embedding": [2, 0]}, {"embedding": [0, 2]}]}"#;
        assert_eq!(vectors(unnumbered.as_bytes(), 2).unwrap(), [[1.0, 0.0], [0.0, 1.0]]);
    }

    #[test]
    fn an_answer_that_does_not_fit_its_texts_is_refused() {
        for body in [
            "",
            "{}",
            "<html>",
            r#"{"data": []}"#,
            r#"{"data": [{"embedding": [1]}, {"embedding": [1]}]}"#,
            r#"{"data": [{"index": 1, "embedding": [1]}]}"#,
            r#"{"data": [{"embedding": []}]}"#,
            r#"{"data": [{"embedding": [0, 0]}]}"#,
            r#"{"data": [{"embedding": [1e39]}]}"#,
            r#"{"data": [{"embedding": [null]}]}"#,
            r#"{"data": [{"embedding": "AAAA"}]}"#,
            r#"{"data": [{"embedding": "AACAfw=="}]}"#,
        ] {
            vectors(body.as_bytes(), 1).unwrap_err();
        }
    }

    #[test]
    fn the_words_of_a_server_are_found_and_bounded() {
        assert_eq!(words(br#"{"error": {"message": "no such\nmodel"}}"#), "no such model");
        assert_eq!(words(br#"{"error": "model not found"}"#), "model not found");
        assert_eq!(words(b"Bad gateway"), "Bad gateway");
        assert_eq!(words("x".repeat(5_000).as_bytes()).len(), LONGEST_WORDS);
    }
}
