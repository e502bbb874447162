//! The list of the methods that may reach the user's browser, by level.
//!
//! The extension reads the same file and enforces it once more, so neither side has to trust the other.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

/// Level of a method. The user sets in the extension up to which level methods are carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MethodLevel {
    /// Looks at pages.
    Reading,
    /// Uses pages and opens tabs.
    Interaction,
    /// Reads cookies and closes tabs.
    Destructive,
}

impl MethodLevel {
    /// Returns the name of the level, as the extension shows it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Reading => "reading",
            Self::Interaction => "interaction",
            Self::Destructive => "destructive",
        }
    }
}

#[derive(Deserialize)]
struct File {
    reading: Vec<String>,
    interaction: Vec<String>,
    destructive: Vec<String>,
    events: HashSet<String>,
}

struct Lists {
    methods: HashMap<String, MethodLevel>,
    events: HashSet<String>,
}

static LISTS: LazyLock<Lists> = LazyLock::new(|| {
    // A test reads the file; if it were broken, nothing would pass.
    let file: Option<File> = serde_json::from_str(include_str!("../../../../extension/methods.json")).ok();
    let Some(file) = file else { return Lists { methods: HashMap::new(), events: HashSet::new() } };
    let levels = [
        (file.reading, MethodLevel::Reading),
        (file.interaction, MethodLevel::Interaction),
        (file.destructive, MethodLevel::Destructive),
    ];
    let methods =
        levels.into_iter().flat_map(|(names, level)| names.into_iter().map(move |name| (name, level)));
    Lists { methods: methods.collect(), events: file.events }
});

/// Returns the level of a method; `None` if it is on no list.
pub(super) fn level_of(method: &str) -> Option<MethodLevel> {
    LISTS.methods.get(method).copied()
}

/// Returns true if an event is passed on.
pub(super) fn is_event(method: &str) -> bool {
    LISTS.events.contains(method)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_leave_the_shared_tabs_is_on_no_list() {
        assert_eq!(level_of("Page.navigate"), Some(MethodLevel::Interaction), "the list is there");
        assert_eq!(level_of("Network.getCookies"), Some(MethodLevel::Destructive));
        assert!(is_event("Page.frameNavigated") && !is_event("Fetch.requestPaused"));
        for method in [
            "Browser.close",
            "DOM.setFileInputFiles",
            "Fetch.enable",
            "IO.read",
            "Network.getAllCookies",
            "Network.setCookie",
            "Page.crash",
            "Page.setDownloadBehavior",
            "Security.setIgnoreCertificateErrors",
            "Storage.getCookies",
            "Target.attachToTarget",
            "Target.createTarget",
            "Target.getTargets",
            "",
        ] {
            assert_eq!(level_of(method), None, "{method}");
        }
    }
}
