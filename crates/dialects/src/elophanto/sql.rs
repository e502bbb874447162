//! Check of the statements of `database_query`: only SELECT.

use serde_json::{Map, Value};
use tool::ToolError;

/// Rejects any statement but SELECT. The source: "Only SELECT statements allowed. Any other
/// statement type is rejected."
pub(super) fn select_alone(given: &Map<String, Value>, _: &mut Map<String, Value>) -> Result<(), ToolError> {
    let sql = given.get("sql").and_then(Value::as_str).unwrap_or_default();
    let first: String = without_comments(sql).chars().take_while(char::is_ascii_alphabetic).collect();
    if ["select", "with"].iter().any(|word| first.eq_ignore_ascii_case(word)) {
        return Ok(());
    }
    let problem = if first.is_empty() {
        "it is not a SELECT statement".to_owned()
    } else {
        format!("{first} is not a SELECT")
    };
    Err(ToolError::validation("sql", format!("{problem}: only SELECT statements are allowed"))
        .hint("use db_write to change data"))
}

/// Returns the statement from its first word on, without leading comments.
fn without_comments(sql: &str) -> &str {
    let mut rest = sql.trim_start();
    loop {
        let behind = match (rest.strip_prefix("--"), rest.strip_prefix("/*")) {
            (Some(line), _) => line.split_once('\n').map_or("", |(_, behind)| behind),
            (_, Some(block)) => block.split_once("*/").map_or("", |(_, behind)| behind),
            _ => return rest,
        };
        rest = behind.trim_start();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_query_is_a_select_and_no_other_statement() {
        let asked = |sql: &str| {
            let given = json!({"sql": sql});
            select_alone(given.as_object().unwrap(), &mut Map::new())
        };
        for sql in [
            "SELECT 1",
            "select 1",
            " \n-- a comment\n/* another */ SELECT 1",
            "WITH x AS (SELECT 1) SELECT * FROM x",
        ] {
            assert!(asked(sql).is_ok(), "{sql}");
        }
        for sql in [
            "EXPLAIN SELECT 1",
            "EXPLAIN QUERY PLAN SELECT 1",
            "VALUES (1)",
            "PRAGMA table_info(x)",
            "INSERT INTO x VALUES (1)",
            "/* SELECT */ PRAGMA user_version",
            "-- SELECT",
            "",
            "selected",
        ] {
            let error = asked(sql).unwrap_err();
            assert!(error.message.contains("only SELECT statements are allowed"), "{sql}: {}", error.message);
        }
    }
}
