//! Headers that decide what a body or a request is.

/// Headers by which some servers take another method or path than the request line states. In
/// several servers `_` and `-` are the same.
const OVERRIDES: [&str; 7] = [
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
    "x-original-url",
    "x-original-uri",
    "x-rewrite-url",
    "x-forwarded-uri",
];

/// A header that may turn a request into another one.
pub(crate) struct Overrides {
    pub(crate) name: &'static str,
}

/// Returns the first header that may turn the request into another one.
pub(crate) fn overrides(headers: &[(&str, &[u8])]) -> Option<Overrides> {
    let named = |name: &str| name.to_ascii_lowercase().replace('_', "-");
    let found = headers.iter().find_map(|(name, _)| {
        let name = named(name);
        OVERRIDES.into_iter().find(|known| *known == name)
    });
    found.map(|name| Overrides { name })
}

/// Returns the values of a header, in lower case and without spaces around them. A value that is
/// not text is empty.
pub(crate) fn values(headers: &[(&str, &[u8])], name: &str) -> Vec<String> {
    let of_name = headers.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
    let text = |value: &[u8]| std::str::from_utf8(value).unwrap_or_default().trim().to_ascii_lowercase();
    of_name.map(|(_, value)| text(value)).collect()
}

/// Returns true if the request states exactly this type of its body.
pub(crate) fn is_type(headers: &[(&str, &[u8])], kind: &str) -> bool {
    matches!(values(headers, "content-type").as_slice(), [one] if one == kind)
}

/// Returns true if the body is JSON in UTF-8, by one of these types.
pub(crate) fn is_json(headers: &[(&str, &[u8])], kinds: &[&str]) -> bool {
    let values = values(headers, "content-type");
    let [one] = values.as_slice() else { return false };
    let (kind, parameter) = one.split_once(';').unwrap_or((one, "charset=utf-8"));
    kinds.contains(&kind.trim()) && matches!(parameter.trim(), "charset=utf-8" | "charset=\"utf-8\"")
}
