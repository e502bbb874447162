//! Vocabulary: texts as tokens, and tokens as bytes.
//!
//! Byte-level pairs (BPE) as in GPT-2: a text is cut into words, and the bytes of a word are joined in the
//! order of the merges.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use regex::Regex;

use crate::error::{OpenError, damaged, unsupported};
use crate::gguf::{Gguf, Value};

/// Kind of a token that has a meaning instead of a text.
const CONTROL: i64 = 3;
/// GPT-2's words, without its look ahead, which `Vocabulary::words` does.
const WORDS: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+";
/// GPT-2's words with each digit alone, as `SmolLM` has them.
const WORDS_AND_DIGITS: &str = r"\p{N}|'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+";
/// Names of tokens that end an answer, besides the one that the file names.
const ENDS: [&str; 2] = ["<|im_end|>", "<|endoftext|>"];

/// Vocabulary of a model.
#[derive(Debug)]
pub(crate) struct Vocabulary {
    /// Bytes of each token; none for tokens with a meaning of their own.
    bytes: Vec<Box<[u8]>>,
    /// Tokens of single bytes.
    singles: Vec<Option<u32>>,
    /// Rank and result of the merge of two tokens.
    merges: HashMap<(u32, u32), (u32, u32)>,
    controls: HashMap<Box<str>, u32>,
    ends: Vec<u32>,
    words: Regex,
    splits_digits: bool,
    longest: usize,
}

/// Piece of a word while its pieces are joined.
struct Piece {
    token: u32,
    before: Option<usize>,
    after: Option<usize>,
    is_joined: bool,
}

impl Vocabulary {
    /// Reads the vocabulary of a file.
    pub(crate) fn read(file: &Gguf) -> Result<Self, OpenError> {
        let kind = file.text("tokenizer.ggml.model").unwrap_or("unnamed");
        if kind != "gpt2" {
            return Err(unsupported(format!("its tokenizer is {kind}, and only gpt2 is known")));
        }
        let splits_digits = match file.text("tokenizer.ggml.pre").unwrap_or("gpt-2") {
            "smollm" => true,
            "gpt-2" => false,
            other => return Err(unsupported(format!("its tokenizer cuts words like {other}"))),
        };
        let Some(Value::Texts(texts)) = file.fact("tokenizer.ggml.tokens") else {
            return Err(damaged("it has no tokens"));
        };
        let Some(Value::Texts(merges)) = file.fact("tokenizer.ggml.merges") else {
            return Err(damaged("its tokenizer has no merges"));
        };
        let none = Vec::new();
        let kinds = if let Some(Value::Wholes(kinds)) = file.fact("tokenizer.ggml.token_type") {
            kinds
        } else {
            &none
        };
        let merges: Option<Vec<_>> = merges.iter().map(|merge| merge.split_once(' ')).collect();
        let merges = merges.ok_or_else(|| damaged("a merge is not two tokens"))?;
        let controls: Vec<bool> = kinds.iter().map(|kind| *kind == CONTROL).collect();
        let end = file.whole("tokenizer.ggml.eos_token_id");
        Self::new(texts, &controls, &merges, end, splits_digits)
    }

    /// Creates a vocabulary of tokens, in the letters that stand for bytes in GPT-2.
    pub(crate) fn new(
        texts: &[String],
        controls: &[bool],
        merges: &[(&str, &str)],
        end: Option<usize>,
        splits_digits: bool,
    ) -> Result<Self, OpenError> {
        let letters = letters();
        let mut bytes = Vec::with_capacity(texts.len());
        let mut by_text: HashMap<&str, u32> = HashMap::with_capacity(texts.len());
        let mut named = HashMap::new();
        for (number, text) in texts.iter().enumerate() {
            let token = u32::try_from(number).map_err(|_| damaged("it has too many tokens"))?;
            if controls.get(number).copied().unwrap_or(false) {
                named.insert(text.clone().into_boxed_str(), token);
                bytes.push(Box::default());
                continue;
            }
            by_text.entry(text).or_insert(token);
            let raw: Option<Vec<u8>> = text.chars().map(|letter| letters.get(&letter).copied()).collect();
            bytes.push(
                raw.ok_or_else(|| damaged(format!("token {token} is not of bytes")))?.into_boxed_slice(),
            );
        }
        let mut of_pairs = HashMap::with_capacity(merges.len());
        for (rank, (one, other)) in merges.iter().enumerate() {
            let rank = u32::try_from(rank).map_err(|_| damaged("it has too many merges"))?;
            let joined = by_text.get(format!("{one}{other}").as_str());
            let (Some(one), Some(other), Some(joined)) = (by_text.get(one), by_text.get(other), joined)
            else {
                return Err(damaged(format!("merge {rank} is of unknown tokens")));
            };
            of_pairs.entry((*one, *other)).or_insert((rank, *joined));
        }
        let mut singles = vec![None; 256];
        for (token, raw) in bytes.iter().enumerate() {
            if let [byte] = **raw
                && let Some(single) = singles.get_mut(usize::from(byte))
            {
                *single = single.or(u32::try_from(token).ok());
            }
        }
        if (b' '..=b'~').any(|byte| singles.get(usize::from(byte)).is_none_or(Option::is_none)) {
            return Err(unsupported("it has no tokens of single bytes"));
        }
        let mut ends: Vec<u32> = ENDS.iter().filter_map(|name| named.get(*name)).copied().collect();
        ends.extend(end.and_then(|end| u32::try_from(end).ok()));
        if ends.iter().any(|end| usize::try_from(*end).is_ok_and(|end| end >= bytes.len())) {
            return Err(damaged("its last token is beyond its vocabulary"));
        }
        let words = Regex::new(if splits_digits { WORDS_AND_DIGITS } else { WORDS });
        Ok(Self {
            longest: bytes.iter().map(|raw| raw.len()).max().unwrap_or(1),
            bytes,
            singles,
            merges: of_pairs,
            controls: named,
            ends,
            words: words.map_err(|error| unsupported(error.to_string()))?,
            splits_digits,
        })
    }

    /// Returns the number of tokens.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the bytes of a token; none for one with a meaning instead of a text.
    pub(crate) fn bytes(&self, token: u32) -> &[u8] {
        usize::try_from(token).ok().and_then(|token| self.bytes.get(token)).map_or(&[], |bytes| bytes)
    }

    /// Returns true if the token ends an answer.
    pub(crate) fn is_end(&self, token: u32) -> bool {
        self.ends.contains(&token)
    }

    /// Returns the token with this meaning.
    pub(crate) fn control(&self, name: &str) -> Option<u32> {
        self.controls.get(name).copied()
    }

    /// Returns the size of the largest token, in bytes.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    /// Appends the tokens of a text. None of it is read as a token with a meaning, and bytes for which the
    /// model has no token are left out, as in the model's training.
    pub(crate) fn encode(&self, text: &str, out: &mut Vec<u32>) {
        let mut rest = text;
        while let Some(word) = self.word(rest) {
            self.join(word.as_bytes(), out);
            rest = rest.get(word.len()..).unwrap_or_default();
        }
    }

    /// Returns tokens of bytes that may begin within a character; `None` if there are none for them.
    pub(crate) fn encode_bytes(&self, bytes: &[u8]) -> Option<Vec<u32>> {
        let text_at = bytes.iter().take_while(|byte| **byte & 0xc0 == 0x80).count();
        let (first, rest) = bytes.split_at_checked(text_at)?;
        let mut out: Vec<u32> = first.iter().map(|byte| self.single(*byte)).collect::<Option<_>>()?;
        let rest = std::str::from_utf8(rest).ok()?;
        self.has_all(rest.as_bytes()).then(|| self.encode(rest, &mut out))?;
        Some(out)
    }

    /// Returns true if there is a token for each of these bytes.
    pub(crate) fn has_all(&self, bytes: &[u8]) -> bool {
        bytes.iter().all(|byte| self.single(*byte).is_some())
    }

    fn single(&self, byte: u8) -> Option<u32> {
        self.singles.get(usize::from(byte)).copied().flatten()
    }

    /// Returns the first word of a text.
    fn word<'text>(&self, text: &'text str) -> Option<&'text str> {
        // The words cover every character, and so the first begins where the text does.
        let word = self.words.find(text)?.as_str();
        let after = text.get(word.len()..).and_then(|rest| rest.chars().next());
        let last = word.chars().next_back()?;
        let before_last = word.get(..word.len() - last.len_utf8()).unwrap_or_default();
        // The last white space before a word belongs to that word.
        let gives_back = last.is_whitespace()
            && !before_last.is_empty()
            && after.is_some_and(|after| !(self.splits_digits && after.is_numeric()));
        Some(if gives_back { before_last } else { word })
    }

    /// Joins the bytes of a word.
    fn join(&self, word: &[u8], out: &mut Vec<u32>) {
        let tokens: Vec<u32> = word.iter().filter_map(|byte| self.single(*byte)).collect();
        let count = tokens.len();
        let mut pieces: Vec<Piece> = tokens
            .into_iter()
            .enumerate()
            .map(|(at, token)| Piece {
                token,
                before: at.checked_sub(1),
                after: Some(at + 1).filter(|after| *after < count),
                is_joined: false,
            })
            .collect();
        let mut waiting = BinaryHeap::new();
        for at in 0..count {
            self.offer(&pieces, at, &mut waiting);
        }
        while let Some(Reverse((_, at, left, right))) = waiting.pop() {
            let Some(piece) = pieces.get(at) else { continue };
            let Some(next) = piece.after else { continue };
            let Some(other) = pieces.get(next) else { continue };
            // The offer is void if one of the two was joined with another since.
            if piece.is_joined || piece.token != left || other.token != right {
                continue;
            }
            let Some((_, joined)) = self.merges.get(&(left, right)) else { continue };
            let (after, before) = (other.after, piece.before);
            if let Some(other) = pieces.get_mut(next) {
                other.is_joined = true;
            }
            if let Some(after) = after.and_then(|after| pieces.get_mut(after)) {
                after.before = Some(at);
            }
            if let Some(piece) = pieces.get_mut(at) {
                (piece.token, piece.after) = (*joined, after);
            }
            self.offer(&pieces, at, &mut waiting);
            if let Some(before) = before {
                self.offer(&pieces, before, &mut waiting);
            }
        }
        out.extend(pieces.iter().filter(|piece| !piece.is_joined).map(|piece| piece.token));
    }

    /// Puts the merge of a piece with the next one among those that wait, if there is one.
    fn offer(&self, pieces: &[Piece], at: usize, waiting: &mut BinaryHeap<Reverse<(u32, usize, u32, u32)>>) {
        let Some(piece) = pieces.get(at) else { return };
        let Some(next) = piece.after.and_then(|next| pieces.get(next)) else { return };
        if let Some((rank, _)) = self.merges.get(&(piece.token, next.token)) {
            waiting.push(Reverse((*rank, at, piece.token, next.token)));
        }
    }
}

/// Returns the byte of each letter that stands for one: bytes that can be seen stand for themselves, and
/// the others are counted from 256 on.
pub(crate) fn letters() -> HashMap<char, u8> {
    let mut letters = HashMap::with_capacity(256);
    let mut hidden = 256_u32;
    for byte in 0..=255_u8 {
        let letter = if matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff) {
            char::from(byte)
        } else {
            hidden += 1;
            char::from_u32(hidden - 1).unwrap_or_default()
        };
        letters.insert(letter, byte);
    }
    letters
}
