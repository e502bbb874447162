//! The origin of a call: the span of its caller (W3C Trace Context), and facts of the door.

/// Maximum number of characters of a `tracestate` that is passed on (W3C Trace Context, section
/// 3.3.1.5: at least 512).
const STATE_CHARACTERS: usize = 512;

/// Origin of a call. A door sets it if [`crate::Engine::is_traced`].
#[derive(Debug, Clone, Default)]
pub struct Origin {
    /// Span of which the call is a part.
    pub parent: Option<Parent>,
    /// Span that carried the message, if the message itself names another parent.
    pub carrier: Option<Parent>,
    /// Name of the request in the door's protocol, such as `tools/call`.
    pub operation: Option<&'static str>,
    /// Other facts of the door, under the names of OpenTelemetry's conventions.
    pub facts: Vec<(&'static str, String)>,
}

/// Span of the caller (W3C Trace Context).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parent {
    /// Id of the trace.
    pub trace: [u8; 16],
    /// Id of the span within the trace.
    pub span: [u8; 8],
    /// True if the caller records this trace.
    pub sampled: bool,
    /// State that the systems on the way have added, passed on unchanged.
    pub state: Option<String>,
}

impl Parent {
    /// Parses a `traceparent` with its `tracestate`. Returns `None` for a malformed `traceparent`,
    /// which must be treated as absent.
    pub fn read(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        let mut fields = traceparent.split('-');
        let version = bytes::<1>(fields.next()?)?[0];
        let trace = bytes::<16>(fields.next()?)?;
        let span = bytes::<8>(fields.next()?)?;
        let flags = bytes::<1>(fields.next()?)?[0];
        // A later version may have more fields; version 255 is invalid.
        let is_known = version != 255 && (version > 0 || fields.next().is_none());
        if !is_known || trace == [0; 16] || span == [0; 8] {
            return None;
        }
        let is_good = |state: &&str| {
            let graphic = |byte: u8| (0x20..0x7f).contains(&byte);
            !state.is_empty() && state.len() <= STATE_CHARACTERS && state.bytes().all(graphic)
        };
        let state = tracestate.map(str::trim).filter(is_good).map(str::to_owned);
        Some(Self { trace, span, sampled: flags & 1 == 1, state })
    }
}

/// Decodes hexadecimal digits, in lower case alone.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits: Vec<u8> = text
        .bytes()
        .map(|byte| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        })
        .collect::<Option<_>>()?;
    let bytes: Vec<u8> =
        digits.chunks(2).map(|pair| pair.iter().fold(0, |all, digit| all << 4 | digit)).collect();
    if digits.len() == 2 * N { bytes.try_into().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_parent_is_read_as_the_standard_has_it() {
        let parent = Parent::read(GOOD, Some(" rojo=00f067aa0ba902b7,congo=t61rcWkgMzE ")).unwrap();
        assert_eq!(
            (parent.trace[..2].to_vec(), parent.span[7], parent.sampled),
            (vec![0x4b, 0xf9], 0xb7, true)
        );
        assert_eq!(parent.state.as_deref(), Some("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"));
        assert!(!Parent::read(&GOOD.replace("-01", "-00"), None).unwrap().sampled);
        assert!(Parent::read(&GOOD.replacen("00", "01", 1), None).is_some(), "a later version");
        assert!(Parent::read(&format!("01{}-what-may-come", &GOOD[2..]), None).is_some());
    }

    #[test]
    fn a_malformed_parent_is_none_and_a_malformed_state_is_left_out() {
        for bad in [
            "",
            "00",
            &GOOD[..54],
            &format!("{GOOD}-00"),
            &format!("{GOOD}0"),
            &GOOD.replacen("00", "ff", 1),
            &GOOD.to_uppercase(),
            &GOOD.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            &GOOD.replace("00f067aa0ba902b7", &"0".repeat(16)),
            &GOOD.replace("00f067aa0ba902b7", "ä0f067aa0ba902b"),
            &format!(" {GOOD}"),
        ] {
            assert_eq!(Parent::read(bad, None), None, "{bad:?}");
        }
        for bad in ["", " ", "a=\nb", "a=ä", &"x".repeat(513)] {
            assert_eq!(Parent::read(GOOD, Some(bad)).unwrap().state, None, "{bad:?}");
        }
    }
}
