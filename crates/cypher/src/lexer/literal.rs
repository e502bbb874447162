//! Texts and numbers.

use super::{Lexer, TokenKind, is_part_of_word};
use crate::error::{Detail, Error, Result};

impl Lexer<'_> {
    pub(super) fn text_literal(&mut self, quote: char) -> Result<TokenKind> {
        let start = self.at;
        let mut text = String::new();
        self.at += 1;
        loop {
            text.push_str(self.take_while(|character| character != quote && character != '\\'));
            match self.peek() {
                Some('\\') => text.push(self.escape()?),
                Some(_) => {
                    self.at += 1;
                    return Ok(TokenKind::Text(text.into()));
                }
                None => {
                    let message = format!("The text is not closed: add {quote}.");
                    return Err(Error::syntax(Detail::UnexpectedSyntax, start, message));
                }
            }
        }
    }

    fn escape(&mut self) -> Result<char> {
        let start = self.at;
        self.at += 1;
        let Some(letter) = self.peek() else { return Ok('\\') };
        self.at += letter.len_utf8();
        let digits = match letter {
            'n' => return Ok('\n'),
            't' => return Ok('\t'),
            'r' => return Ok('\r'),
            'b' => return Ok('\u{8}'),
            'f' => return Ok('\u{c}'),
            '\\' | '\'' | '"' | '`' => return Ok(letter),
            'u' => 4,
            'U' => 8,
            _ => {
                let message = format!("`\\{letter}` is no escape: write `\\\\` for a backslash.");
                return Err(Error::syntax(Detail::UnexpectedSyntax, start, message));
            }
        };
        let unit = match self.hexadecimal(digits) {
            Some(high @ 0xd800..=0xdbff) if self.rest().starts_with("\\u") => {
                self.at += 2;
                let low = self.hexadecimal(4).filter(|low| (0xdc00..=0xdfff).contains(low));
                low.map(|low| 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00))
            }
            unit => unit,
        };
        unit.and_then(char::from_u32).ok_or_else(|| {
            let message = format!("The escape needs {digits} hexadecimal digits of a character.");
            Error::syntax(Detail::InvalidUnicodeLiteral, start, message)
        })
    }

    fn hexadecimal(&mut self, digits: usize) -> Option<u32> {
        let text = self.rest().get(..digits)?;
        let is_hexadecimal = text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let value = is_hexadecimal.then(|| u32::from_str_radix(text, 16).ok()).flatten()?;
        self.at += digits;
        Some(value)
    }

    pub(super) fn number(&mut self) -> Result<TokenKind> {
        let start = self.at;
        let rest = self.rest();
        for (prefix, radix) in [("0x", 16), ("0X", 16), ("0o", 8), ("0O", 8)] {
            if rest.starts_with(prefix) {
                self.at += 2;
                return integer(self.take_while(is_part_of_word), radix, start);
            }
        }
        let is_digit = |character: char| character.is_ascii_digit();
        let whole = self.take_while(is_digit);
        let after = self.rest();
        let mut is_float = after.starts_with('.') && after.chars().nth(1).is_some_and(is_digit);
        if is_float {
            self.at += 1;
            self.take_while(is_digit);
        }
        let exponent = self.rest();
        if exponent.starts_with(['e', 'E']) {
            let sign = usize::from(exponent.get(1..).is_some_and(|rest| rest.starts_with(['+', '-'])));
            if exponent.get(1 + sign..).is_some_and(|rest| rest.starts_with(is_digit)) {
                self.at += 1 + sign;
                self.take_while(is_digit);
                is_float = true;
            }
        }
        let text = self.text.get(start..self.at).unwrap_or_default();
        let tail = self.take_while(is_part_of_word);
        if !tail.is_empty() {
            return Ok(TokenKind::Malformed(format!("{text}{tail}").into()));
        }
        if !is_float {
            return integer(whole, 10, start);
        }
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(TokenKind::Float(value)),
            _ => {
                let message = format!("`{text}` is too large for a float.");
                Err(Error::syntax(Detail::FloatingPointOverflow, start, message))
            }
        }
    }
}

fn integer(digits: &str, radix: u32, start: usize) -> Result<TokenKind> {
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        let prefix = match radix {
            16 => "0x",
            8 => "0o",
            _ => "",
        };
        return Ok(TokenKind::Malformed(format!("{prefix}{digits}").into()));
    }
    let largest = 1_u64 << 63;
    match u64::from_str_radix(digits, radix) {
        Ok(value) if value <= largest => Ok(TokenKind::Integer(value)),
        _ => {
            let message = format!("`{digits}` does not fit an integer of 64 bits.");
            Err(Error::syntax(Detail::IntegerOverflow, start, message))
        }
    }
}
