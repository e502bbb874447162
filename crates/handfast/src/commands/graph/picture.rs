//! A picture of a definition and its neighbours, as SVG in one file: no script, no link, no font of elsewhere.

use serde_json::Value;

/// Sizes, in pixels.
const ROW: usize = 34;
const BOX: (usize, usize) = (300, 26);
const GAP: usize = 170;
const MARGIN: usize = 20;

/// Characters of a name that a box shows.
const NAME: usize = 40;

/// Draws a definition with what uses it on the left and what it uses on the right. `sides` are their rows, of which
/// at most `most` are shown.
pub(super) fn drawn(symbol: &str, sides: &[Value], most: usize) -> String {
    let rows = |at: usize| sides.get(at).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let shown = |at: usize| rows(at).len().min(most);
    let lines = shown(0).max(shown(1)).max(1) + 1;
    let height = MARGIN * 2 + lines * ROW + ROW;
    let width = MARGIN * 2 + BOX.0 * 3 + GAP * 2;
    let columns = [MARGIN, MARGIN + BOX.0 + GAP, MARGIN + 2 * (BOX.0 + GAP)];
    let middle = MARGIN + ROW + (lines - 1) * ROW / 2;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n<title>{}</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        escaped(symbol)
    );
    for (at, heading) in [(0, "used by"), (1, "uses")] {
        let column = columns.get(at * 2).copied().unwrap_or_default();
        svg.push_str(&format!("<text x=\"{column}\" y=\"{}\" fill=\"#555\">{heading}</text>\n", MARGIN + 12));
        for (line, row) in rows(at).iter().take(most).enumerate() {
            let top = MARGIN + ROW + line * ROW;
            let (from, to) = if at == 0 {
                ((column + BOX.0, top), (columns[1], middle))
            } else {
                ((columns[1] + BOX.0, middle), (column, top))
            };
            let half = BOX.1 / 2;
            let kind = escaped(row["type"].as_str().unwrap_or_default());
            svg.push_str(&format!(
                "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"#999\"/>\n",
                from.0,
                from.1 + half,
                to.0,
                to.1 + half
            ));
            let (x, anchor) = if at == 0 { (column + BOX.0 + 4, "start") } else { (column - 4, "end") };
            svg.push_str(&format!(
                "<text x=\"{x}\" y=\"{}\" font-size=\"9\" fill=\"#777\" text-anchor=\"{anchor}\">{kind}</text>\n",
                top + half - 3
            ));
            svg.push_str(&boxed(column, top, &label(row), row["id"].as_str().unwrap_or_default(), "#eef3fb"));
        }
        if rows(at).len() > most {
            let below = MARGIN + ROW + most * ROW + 12;
            svg.push_str(&format!("<text x=\"{column}\" y=\"{below}\" fill=\"#555\">and more</text>\n"));
        }
    }
    svg.push_str(&boxed(columns[1], middle, symbol, symbol, "#fdf1d7"));
    svg.push_str("</svg>\n");
    svg
}

/// Returns the name of a neighbour with its place.
fn label(row: &Value) -> String {
    let text = |field: &str| row[field].as_str().unwrap_or_default();
    let name = if text("name").is_empty() { text("id") } else { text("name") };
    let file = text("file").rsplit('/').next().unwrap_or_default();
    match (row["line"].as_i64(), file) {
        (Some(line), file) if !file.is_empty() => format!("{name}  {file}:{line}"),
        _ => name.to_owned(),
    }
}

fn boxed(x: usize, y: usize, label: &str, title: &str, fill: &str) -> String {
    let count = label.chars().count();
    let shown: String =
        if count > NAME { label.chars().take(NAME - 1).chain(['…']).collect() } else { label.to_owned() };
    format!(
        "<g><title>{}</title><rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" rx=\"4\" fill=\"{fill}\" \
         stroke=\"#88a\"/><text x=\"{}\" y=\"{}\">{}</text></g>\n",
        escaped(title),
        BOX.0,
        BOX.1,
        x + 8,
        y + 17,
        escaped(&shown)
    )
}

/// Escapes a text for XML. Control characters, which XML cannot have, become visible.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in tool::visible(text).chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_cannot_leave_their_texts() {
        let evil = "</text><script>alert(1)</script>\u{0}\"'&";
        let row = json!({"id": evil, "name": evil, "file": evil, "line": 3, "type": evil});
        let svg = drawn(evil, &[json!([row.clone()]), json!([row])], 40);
        assert!(!svg.contains("<script") && !svg.contains('\u{0}'), "{svg}");
        assert!(svg.contains("&lt;script&gt;"), "{svg}");
        assert_eq!(svg.matches('<').count(), svg.matches('>').count());
    }

    #[test]
    fn a_side_shows_as_many_as_fit_and_says_that_there_are_more() {
        let rows: Vec<Value> = (0..50).map(|at| json!({"id": format!("f{at}"), "type": "CALLS"})).collect();
        let svg = drawn("s", &[json!(rows), json!([])], 40);
        assert_eq!((svg.matches(">CALLS<").count(), svg.matches("and more").count()), (40, 1));
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && !svg.contains("href"));
    }
}
