//! Lists by pages, in the order in which they are shown.
//!
//! A cursor says where to go on in a list that does not change while this process lives, and is signed, so that no other is taken.

use rmcp::model::{ErrorData, PaginatedRequestParams, RequestStateCodec, SealOptions};

use crate::McpError;

/// Entries on one page. Many clients read only the first, so what most work needs must fit on it.
pub(crate) const PAGE: usize = 100;

/// Gives lists out by pages.
pub(crate) struct Pages(RequestStateCodec);

impl Pages {
    /// # Errors
    /// [`McpError::Random`] where the operating system gives no random bytes.
    pub(crate) fn new() -> Result<Self, McpError> {
        let mut key = [0; RequestStateCodec::MIN_KEY_LENGTH];
        getrandom::fill(&mut key).map_err(McpError::Random)?;
        // The length is the one that it checks.
        Ok(Self(RequestStateCodec::new_unchecked(key)))
    }

    /// The page of the list of this name that is asked for, and where the next one begins.
    ///
    /// # Errors
    /// `-32602` where the cursor is not one that was given out for this list.
    pub(crate) fn of<T>(
        &self,
        list: &str,
        entries: Vec<T>,
        asked: Option<&PaginatedRequestParams>,
    ) -> Result<(Vec<T>, Option<String>), ErrorData> {
        let from = match asked.and_then(|asked| asked.cursor.as_deref()) {
            None => 0,
            Some(cursor) => self.open(list, cursor).ok_or_else(|| {
                let problem = "`cursor` is none of this list; begin again without one";
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
