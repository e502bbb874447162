//! Rows of EloPhanto's browser tools.

use tool::Example;

use crate::table::{AnswerField, DEFAULTS, ExternalTool, Field, Kind, Need, ValueSource, field, gives, text};

const TAB: Field = field("tab_id", Kind::Integer(1, i64::MAX), Need::Required, "The tab");
const ELEMENT: Field = text("selector", Need::Optional, "CSS, xpath:... or a reference such as e12");

const TAB_FIELDS: &[AnswerField] = &[
    gives("tab_id", ValueSource::Integer("tab_id"), "Its number."),
    gives("title", ValueSource::Text("title"), "Title."),
    gives("url", ValueSource::Text("url"), "URL."),
];

pub(crate) const CONNECT: ExternalTool = ExternalTool {
    name: "browser_connect",
    canonical: "browser_connect",
    title: "Start the browser",
    description: "Starts the session's browser.",
    takes: &[field("port", Kind::Integer(1, 65535), Need::Named("7600"), "Port of the extension")],
    gives: &[
        gives("connected", ValueSource::Switch("connected"), "True."),
        gives("tabs", ValueSource::Items("tabs", TAB_FIELDS), "Open tabs."),
        gives("browser_version", ValueSource::Text("browser_version"), "Name and version."),
    ],
    example: Example { files: &[], arguments: "{}", result: r#"{"connected": true}"# },
    ..DEFAULTS
};

pub(crate) const NAVIGATE: ExternalTool = ExternalTool {
    name: "browser_navigate",
    canonical: "browser_navigate",
    title: "Open a page",
    description: "Opens a URL in the session's browser (new tab or existing tab).",
    takes: &[
        text("url", Need::Required, "http or https"),
        field("tab_id", Kind::Integer(1, i64::MAX), Need::Optional, "The tab; if omitted, opens a new one"),
        text("wait_for", Need::Optional, "CSS selector to wait for before returning"),
    ],
    gives: &[
        gives("tab_id", ValueSource::Integer("tab_id"), "The tab."),
        gives("title", ValueSource::Text("title"), "Title."),
        gives("url", ValueSource::Text("url"), "URL after redirections."),
        gives("loaded", ValueSource::Switch("loaded"), "False if it was still loading."),
    ],
    example: Example {
        files: &[],
        arguments: r#"{"url": "about:blank"}"#,
        result: r#"{"url": "about:blank", "loaded": true}"#,
    },
    ..DEFAULTS
};

pub(crate) const READ_PAGE: ExternalTool = ExternalTool {
    name: "browser_read_page",
    canonical: "browser_read_page",
    title: "Read a page",
    description: "Reads the current page content: text, HTML structure, or a screenshot.",
    takes: &[
        TAB,
        field(
            "mode",
            Kind::OneOf(&["text", "html", "screenshot", "accessibility_tree"]),
            Need::Required,
            "Form of the content",
        ),
        ELEMENT,
    ],
    gives: &[
        gives("content", ValueSource::OptionalText("content"), "Text, HTML, or elements with references."),
        gives("image_base64", ValueSource::OptionalText("image_base64"), "The picture."),
    ],
    example: Example { files: &[], arguments: r#"{"tab_id": 1, "mode": "screenshot"}"#, result: "{}" },
    ..DEFAULTS
};

pub(crate) const INTERACT: ExternalTool = ExternalTool {
    name: "browser_interact",
    canonical: "browser_interact",
    title: "Act on a page",
    description: "Performs an action in the browser: click, type, scroll, select, submit.",
    takes: &[
        TAB,
        field(
            "action",
            Kind::OneOf(&["click", "type", "scroll", "select", "submit", "hover", "wait"]),
            Need::Required,
            "The action",
        ),
        ELEMENT,
        text("value", Need::Optional, "For type, select and scroll"),
        field("timeout", Kind::Integer(1, 60), Need::Optional, "Seconds; default 5"),
    ],
    gives: &[
        gives("success", ValueSource::Switch("success"), "True."),
        gives("action", ValueSource::Text("action"), "The action."),
        gives("page_changed", ValueSource::Switch("page_changed"), "Whether the page changed."),
        gives("new_url", ValueSource::OptionalText("new_url"), "If navigation occurred."),
    ],
    example: Example {
        files: &[],
        arguments: r#"{"tab_id": 1, "action": "scroll"}"#,
        result: r#"{"success": true, "action": "scroll"}"#,
    },
    ..DEFAULTS
};

pub(crate) const TABS: ExternalTool = ExternalTool {
    name: "browser_tabs",
    canonical: "browser_tabs",
    title: "List, create, close or switch tabs",
    description: "Lists, creates, closes, or switches between browser tabs.",
    takes: &[
        field("action", Kind::OneOf(&["list", "create", "close", "switch"]), Need::Required, "The action"),
        field("tab_id", Kind::Integer(1, i64::MAX), Need::Optional, "For close and switch"),
        text("url", Need::Optional, "For create"),
    ],
    gives: &[
        gives("tabs", ValueSource::Items("tabs", TAB_FIELDS), "Open tabs."),
        gives("active_tab", ValueSource::OptionalInteger("active_tab"), "The active one."),
    ],
    example: Example {
        files: &[],
        arguments: r#"{"action": "switch", "tab_id": 1}"#,
        result: r#"{"active_tab": 1}"#,
    },
    ..DEFAULTS
};

pub(crate) const COOKIES: ExternalTool = ExternalTool {
    name: "browser_cookies",
    canonical: "browser_cookies",
    title: "Read cookies",
    description: "Reads cookies for a given domain, to understand the state of a login.",
    takes: &[text("domain", Need::Required, "E.g. example.com")],
    gives: &[gives("cookies", ValueSource::Items("cookies", COOKIE), "Its cookies.")],
    example: Example { files: &[], arguments: r#"{"domain": "example.com"}"#, result: r#"{"cookies": []}"# },
    ..DEFAULTS
};

const COOKIE: &[AnswerField] = &[
    gives("name", ValueSource::Text("name"), "Name."),
    gives("value", ValueSource::Text("value"), "Value."),
    gives("expiry", ValueSource::OptionalAny("expires"), "Seconds since 1970."),
];

pub(crate) const DOWNLOAD: ExternalTool = ExternalTool {
    name: "browser_download",
    canonical: "browser_download",
    title: "Download a file",
    description: "Downloads a file with the browser.",
    takes: &[
        text("url", Need::Required, "URL of the file"),
        text("save_path", Need::Required, "Path in the workspace"),
    ],
    gives: &[
        gives("path", ValueSource::Text("path"), "Path."),
        gives("size_bytes", ValueSource::Integer("size_bytes"), "Size."),
        gives("mime_type", ValueSource::Text("mime_type"), "Media type."),
    ],
    example: Example {
        files: &[],
        arguments: r#"{"url": "https://example.com/report.pdf", "save_path": "report.pdf"}"#,
        result: r#"{"path": "report.pdf"}"#,
    },
    ..DEFAULTS
};

pub(crate) const SCREENSHOT: ExternalTool = ExternalTool {
    name: "browser_screenshot",
    canonical: "browser_screenshot",
    title: "Take a picture of a page",
    description: "Takes a screenshot of the current tab or a specific element.",
    takes: &[
        TAB,
        ELEMENT,
        field(
            "full_page",
            Kind::Switch,
            Need::Default("false"),
            "The whole page instead of the visible part",
        ),
    ],
    gives: &[
        gives("image_base64", ValueSource::Text("image_base64"), "The picture."),
        gives("width", ValueSource::Integer("width"), "Pixels."),
        gives("height", ValueSource::Integer("height"), "Pixels."),
    ],
    example: Example { files: &[], arguments: r#"{"tab_id": 1}"#, result: r#"{"width": 1280}"# },
    ..DEFAULTS
};
