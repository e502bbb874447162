//! Files of the workspace that a page is given.

use std::time::Duration;

use browser::{ActionOutcome, ClickOptions, Page, PlannedAction, Selector};
use roots::Roots;
use tool::{Code, Context, ToolError};

use crate::errors::{of_browser, of_page};
use crate::session::open;

/// Largest file in bytes.
const LARGEST: u64 = 100 * 1024 * 1024;

/// Gives a file to a file input, or to the file chooser that a click on the element opens.
pub(crate) async fn give(
    context: &Context,
    page: &Page,
    selector: &Selector,
    file: &str,
    limit: Duration,
) -> Result<ActionOutcome, ToolError> {
    let roots = context.service::<Roots>()?;
    let path = context.place.resolve("value", file)?;
    let opened = roots.open_file(&path).map_err(tool_support::files::failure(context))?;
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| ToolError::validation("value", "the name of the file is not UTF-8"))?;
    let copy = open(context)?.copy_for_page(name, opened.file, LARGEST).map_err(|error| {
        ToolError::new(Code::Runtime, format!("{file} cannot be given to the page: {error}")).because(error)
    })?;
    let target = page.describe(&PlannedAction::Other, selector).await.map_err(of_page)?;
    if target.facts.tag == "input" && target.facts.kind == "file" {
        let paths = vec![copy.to_string_lossy().into_owned()];
        return page.set_files(selector, paths, limit).await.map_err(of_page);
    }
    let mark = page.tab().begin_report();
    page.tab().choose_files(&[copy]).await.map_err(of_browser)?;
    let clicked = page.click(selector, ClickOptions::default(), limit).await.map_err(of_page);
    let _is_settled = page.tab().settle(&mark, limit).await;
    page.tab().forget_files();
    let outcome = clicked?;
    if page.tab().report(&mark).files_chosen == 0 {
        let problem = format!("{selector} was clicked, and no file chooser opened, so no file was given");
        return Err(
            ToolError::new(Code::Runtime, problem).hint("name the file input, or the button that opens it")
        );
    }
    Ok(outcome)
}
