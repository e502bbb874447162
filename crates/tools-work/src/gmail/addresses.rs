//! Mail addresses from a caller, parsed strictly and unambiguously.

use std::fmt;

use fetch::address::Host;
use mail_parser::MessageParser;
use tool::ToolError;

/// Maximum number of characters of a name, of a local part (RFC 5321, section 4.5.3.1.1), and of
/// all addresses of one field.
const LONGEST_NAME: usize = 200;
const LONGEST_LOCAL: usize = 64;
const LONGEST_FIELD: usize = 64 * 1024;
/// Maximum number of recipients of a message (Google's "Gmail sending limits", for its API).
pub(crate) const MOST: usize = 500;

/// A mailbox with its address and optional name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mailbox {
    pub(crate) name: Option<String>,
    pub(crate) address: String,
}

impl fmt::Display for Mailbox {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(formatter, "{name} <{}>", self.address),
            None => formatter.write_str(&self.address),
        }
    }
}

/// Refuses a text with control characters, which no header may contain.
pub(crate) fn plain(field: &str, text: &str) -> Result<(), ToolError> {
    match text.chars().find(|character| character.is_control()) {
        None => Ok(()),
        Some(character) => {
            let problem = format!("has the character {character:?}, which could end a header");
            Err(ToolError::validation(field, problem).hint("write the text on one line"))
        }
    }
}

/// Parses all addresses of a field: plain or as `Name <address>`, separated by commas.
pub(crate) fn read(field: &str, text: &str) -> Result<Vec<Mailbox>, ToolError> {
    plain(field, text)?;
    let refused = |problem: String| {
        Err(ToolError::validation(field, problem)
            .hint("write an address as name@example.com or Name <name@example.com>"))
    };
    if text.len() > LONGEST_FIELD {
        return refused(format!("is longer than {LONGEST_FIELD} bytes"));
    }
    let header = format!("To: {text}\r\n\r\n");
    let message = MessageParser::new().parse_headers(header.as_bytes());
    let Some(found) = message.as_ref().and_then(mail_parser::Message::to) else {
        return refused("has no address".to_owned());
    };
    let Some(list) = found.as_list() else {
        return refused("is a group; give the address of each recipient".to_owned());
    };
    let mut mailboxes = Vec::with_capacity(list.len());
    for one in list {
        let Some(address) = one.address() else {
            return refused(format!("\"{}\" has no address", one.name().unwrap_or_default()));
        };
        let Some(address) = normal(address) else {
            return refused(format!("\"{address}\" is not a valid mail address"));
        };
        let name = one.name().map(str::trim).filter(|name| !name.is_empty() && *name != address);
        if name.is_some_and(|name| name.chars().count() > LONGEST_NAME) {
            return refused(format!("a name is longer than {LONGEST_NAME} characters"));
        }
        if let Some(name) = name {
            // An encoded word may decode to characters that the text did not contain.
            plain(field, name)?;
        }
        mailboxes.push(Mailbox { name: name.map(str::to_owned), address });
    }
    if mailboxes.is_empty() {
        return refused("has no address".to_owned());
    }
    Ok(mailboxes)
}

/// Returns the single form in which the address is shown and sent. Its host is in DNS form, so that
/// a look-alike is visible.
fn normal(address: &str) -> Option<String> {
    let (local, host) = address.rsplit_once('@')?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~.".contains(&byte);
    let is_local = (1..=LONGEST_LOCAL).contains(&local.len())
        && local.bytes().all(plain)
        && !local.starts_with('.')
        && !local.ends_with('.')
        && !local.contains("..");
    let Ok(Host::Name(host)) = Host::parse(host) else { return None };
    is_local.then(|| format!("{local}@{host}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        read("to", text).unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn addresses_are_read_as_people_write_them() {
        assert_eq!(shown("ada@example.com"), ["ada@example.com"]);
        assert_eq!(
            shown("Ada Lovelace <ada@Example.COM.>, \"Turing, Alan\" <alan+x@example.com>"),
            ["Ada Lovelace <ada@example.com>", "Turing, Alan <alan+x@example.com>"]
        );
        assert_eq!(shown("=?utf-8?q?J=C3=BCrgen?= <j@example.com>"), ["Jürgen <j@example.com>"]);
        // The encoded form reveals a look-alike.
        assert_eq!(shown("x@ex\u{430}mple.com"), ["x@xn--exmple-4nf.com"]);
    }

    #[test]
    fn what_is_no_address_or_could_end_a_header_is_refused() {
        for text in [
            "",
            "   ",
            "nobody",
            "Ada",
            "@example.com",
            "a@",
            "a@b@",
            "a b@example.com",
            ".a@example.com",
            "a..b@example.com",
            "a@[127.0.0.1]",
            "a@127.0.0.1",
            "jürgen@example.com",
            "\"quoted local\"@example.com",
            "team: a@example.com, b@example.com;",
            "a@example.com, nobody",
            "a@example.com\r\nBcc: evil@example.com",
            "a@example.com\nX: y",
            "a\0@example.com",
            "=?utf-8?q?a=0D=0ABcc:_evil?= <a@example.com>",
        ] {
            let error = read("to", text).map_or_else(|error| error, |read| panic!("{text:?}: {read:?}"));
            assert!(error.message.starts_with("`to`"), "{text:?}: {}", error.message);
        }
    }
}
