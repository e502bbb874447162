//! Messages that a search finds, over several pages.

use tool::ToolError;

use crate::gmail::api::ApiCalls;
use crate::gmail::message::WireList;

/// Maximum number of characters of a query, and of a page token.
const LONGEST: usize = 4_000;
/// Maximum number of messages per page (Google's discovery document, `maxResults` of
/// `gmail.users.messages.list`).
const MAX_OF_A_PAGE: usize = 500;
/// Maximum number of pages per call: a page may have fewer messages than requested.
const MAX_PAGES: usize = 20;

/// The parameters of a search.
pub(crate) struct SearchParameters<'a> {
    query: &'a str,
    results: usize,
    page: Option<&'a str>,
}

impl<'a> SearchParameters<'a> {
    /// Checks the arguments.
    pub(crate) fn read(
        query: &'a str,
        results: u32,
        most: u32,
        page: Option<&'a str>,
    ) -> Result<Self, ToolError> {
        if query.chars().count() > LONGEST {
            return Err(ToolError::validation("query", format!("is longer than {LONGEST} characters")));
        }
        if !(1..=most).contains(&results) {
            return Err(ToolError::validation(
                "max_results",
                format!("{results} is not between 1 and {most}"),
            ));
        }
        if page.is_some_and(|page| page.is_empty() || page.chars().count() > LONGEST) {
            return Err(ToolError::validation("page_token", "is not the `next_page_token` of a result"));
        }
        Ok(Self { query, results: usize::try_from(results).unwrap_or(usize::MAX), page })
    }
}

/// Returns the ids of the messages, the newest first, and the token of the next page.
pub(crate) async fn ids(
    asking: &ApiCalls<'_>,
    wanted: &SearchParameters<'_>,
) -> Result<(Vec<String>, Option<String>), ToolError> {
    let mut found: Vec<String> = Vec::new();
    let mut page = wanted.page.map(str::to_owned);
    for _ in 0..MAX_PAGES {
        asking.context().stop.check()?;
        let size = (wanted.results - found.len()).min(MAX_OF_A_PAGE).to_string();
        let mut query = vec![("maxResults", size.as_str())];
        if !wanted.query.is_empty() {
            query.push(("q", wanted.query));
        }
        if let Some(page) = &page {
            query.push(("pageToken", page));
        }
        let list: WireList = asking.get("messages", &query).await?;
        let room = wanted.results - found.len();
        found.extend(list.messages.into_iter().take(room).map(|one| one.id));
        page = list.next_page_token.filter(|token| !token.is_empty());
        if page.is_none() || found.len() >= wanted.results {
            break;
        }
    }
    Ok((found, page))
}
