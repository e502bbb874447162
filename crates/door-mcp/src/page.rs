//! Pagination of lists.
//!
//! A cursor is a position in a list that does not change during the life of this process. Cursors
//! are signed, so that no other value is accepted.

use rmcp::model::{ErrorData, PaginatedRequestParams, RequestStateCodec, SealOptions};

use crate::McpError;

/// Entries per page. Many clients read only the first page, so the tools for common work must fit on it.
pub(crate) const PAGE: usize = 100;

/// Splits lists into pages.
pub(crate) struct Pages(RequestStateCodec);

impl Pages {
    /// Creates a paginator with a new key.
    ///
    /// # Errors
    /// [`McpError::Random`] if the operating system returns no random bytes.
    pub(crate) fn new() -> Result<Self, McpError> {
        let mut key = [0; RequestStateCodec::MIN_KEY_LENGTH];
        getrandom::fill(&mut key).map_err(McpError::Random)?;
        // The constructor checks only the length of the key, which is valid.
        Ok(Self(RequestStateCodec::new_unchecked(key)))
    }

    /// Returns the requested page of the list with this name, and the cursor of the next page.
    ///
    /// # Errors
    /// `-32602` if the cursor was not issued for this list.
    pub(crate) fn of<T>(
        &self,
        list: &str,
        entries: Vec<T>,
        asked: Option<&PaginatedRequestParams>,
    ) -> Result<(Vec<T>, Option<String>), ErrorData> {
        let from = match asked.and_then(|asked| asked.cursor.as_deref()) {
            None => 0,
            Some(cursor) => self.open(list, cursor).ok_or_else(|| {
                let problem = "unknown `cursor`; repeat without it to start from the first page";
                ErrorData::invalid_params(problem, None)
            })?,
        };
        let next = from.saturating_add(PAGE);
        let cursor = (next < entries.len()).then(|| {
            let place = next.to_string();
            self.0.seal_with(place.as_bytes(), &SealOptions::new().associated_data(list.as_bytes()))
        });
        Ok((entries.into_iter().skip(from).take(PAGE).collect(), cursor))
    }

    fn open(&self, list: &str, cursor: &str) -> Option<usize> {
        let place = self.0.open_with(cursor, list.as_bytes()).ok()?;
        std::str::from_utf8(&place).ok()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(cursor: Option<String>) -> PaginatedRequestParams {
        PaginatedRequestParams::default().with_cursor(cursor)
    }

    #[test]
    fn pages_make_up_the_list() {
        let pages = Pages::new().unwrap();
        let list: Vec<usize> = (0..=PAGE * 2).collect();
        let mut found = Vec::new();
        let mut cursor = None;
        for _ in 0..3 {
            let (page, next) = pages.of("tools", list.clone(), Some(&asked(cursor))).unwrap();
            found.extend(page);
            cursor = next;
        }
        assert_eq!((found, cursor), (list.clone(), None));
        assert_eq!(pages.of("tools", list[..PAGE].to_vec(), None).unwrap().1, None);
    }

    #[test]
    fn a_cursor_of_another_list_or_server_or_none_at_all_is_refused() {
        let pages = Pages::new().unwrap();
        let list = vec![0; PAGE + 1];
        let cursor = pages.of("tools", list.clone(), None).unwrap().1.unwrap();
        let refused = |list_name: &str, cursor: &str| {
            pages.of(list_name, list.clone(), Some(&asked(Some(cursor.to_owned())))).unwrap_err().code.0
        };
        assert_eq!(refused("prompts", &cursor), -32602);
        for cursor in ["", "100", "AAAA", &cursor[1..], &format!("{cursor}A")] {
            assert_eq!(refused("tools", cursor), -32602, "{cursor}");
        }
        let elsewhere = Pages::new().unwrap().of("tools", list.clone(), Some(&asked(Some(cursor.clone()))));
        assert_eq!(elsewhere.unwrap_err().code.0, -32602);
        assert!(pages.of("tools", list, Some(&asked(Some(cursor)))).is_ok());
    }
}
