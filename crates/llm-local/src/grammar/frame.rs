//! State of a text within a grammar: the open values, the innermost last.

use crate::grammar::number::Digits;
use crate::grammar::{Grammar, Id, KEY_OF_MAPS, Node, Property};

/// Maximum number of readings of one text that are followed. Readings beyond are dropped, so that fewer
/// texts are accepted, and no wrong ones.
const MOST_READINGS: usize = 64;

/// Possible readings of a text so far.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct State {
    readings: Vec<Vec<Frame>>,
}

/// Value that has begun, or that must come.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Frame {
    /// The rest of a fixed text.
    Fixed(&'static [u8]),
    /// A word: the first and last one that is possible, and the number of bytes so far.
    Words(Id, [usize; 2], usize),
    /// A call's beginning, likewise.
    Calls(Id, [usize; 2], usize),
    Text(Id, usize, Text),
    Number(Id, Digits),
    /// Object with its next property.
    Object(Id, usize, Items),
    /// Key of an object: a property that it may be, the first one that was possible, the number of bytes.
    Key(Id, usize, usize, usize),
    /// List or map with the number of items so far.
    List(Id, usize, Items),
    Map(Id, usize, Items),
    Either(Id),
}

/// Place within a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Text {
    Start,
    Characters,
    Escape,
    /// Within a character: bytes that must come, and the range of the first of them.
    Within(u8, u8, u8),
    End,
}

/// Place within an object or a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Items {
    Start,
    /// Place after the bracket.
    Open,
    /// Place after an item.
    After,
    /// Place after a comma.
    Comma,
    /// Place after the space behind a comma.
    Next,
}

/// Effect of a byte on the innermost value.
enum Effect {
    /// The byte is part of it, which goes on like this.
    Goes(Frame),
    /// The byte ended it.
    Ends,
    /// Values begin, the last first, after which it goes on like this; the byte is still to be read.
    Needs(Frame, [Option<Frame>; 3]),
    /// Values begin, the last first, after which it goes on like this; the byte was read.
    Opens(Frame, [Option<Frame>; 2]),
    /// The byte is not part of it. The value may be over.
    Not,
}

impl State {
    /// Creates the state before a text of a node.
    pub(crate) fn new(grammar: &Grammar, root: Id) -> Self {
        Self { readings: vec![grammar.frame(root).into_iter().collect()] }
    }

    /// Returns true if nothing may follow.
    pub(crate) fn is_whole(&self) -> bool {
        self.readings.iter().all(Vec::is_empty)
    }

    /// Returns true if the text may end here.
    pub(crate) fn may_end(&self, grammar: &Grammar) -> bool {
        self.readings.iter().any(|frames| frames.iter().all(|frame| grammar.may_end(frame)))
    }

    /// Returns the state after one more byte; `None` if no text goes on with it.
    pub(crate) fn step(&self, grammar: &Grammar, byte: u8) -> Option<Self> {
        let mut readings: Vec<Vec<Frame>> = Vec::with_capacity(self.readings.len());
        let mut waiting: Vec<Vec<Frame>> = self.readings.clone();
        waiting.reverse();
        while let Some(mut frames) = waiting.pop() {
            if readings.len() == MOST_READINGS {
                break;
            }
            // Every round ends a value or begins one within it, and both are bounded by the grammar.
            while let Some(frame) = frames.pop() {
                if let Frame::Either(id) = frame {
                    if let Some(Node::Either(nodes)) = grammar.node(id) {
                        waiting.extend(nodes.iter().rev().filter_map(|node| {
                            let mut frames = frames.clone();
                            frames.push(grammar.frame(*node)?);
                            Some(frames)
                        }));
                    }
                    break;
                }
                match grammar.effect(frame, byte) {
                    Effect::Goes(frame) => frames.push(frame),
                    Effect::Ends => {}
                    Effect::Opens(frame, first) => {
                        frames.push(frame);
                        frames.extend(first.into_iter().flatten());
                    }
                    Effect::Needs(frame, first) => {
                        frames.push(frame);
                        frames.extend(first.into_iter().flatten());
                        continue;
                    }
                    Effect::Not if grammar.may_end(&frame) => continue,
                    Effect::Not => break,
                }
                if !readings.contains(&frames) {
                    readings.push(frames);
                }
                break;
            }
        }
        (!readings.is_empty()).then_some(Self { readings })
    }

    /// Returns bytes that make the text whole, as few as the readings allow.
    pub(crate) fn completion(&self, grammar: &Grammar) -> Vec<u8> {
        let whole = |frames: &Vec<Frame>| frames.iter().rev().flat_map(|frame| grammar.rest(frame)).collect();
        self.readings.iter().map(whole).min_by_key(Vec::len).unwrap_or_default()
    }
}

impl Grammar {
    /// Returns the frame of a value that must come.
    fn frame(&self, id: Id) -> Option<Frame> {
        Some(match self.node(id)? {
            Node::Words(words) => Frame::Words(id, [0, words.len()], 0),
            Node::Calls(calls) => Frame::Calls(id, [0, calls.len()], 0),
            Node::Text { .. } => Frame::Text(id, 0, Text::Start),
            Node::Number(_) => Frame::Number(id, Digits::default()),
            Node::Object(_) => Frame::Object(id, 0, Items::Start),
            Node::Map { .. } => Frame::Map(id, 0, Items::Start),
            Node::List { .. } => Frame::List(id, 0, Items::Start),
            Node::Either(_) => Frame::Either(id),
        })
    }

    fn effect(&self, frame: Frame, byte: u8) -> Effect {
        match frame {
            Frame::Fixed([first, rest @ ..]) if *first == byte => {
                if rest.is_empty() {
                    Effect::Ends
                } else {
                    Effect::Goes(Frame::Fixed(rest))
                }
            }
            Frame::Words(id, range, length) => {
                let Some(Node::Words(words)) = self.node(id) else { return Effect::Not };
                let Some(range) = narrowed(words, range, length, byte, Vec::as_slice) else {
                    return Effect::Not;
                };
                let word =
                    words.get(range[0]).filter(|word| range[1] - range[0] == 1 && word.len() == length + 1);
                // A number may be the beginning of another, and so it ends at the byte behind it.
                match word {
                    Some(word) if !word.last().is_some_and(u8::is_ascii_digit) => Effect::Ends,
                    _ => Effect::Goes(Frame::Words(id, range, length + 1)),
                }
            }
            Frame::Calls(id, range, length) => {
                let Some(Node::Calls(calls)) = self.node(id) else { return Effect::Not };
                let Some(range) = narrowed(calls, range, length, byte, |call| &call.0) else {
                    return Effect::Not;
                };
                match calls.get(range[0]).filter(|(beginning, _)| beginning.len() == length + 1) {
                    Some((_, arguments)) => Effect::Opens(Frame::Fixed(b"}"), [self.frame(*arguments), None]),
                    None => Effect::Goes(Frame::Calls(id, range, length + 1)),
                }
            }
            Frame::Text(id, count, place) => {
                let Some(Node::Text { least, most }) = self.node(id) else { return Effect::Not };
                match text(place, byte, count >= *least, count < *most) {
                    Some((Text::End, _)) => Effect::Ends,
                    Some((place, more)) => Effect::Goes(Frame::Text(id, count + more, place)),
                    None => Effect::Not,
                }
            }
            Frame::Number(id, digits) => {
                let Some(Node::Number(range)) = self.node(id) else { return Effect::Not };
                let digits = range.step(digits, byte);
                digits.map_or(Effect::Not, |digits| Effect::Goes(Frame::Number(id, digits)))
            }
            Frame::Object(id, next, place) => self.object(id, next, place, byte),
            Frame::Key(id, property, first, length) => self.key(id, property, first, length, byte),
            Frame::List(id, count, place) => {
                let Some(Node::List { item, least, most }) = self.node(id) else { return Effect::Not };
                let go = |place| Frame::List(id, count, place);
                items(place, byte, *b"[]", count >= *least, count < *most && item.is_some(), go, || {
                    let item = item.and_then(|item| self.frame(item));
                    Effect::Needs(Frame::List(id, count + 1, Items::After), [item, None, None])
                })
            }
            Frame::Map(id, count, place) => {
                let Some(Node::Map { value, least, most }) = self.node(id) else { return Effect::Not };
                let go = |place| Frame::Map(id, count, place);
                items(place, byte, *b"{}", count >= *least, count < *most, go, || {
                    let parts = [self.frame(*value), Some(Frame::Fixed(b": ")), self.frame(KEY_OF_MAPS)];
                    Effect::Needs(Frame::Map(id, count + 1, Items::After), parts)
                })
            }
            Frame::Fixed(_) | Frame::Either(_) => Effect::Not,
        }
    }

    fn properties(&self, id: Id) -> &[Property] {
        if let Some(Node::Object(properties)) = self.node(id) { properties } else { &[] }
    }

    fn object(&self, id: Id, next: usize, place: Items, byte: u8) -> Effect {
        let properties = self.properties(id);
        let may_close = properties.iter().skip(next).all(|property| !property.required);
        let go = |place| Frame::Object(id, next, place);
        let grows = next < properties.len();
        items(place, byte, *b"{}", may_close, grows, go, || self.key(id, next, next, 0, byte))
    }

    /// Returns the effect on a key. The key says by itself where its object goes on.
    fn key(&self, id: Id, property: usize, first: usize, length: usize, byte: u8) -> Effect {
        let properties = self.properties(id);
        let Some(typed) = properties.get(property).and_then(|known| known.key.get(..length)) else {
            return Effect::Not;
        };
        let fits = |known: &Property| known.key.starts_with(typed) && known.key.get(length) == Some(&byte);
        let mut possible =
            properties.iter().enumerate().take(last_possible(properties, first) + 1).skip(first);
        match possible.find(|(_, known)| fits(known)) {
            None => Effect::Not,
            Some((at, known)) if known.key.len() == length + 1 => {
                Effect::Opens(Frame::Object(id, at + 1, Items::After), [self.frame(known.value), None])
            }
            Some((at, _)) => Effect::Goes(Frame::Key(id, at, first, length + 1)),
        }
    }

    /// Returns true if the value may be over before the next byte.
    fn may_end(&self, frame: &Frame) -> bool {
        match frame {
            Frame::Number(..) => self.rest(frame).is_empty(),
            Frame::Words(id, [first, _], length) => {
                let Some(Node::Words(words)) = self.node(*id) else { return false };
                words.get(*first).is_some_and(|word| word.len() == *length)
            }
            _ => false,
        }
    }

    /// Returns bytes that end the value.
    fn rest(&self, frame: &Frame) -> Vec<u8> {
        match frame {
            Frame::Fixed(rest) => rest.to_vec(),
            Frame::Words(id, [first, last], length) => {
                let Some(Node::Words(words)) = self.node(*id) else { return Vec::new() };
                let rests = words.iter().take(*last).skip(*first).filter_map(|word| word.get(*length..));
                rests.min_by_key(|rest| rest.len()).unwrap_or_default().to_vec()
            }
            Frame::Calls(id, [first, last], length) => {
                let Some(Node::Calls(calls)) = self.node(*id) else { return Vec::new() };
                let possible = calls.iter().take(*last).skip(*first);
                let size = |call: &&(Vec<u8>, Id)| call.0.len() + self.shortest(call.1).len();
                let Some((beginning, arguments)) = possible.min_by_key(size) else { return Vec::new() };
                [beginning.get(*length..).unwrap_or_default(), self.shortest(*arguments), b"}"].concat()
            }
            Frame::Text(id, count, place) => {
                let Some(Node::Text { least, .. }) = self.node(*id) else { return Vec::new() };
                let (begun, more): (Vec<u8>, _) = match place {
                    Text::Start => return self.shortest(*id).to_vec(),
                    Text::End => return Vec::new(),
                    Text::Characters => (Vec::new(), 0),
                    Text::Escape => (vec![b'n'], 1),
                    Text::Within(bytes, low, _) => {
                        (std::iter::once(*low).chain((1..*bytes).map(|_| 0x80)).collect(), 1)
                    }
                };
                [begun, vec![b'x'; least.saturating_sub(count + more)], b"\"".to_vec()].concat()
            }
            Frame::Number(id, digits) => {
                let Some(Node::Number(range)) = self.node(*id) else { return Vec::new() };
                range.rest(digits)
            }
            Frame::Object(id, next, place) => {
                if *place == Items::Start {
                    return self.shortest(*id).to_vec();
                }
                let properties = self.properties(*id);
                let required: Vec<&Property> =
                    properties.iter().skip(*next).filter(|property| property.required).collect();
                let comma_came = matches!(place, Items::Comma | Items::Next);
                // After a comma something must come, and the next key always may.
                let parts = match (required.is_empty(), properties.get(*next)) {
                    (true, Some(next)) if comma_came => vec![next],
                    _ => required,
                };
                let parts: Vec<Vec<u8>> = parts.into_iter().map(|part| self.whole(part)).collect();
                Self::joined(*place, &parts, b'}')
            }
            Frame::Key(id, property, _, length) => {
                let properties = self.properties(*id);
                let Some(known) = properties.get(*property) else { return Vec::new() };
                let rest = Frame::Object(*id, property + 1, Items::After);
                let key = known.key.get(*length..).unwrap_or_default();
                // BOUNDED: the rest of an object after a value asks for no rest of a key.
                [key, self.shortest(known.value), &self.rest(&rest)].concat()
            }
            Frame::List(id, count, place) => {
                let Some(Node::List { item, least, .. }) = self.node(*id) else { return Vec::new() };
                let item = item.map_or(&[][..], |item| self.shortest(item));
                Self::joined(*place, &vec![item.to_vec(); missing(*place, *count, *least)], b']')
            }
            Frame::Map(id, count, place) => {
                let Some(Node::Map { value, least, .. }) = self.node(*id) else { return Vec::new() };
                let item = [b"\"\": ", self.shortest(*value)].concat();
                Self::joined(*place, &vec![item; missing(*place, *count, *least)], b'}')
            }
            Frame::Either(id) => self.shortest(*id).to_vec(),
        }
    }

    fn whole(&self, property: &Property) -> Vec<u8> {
        [&property.key, self.shortest(property.value)].concat()
    }

    /// Returns the rest of an object or list with these items.
    fn joined(place: Items, items: &[Vec<u8>], close: u8) -> Vec<u8> {
        let open = if close == b'}' { b"{" } else { b"[" };
        let before: &[u8] = match place {
            Items::Start => open,
            Items::After if !items.is_empty() => b", ",
            Items::Comma => b" ",
            Items::Open | Items::After | Items::Next => b"",
        };
        [before, &items.join(b", ".as_slice()), &[close]].concat()
    }
}

/// Returns the number of items that must still come.
fn missing(place: Items, count: usize, least: usize) -> usize {
    let comma_came = matches!(place, Items::Comma | Items::Next);
    least.saturating_sub(count).max(usize::from(comma_came))
}

/// Returns the last property that may come next: the first required one, or the last of all.
fn last_possible(properties: &[Property], next: usize) -> usize {
    let required = properties.iter().skip(next).position(|property| property.required);
    required.map_or(properties.len(), |place| next + place)
}

/// Narrows a range of ordered words to those with `byte` at `length`.
fn narrowed<W>(
    words: &[W],
    [first, last]: [usize; 2],
    length: usize,
    byte: u8,
    text: impl Fn(&W) -> &[u8],
) -> Option<[usize; 2]> {
    let range = words.get(first..last)?;
    let at = |word: &W| text(word).get(length).copied();
    let from = range.partition_point(|word| at(word) < Some(byte));
    let to = range.partition_point(|word| at(word) <= Some(byte));
    (from < to).then_some([first + from, first + to])
}

/// Returns the effect of a byte on an object or list.
fn items(
    place: Items,
    byte: u8,
    [open, close]: [u8; 2],
    may_close: bool,
    may_grow: bool,
    go: impl Fn(Items) -> Frame,
    item: impl Fn() -> Effect,
) -> Effect {
    match place {
        Items::Start if byte == open => Effect::Goes(go(Items::Open)),
        Items::Open | Items::After if byte == close && may_close => Effect::Ends,
        Items::After if byte == b',' && may_grow => Effect::Goes(go(Items::Comma)),
        Items::Comma if byte == b' ' => Effect::Goes(go(Items::Next)),
        Items::Open | Items::Next if may_grow => item(),
        _ => Effect::Not,
    }
}

/// Returns the place in a string after one more byte, with the number of characters that it ended.
fn text(place: Text, byte: u8, may_end: bool, may_grow: bool) -> Option<(Text, usize)> {
    let next = match (place, byte) {
        (Text::Start, b'"') => (Text::Characters, 0),
        (Text::Characters, b'"') if may_end => (Text::End, 0),
        (Text::Characters, b'"') => return None,
        (Text::Characters, _) if !may_grow => return None,
        (Text::Characters, b'\\') => (Text::Escape, 0),
        (Text::Escape, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't')
        | (Text::Characters, 0x20..=0x7f) => (Text::Characters, 1),
        (Text::Characters, 0xc2..=0xdf) => (Text::Within(1, 0x80, 0xbf), 0),
        (Text::Characters, 0xe0) => (Text::Within(2, 0xa0, 0xbf), 0),
        (Text::Characters, 0xed) => (Text::Within(2, 0x80, 0x9f), 0),
        (Text::Characters, 0xe1..=0xef) => (Text::Within(2, 0x80, 0xbf), 0),
        (Text::Characters, 0xf0) => (Text::Within(3, 0x90, 0xbf), 0),
        (Text::Characters, 0xf1..=0xf3) => (Text::Within(3, 0x80, 0xbf), 0),
        (Text::Characters, 0xf4) => (Text::Within(3, 0x80, 0x8f), 0),
        (Text::Within(more, low, high), _) if (low..=high).contains(&byte) => {
            if more == 1 {
                (Text::Characters, 1)
            } else {
                (Text::Within(more - 1, 0x80, 0xbf), 0)
            }
        }
        _ => return None,
    };
    Some(next)
}
