//! Counts the parts of a text. It uses the standard library alone, so `rustc` builds it.

use std::io::{self, BufRead};

fn main() -> io::Result<()> {
    let mut request = String::new();
    io::stdin().lock().read_line(&mut request)?;
    match text_of(&request) {
        Some(text) => println!(
            "{{\"ok\":true,\"data\":{{\"bytes\":{},\"characters\":{},\"words\":{},\"lines\":{}}}}}",
            text.len(),
            text.chars().count(),
            text.split_whitespace().count(),
            text.lines().count(),
        ),
        None => println!(
            "{{\"ok\":false,\"error\":{{\"code\":\"EVALIDATION\",\"message\":\"the request has no text\"}}}}"
        ),
    }
    Ok(())
}

/// Returns the argument `text`, with the escapes of JSON decoded.
fn text_of(request: &str) -> Option<String> {
    let (_, rest) = request.split_once("\"text\":\"")?;
    let mut letters = rest.chars();
    let mut text = String::new();
    loop {
        match letters.next()? {
            '"' => return Some(text),
            '\\' => text.push(match letters.next()? {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'u' => {
                    // Handfast escapes control characters alone in this way, so no pairs of units occur.
                    let digits: String = letters.by_ref().take(4).collect();
                    char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?
                }
                other => other,
            }),
            other => text.push(other),
        }
    }
}
