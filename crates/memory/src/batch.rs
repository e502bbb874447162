//! Batches of missing vectors, and the pieces of long texts.

use retrieval::bytes;
use retrieval::embedder::Embedder;
use store_api::{MemoryCaller, Unembedded};

/// Number of texts per batch, from which no further memory is added, and number of memories that
/// are read for a batch.
pub(crate) const TEXTS: usize = 16;
const MEMORIES: u32 = 16;

/// Characters of one piece of a text, which most models read to the end, and pieces of one text.
/// The rest of a text is found by its words.
const PIECE: usize = 900;
pub(crate) const MAX_PIECES: usize = 8;

/// Makes the vectors of the newest memories that have none, as many as fit into one batch, each
/// stored with all of its pieces. Returns the number of memories left.
pub(crate) fn embed_some(
    rows: &dyn store_api::Memories,
    who: &MemoryCaller,
    model: &dyn Embedder,
    stop: &dyn Fn() -> bool,
) -> Result<u64, String> {
    let hash = &model.model().hash;
    let (count, missing) = rows.unembedded(who, hash, MEMORIES).map_err(|error| error.to_string())?;
    if missing.is_empty() {
        return Ok(0);
    }
    let mut texts: Vec<String> = Vec::new();
    let mut taken: Vec<(&Unembedded, usize)> = Vec::new();
    for memory in &missing {
        if texts.len() >= TEXTS {
            break;
        }
        let pieces = pieces(memory);
        taken.push((memory, pieces.len()));
        texts.extend(pieces);
    }
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let vectors = model.embed(&texts, stop).map_err(|failure| failure.to_string())?;
    let mut rest = vectors.as_slice();
    let mut kept = Vec::with_capacity(taken.len());
    for (memory, many) in taken {
        let (own, others) = rest.split_at_checked(many).ok_or("the model returned too few vectors")?;
        kept.push((memory, own.iter().map(|vector| bytes(vector)).collect()));
        rest = others;
    }
    rows.keep_vectors(hash, &kept).map_err(|error| error.to_string())?;
    Ok(count.saturating_sub(kept.len() as u64))
}

/// Splits a memory into pieces that a model reads to the end, each preceded by its key.
fn pieces(memory: &Unembedded) -> Vec<String> {
    let name = memory.key.as_ref().map_or_else(String::new, |key| format!("{key}: "));
    let mut rest = memory.content.trim();
    let mut pieces = Vec::new();
    while !rest.is_empty() && pieces.len() < MAX_PIECES {
        let (piece, others) = rest.split_at(end_of_piece(rest));
        pieces.push(format!("{name}{}", piece.trim_end()));
        rest = others.trim_start();
    }
    // A memory without text gets a vector too. Otherwise it would count as new every time.
    if pieces.is_empty() {
        pieces.push(name);
    }
    pieces
}

/// Returns the end of a text's first piece: after a word, if there is one.
fn end_of_piece(text: &str) -> usize {
    let Some((end, _)) = text.char_indices().nth(PIECE) else { return text.len() };
    let word = text.get(..end).and_then(|piece| piece.rfind(char::is_whitespace));
    word.filter(|word| *word > end / 2).unwrap_or(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_behind_words_and_only_so_many_pieces_are_read() {
        let cut = |key: Option<&str>, content: String| {
            pieces(&Unembedded { number: 1, version: 1, key: key.map(str::to_owned), content })
        };
        assert_eq!(cut(Some("port"), " 8080 ".to_owned()), ["port: 8080"]);
        assert_eq!(cut(None, String::new()), [""]);
        let long = cut(Some("k"), "some words ".repeat(2_000));
        assert_eq!(long.len(), MAX_PIECES);
        assert!(
            long.iter()
                .all(|piece| piece.starts_with("k: ") && piece.ends_with("some") || piece.ends_with("words"))
        );
        assert!(cut(None, "船".repeat(2_000)).iter().all(|piece| piece.chars().count() <= PIECE));
    }
}
