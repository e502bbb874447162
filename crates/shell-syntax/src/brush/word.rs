//! Words, as the word parser of `brush-parser` splits them.

use brush_parser::ast;
use brush_parser::word::{Parameter, ParameterExpr, SpecialParameter, WordPiece, WordPieceWithSource};

use super::{Reader, other};
use crate::Opaque;
use crate::raw::{Part, RawStep, RawWord};
use crate::unquote::{STATUSES, checked_escape, expansion, is_plain, is_plain_operand, unescape};

impl Reader {
    pub(super) fn word(&self, word: &ast::Word, depth: usize) -> Result<RawWord, Opaque> {
        let text = word.value.as_str();
        if text == "[" {
            return Ok(RawWord::text(text));
        }
        let quoted = text.strip_prefix("\"$(").and_then(|rest| rest.strip_suffix(")\""));
        let bare = text.strip_prefix("$(").and_then(|rest| rest.strip_suffix(')'));
        if let Some(inner) = quoted.or(bare).filter(|inner| !inner.starts_with('(')) {
            // The search for the end below would fail on a parenthesis in a here-document.
            match self.script(inner, depth + 1) {
                Ok(steps) => return Ok(RawWord::output(steps, quoted.is_some())),
                // `"$(a) $(b)"` is not one script between its ends.
                Err(opaque) if !inner.contains("$(") => return Err(opaque),
                Err(_) => {}
            }
        }
        // A tilde at the start is expanded, and the word parser cannot handle one before digits.
        if text.starts_with('~') || has_backquote(text) {
            return Err(expansion());
        }
        let mut outputs = Vec::new();
        let marked = if text.contains("$(") { &self.mark_outputs(text, depth, &mut outputs)? } else { text };
        let mut cooked = RawWord::default();
        if !marked.contains(['\'', '"', '\\', '$', '~']) {
            return bare_text(marked, &mut cooked).map(|()| cooked);
        }
        let pieces = brush_parser::word::parse(marked, &self.options)
            .map_err(|_| other("it holds an unusual word"))?;
        for piece in &pieces {
            unquoted(piece, &mut cooked)?;
        }
        if outputs.is_empty() {
            return Ok(cooked);
        }
        let mut outputs = outputs.into_iter();
        for bit in &mut cooked.bits {
            if let Part::Variable { name, quoted, changed: false } = bit
                && name == MARK
            {
                *bit = Part::Output { steps: outputs.next().ok_or_else(expansion)?, quoted: *quoted };
            }
        }
        // A script was left over: the word parser saw no expansion at its place.
        if outputs.next().is_some() { Err(expansion()) } else { Ok(cooked) }
    }

    /// Reads each `$( )` in a word, and replaces it with a variable.
    fn mark_outputs(
        &self,
        text: &str,
        depth: usize,
        outputs: &mut Vec<Vec<RawStep>>,
    ) -> Result<String, Opaque> {
        if text.contains(MARK) || text.contains("<<") || text.contains("$((") {
            return Err(expansion());
        }
        let mut marked = String::with_capacity(text.len());
        let mut rest = text;
        // A single quote in double quotes is literal, and nothing expands in single quotes.
        let (mut in_double, mut in_single) = (false, false);
        while let Some(character) = rest.chars().next() {
            let inside = rest.strip_prefix("$(").filter(|_| !in_single);
            if let Some(inside) = inside {
                let (steps, behind) = self.up_to_its_end(inside, depth)?;
                outputs.push(steps);
                marked.push_str(&format!("${{{MARK}}}"));
                rest = behind;
                continue;
            }
            let mut length = character.len_utf8();
            match character {
                '\\' if !in_single => {
                    let escaped = rest.get(1..).and_then(|rest| rest.chars().next());
                    length += escaped.map_or(0, char::len_utf8);
                }
                '"' if !in_single => in_double = !in_double,
                '\'' if !in_double => in_single = !in_single,
                _ => {}
            }
            let (taken, behind) = rest.split_at_checked(length).ok_or_else(expansion)?;
            marked.push_str(taken);
            rest = behind;
        }
        Ok(marked)
    }

    /// Reads the script up to the first parenthesis at which it parses, and returns it with the
    /// rest of the text.
    fn up_to_its_end<'t>(&self, text: &'t str, depth: usize) -> Result<(Vec<RawStep>, &'t str), Opaque> {
        for (at, _) in text.match_indices(')').take(MAX_ENDS) {
            let (inner, behind) = text.split_at(at);
            if let Ok(steps) = self.script(inner, depth + 1) {
                return Ok((steps, behind.get(1..).unwrap_or_default()));
            }
        }
        Err(expansion())
    }
}

/// Placeholder for a script in a word while the other parts are read.
const MARK: &str = "OUTPUT_OF_A_SCRIPT_IN_THIS_WORD";

/// Maximum number of parentheses that are tried as the end of a script in a word.
const MAX_ENDS: usize = 8;

/// Returns true if a word has a backquote that is neither in single quotes nor after a backslash.
fn has_backquote(text: &str) -> bool {
    let (mut in_double, mut in_single, mut escaped) = (false, false, false);
    text.chars().any(|character| {
        if std::mem::take(&mut escaped) {
            return false;
        }
        match character {
            '\\' if !in_single => escaped = true,
            '"' if !in_single => in_double = !in_double,
            '\'' if !in_double => in_single = !in_single,
            '`' => return !in_single,
            _ => {}
        }
        false
    })
}

fn unquoted(piece: &WordPieceWithSource, word: &mut RawWord) -> Result<(), Opaque> {
    match &piece.piece {
        WordPiece::Text(text) => bare_text(text, word)?,
        WordPiece::SingleQuotedText(text) => word.push(text),
        WordPiece::AnsiCQuotedText(text) if text.contains("\\'") => return Err(expansion()),
        WordPiece::AnsiCQuotedText(text) => word.push(&unescape(text)?),
        WordPiece::DoubleQuotedSequence(pieces) => {
            for piece in pieces {
                match &piece.piece {
                    WordPiece::Text(text) => word.push(&text.replace("\\\n", "")),
                    WordPiece::EscapeSequence(escape) => word.push(escape.get(1..).unwrap_or_default()),
                    WordPiece::ParameterExpansion(parameter) => variable(parameter, true, word)?,
                    _ => return Err(expansion()),
                }
            }
        }
        WordPiece::EscapeSequence(escape) => match escape.chars().nth(1) {
            Some('\n') => {}
            Some(escaped) => word.push_char(checked_escape(escaped)?),
            None => return Err(other("it ends in a backslash")),
        },
        WordPiece::ParameterExpansion(parameter) => variable(parameter, false, word)?,
        _ => return Err(expansion()),
    }
    Ok(())
}

fn bare_text(text: &str, word: &mut RawWord) -> Result<(), Opaque> {
    for character in text.chars() {
        match character {
            '*' | '?' | '[' => word.bits.push(Part::Glob(character)),
            // The other reader checks braces and tildes closely, and the position of a dollar.
            '{' | '}' | '~' | '$' => word.push_char(character),
            character if is_plain(character) => word.push_char(character),
            _ => return Err(other("it holds a character with a meaning of its own")),
        }
    }
    Ok(())
}

fn variable(expression: &ParameterExpr, quoted: bool, word: &mut RawWord) -> Result<(), Opaque> {
    let plain = |operand: &Option<String>| {
        operand.iter().all(|operand| operand.chars().all(|each| is_plain_operand(each, quoted)))
    };
    let (parameter, changed, harmless) = match expression {
        ParameterExpr::Parameter { parameter, indirect: false } => (parameter, false, true),
        ParameterExpr::ParameterLength { parameter: Parameter::Named(_), indirect: false } => {
            word.bits.push(Part::Digits);
            return Ok(());
        }
        ParameterExpr::UseDefaultValues { parameter, indirect: false, default_value: operand, .. }
        | ParameterExpr::UseAlternativeValue {
            parameter, indirect: false, alternative_value: operand, ..
        }
        | ParameterExpr::RemoveSmallestSuffixPattern { parameter, indirect: false, pattern: operand }
        | ParameterExpr::RemoveLargestSuffixPattern { parameter, indirect: false, pattern: operand }
        | ParameterExpr::RemoveSmallestPrefixPattern { parameter, indirect: false, pattern: operand }
        | ParameterExpr::RemoveLargestPrefixPattern { parameter, indirect: false, pattern: operand }
        | ParameterExpr::UppercaseFirstChar { parameter, indirect: false, pattern: operand }
        | ParameterExpr::UppercasePattern { parameter, indirect: false, pattern: operand }
        | ParameterExpr::LowercaseFirstChar { parameter, indirect: false, pattern: operand }
        | ParameterExpr::LowercasePattern { parameter, indirect: false, pattern: operand } => {
            (parameter, true, plain(operand))
        }
        ParameterExpr::ReplaceSubstring { parameter, indirect: false, pattern, replacement, .. } => {
            (parameter, true, plain(&Some(pattern.clone())) && plain(replacement))
        }
        _ => return Err(expansion()),
    };
    let is_digits = |index: &str| !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit());
    let changed = changed || matches!(parameter, Parameter::NamedWithIndex { .. });
    let name = match parameter {
        Parameter::Named(name) => name.clone(),
        Parameter::NamedWithIndex { name, index }
            if name == STATUSES
                && is_digits(index)
                && matches!(expression, ParameterExpr::Parameter { .. }) =>
        {
            word.bits.push(Part::Digits);
            return Ok(());
        }
        Parameter::NamedWithIndex { name, index } if is_digits(index) => name.clone(),
        Parameter::Special(
            SpecialParameter::LastExitStatus
            | SpecialParameter::ProcessId
            | SpecialParameter::PositionalParameterCount,
        ) if !changed => {
            word.bits.push(Part::Digits);
            return Ok(());
        }
        Parameter::Positional(number @ 0..=9) if !changed => number.to_string(),
        Parameter::Special(SpecialParameter::ShellName) if !changed => "0".to_owned(),
        Parameter::Special(SpecialParameter::LastBackgroundProcessId) if !changed => "!".to_owned(),
        _ => return Err(expansion()),
    };
    if !harmless {
        return Err(expansion());
    }
    word.bits.push(Part::Variable { name, quoted, changed });
    Ok(())
}
