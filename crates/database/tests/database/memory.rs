//! Tests of the memory limit of statements.

use database::{Bounds, DatabaseError, Value};

use crate::world::{ALL, NOTES, World, never};

/// Returns the peak memory of this process so far, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Repeats the expression, each time under a different name.
fn times(expression: &str, count: usize) -> String {
    let named = |number| format!("{expression} AS c{number}");
    (0..count).map(named).collect::<Vec<_>>().join(", ")
}

fn alone(expression: &str, count: usize) -> String {
    vec![expression; count].join(", ")
}

#[test]
fn no_statement_takes_more_than_its_share_of_memory_whatever_holds_its_values() {
    let world = World::with(NOTES);
    let columns = (0..300).map(|number| format!("c{number}")).collect::<Vec<_>>().join(", ");
    world.write(&format!("CREATE TABLE wide ({columns})")).unwrap();
    world.write(&format!("CREATE VIEW view AS SELECT {}", times("randomblob(9000000)", 300))).unwrap();
    world
        .write(&format!(
            "CREATE TRIGGER one AFTER DELETE ON notes BEGIN INSERT INTO wide VALUES ({}); END",
            alone("randomblob(9000000)", 300)
        ))
        .unwrap();
    let rows = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 30)";
    let many_rows = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 1500)";
    let bounds = Bounds { bytes: 8 << 20, ..ALL };
    for sql in [
        format!("SELECT {}", times("zeroblob(1000000)", 1_900)),
        format!("SELECT {}", times("randomblob(9000000)", 300)),
        "SELECT * FROM view".to_owned(),
        "SELECT count(*) FROM (SELECT * FROM view ORDER BY 1)".to_owned(),
        "WITH v AS MATERIALIZED (SELECT * FROM view) SELECT length(a.c1), length(b.c2) FROM v a, v b"
            .to_owned(),
        format!("{rows} SELECT {} FROM n", times("group_concat(printf('%.*c', 1000000, 'x'))", 300)),
        format!("{rows} SELECT {} FROM n", times("json_group_array(hex(zeroblob(500000)))", 300)),
        // The memory that an aggregate gathers over rows counts, not only its result.
        format!("{many_rows} SELECT json_group_array(hex(zeroblob(1000000))) FROM n"),
        format!("{many_rows} SELECT length(json_group_object(x, hex(zeroblob(1000000)))) FROM n"),
        format!("SELECT max({})", alone("randomblob(9000000)", 120)),
        format!("SELECT * FROM (VALUES ({}))", alone("hex(randomblob(9000000))", 200)),
        format!("{rows} SELECT {} FROM n", times("first_value(randomblob(9000000)) OVER ()", 200)),
    ] {
        let refused = world.database().query(&sql, &[], bounds, &never());
        assert!(
            matches!(refused, Err(DatabaseError::TooLarge(_))),
            "{}: {refused:?}",
            &sql[..60.min(sql.len())]
        );
    }
    // A sort succeeds within the limit, or is refused.
    let sorted = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 100) \
                  SELECT count(*) FROM (SELECT hex(zeroblob(8000000)) || x AS h FROM n ORDER BY h)";
    let sorted = world.database().query(sorted, &[], bounds, &never());
    assert!(matches!(sorted, Ok(_) | Err(DatabaseError::TooLarge(_))), "{sorted:?}");
    for sql in [
        format!("INSERT INTO wide VALUES ({})", alone("randomblob(9000000)", 300)),
        format!("UPDATE notes SET body = 'x' RETURNING {}", times("randomblob(9000000)", 300)),
        "DELETE FROM notes".to_owned(),
    ] {
        let refused = world.write(&sql);
        assert!(
            matches!(refused, Err(DatabaseError::TooLarge(_))),
            "{}: {refused:?}",
            &sql[..40.min(sql.len())]
        );
    }
    // Statements within the limits still work, on the same connections.
    let large = Bounds { bytes: 40 << 20, ..ALL };
    let one = world.database().query("SELECT randomblob(30000000)", &[], large, &never()).unwrap();
    assert!(matches!(&one.rows[0][0], Value::Blob(bytes) if bytes.len() == 30_000_000));
    let many = format!("SELECT {}", times("randomblob(100000)", 50));
    assert_eq!(world.database().query(&many, &[], bounds, &never()).unwrap().rows[0].len(), 50);
    world.write("INSERT INTO notes (body) VALUES (hex(zeroblob(5000000)))").unwrap();
    assert!(peak() < 1 << 30, "{} MiB", peak() >> 20);
}
