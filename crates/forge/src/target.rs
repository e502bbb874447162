//! The path and the query of a request.

use percent_encoding::percent_decode_str;

/// Path and query of a request, as they are sent.
pub(crate) struct Target<'a> {
    path: &'a str,
    query: Option<&'a str>,
}

impl<'a> Target<'a> {
    pub(crate) fn of(target: &'a str) -> Self {
        let (path, query) =
            target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        Self { path, query }
    }

    pub(crate) fn path(&self) -> &'a str {
        self.path
    }

    pub(crate) fn query(&self) -> Option<&'a str> {
        self.query
    }

    /// Returns true if every server reads the path in the same way.
    pub(crate) fn is_plain(&self) -> bool {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/@+:,=".contains(&byte);
        self.path.starts_with('/')
            && self.path.bytes().all(plain)
            && !self.path.contains("//")
            && !self.path.split('/').any(|part| part == "." || part == "..")
    }

    /// Returns the path of the repository below which `service` is requested.
    pub(crate) fn repository(&self, service: &str) -> Option<&'a str> {
        let before = self.path.strip_suffix(service)?.strip_suffix('/')?;
        let name = before.strip_prefix('/').unwrap_or(before);
        Some(name.strip_suffix(".git").unwrap_or(name))
    }

    /// Returns true if the path is that of the GraphQL API of a known forge.
    pub(crate) fn is_graphql(&self) -> bool {
        matches!(self.path, "/graphql" | "/api/graphql")
    }

    /// Returns true if a server may take the path for that of a GraphQL API.
    pub(crate) fn is_graphql_for_some_server(&self) -> bool {
        let path = decoded(self.path).to_ascii_lowercase();
        path.contains("graphql")
    }

    /// Returns the decoded parameters of the query, as forms have them.
    pub(crate) fn parameters(&self) -> Vec<(String, String)> {
        let pairs = self.query.into_iter().flat_map(|query| query.split(['&', ';']));
        let pair = |text: &str| {
            let (key, value) = text.split_once('=').unwrap_or((text, ""));
            (decoded(key), decoded(value))
        };
        pairs.map(pair).collect()
    }

    /// Returns true if the query has this parameter, in any case.
    pub(crate) fn has_parameter(&self, name: &str) -> bool {
        self.parameters().iter().any(|(key, _)| key.trim().eq_ignore_ascii_case(name))
    }
}

/// Decodes the percent encoding of a form. Invalid UTF-8 becomes the replacement character.
fn decoded(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}
