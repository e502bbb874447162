//! Tests of states that earlier formats have left behind: they are opened, migrated, and keep their rows.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails it by panicking")]

use std::path::Path;
use std::thread;

use jiff::{SignedDuration, Timestamp};
use rusqlite::Connection;
use store_api::{
    AgentAddOutcome, AgentRow, AgentState, Amounts, AuditRow, Durability, Hash, Kind, Limits, NewMail,
    Priority, ReserveOutcome, ScheduleRow, ScheduleState, ScheduleTimes, SendOutcome, SpendingKey,
    SpendingScope, Store as _,
};
use store_sqlite::SqliteStore;

const LEASE: SignedDuration = SignedDuration::from_mins(5);

/// Statements of each format.
const FORMATS: [&str; 11] = [
    include_str!("../src/schema/0001.sql"),
    include_str!("../src/schema/0002.sql"),
    include_str!("../src/schema/0003.sql"),
    include_str!("../src/schema/0004.sql"),
    include_str!("../src/schema/0005.sql"),
    include_str!("../src/schema/0006.sql"),
    include_str!("../src/schema/0007.sql"),
    include_str!("../src/schema/0008.sql"),
    include_str!("../src/schema/0009.sql"),
    include_str!("../src/schema/0010.sql"),
    include_str!("../src/schema/0011.sql"),
];

/// Statements that bring a database from format 11 to format 10.
const TO_FORMAT_10: &str =
    "DROP TABLE agents; DROP TABLE agent_entries; DROP TABLE mail; DROP TABLE spending;
    DROP TABLE reservations; DROP TABLE reserved_accounts; PRAGMA user_version = 10;";

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

fn database(folder: &Path) -> Connection {
    Connection::open(folder.join("handfast.db")).unwrap()
}

/// Returns the statements of the tables of format 11, and of their indexes and triggers.
fn schema(folder: &Path) -> Vec<String> {
    let connection = database(folder);
    let sql = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND tbl_name IN (
            'agents', 'agent_entries', 'mail', 'spending', 'reservations', 'reserved_accounts')
         ORDER BY type, name";
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

/// Uses each subject of format 11.
fn use_format_11(store: &SqliteStore) {
    let text = |text: &str| text.to_owned();
    let agent = AgentRow {
        id: text("a1"),
        workspace: "/w".into(),
        parent: None,
        name: text("one"),
        task: text("find it"),
        model: text("a/b"),
        state: AgentState::Running,
        settings: text("{}"),
        created_by: text("c1"),
        owner: text("o"),
        epoch: 1,
        held_until: now() + LEASE,
        created_at: now(),
        ended_at: None,
        outcome: None,
        spent_micro_usd: 0,
        spent_tokens: 0,
    };
    assert_eq!(store.agents().add(&agent, 1).unwrap(), AgentAddOutcome::Added);
    assert_eq!(store.agents().find("a1").unwrap(), Some(agent));
    let mail = NewMail {
        workspace: "/w".into(),
        from: text("a0"),
        to: text("a1"),
        priority: Priority::High,
        body: text("hello"),
        in_reply_to: None,
        sent_at: now(),
        deadline: None,
    };
    assert_eq!(store.mail().send(&mail, 1, 1).unwrap(), SendOutcome::Sent(1));
    let claimed = store.mail().claim("a1", Path::new("/w"), now(), LEASE, 9).unwrap();
    assert_eq!(claimed.len(), 1);
    assert!(store.mail().delivered(1, claimed[0].epoch).unwrap());
    let account = SpendingKey { scope: SpendingScope::Project("/w".into()) };
    let limits = Limits { micro_usd: Some(1), tokens: None };
    let worst = Amounts { micro_usd: 1, tokens: 7 };
    let reserved = store.spending().reserve(&[(account.clone(), limits)], worst, "o", now(), LEASE).unwrap();
    assert_eq!(reserved, ReserveOutcome::Reserved(1));
    assert!(store.spending().settle(1, worst).unwrap());
    assert_eq!(store.spending().spent(&account, now()).unwrap(), (worst, Amounts::default()));
}

#[test]
fn a_state_of_each_earlier_format_gets_the_tables_of_a_new_one() {
    let new = tempfile::tempdir().unwrap();
    drop(SqliteStore::open(new.path()).unwrap());
    for format in 1..FORMATS.len() {
        let folder = tempfile::tempdir().unwrap();
        let connection = database(folder.path());
        for statements in &FORMATS[..format] {
            connection.execute_batch(statements).unwrap();
        }
        connection
            .execute_batch(&format!("PRAGMA journal_mode = wal; PRAGMA user_version = {format}"))
            .unwrap();
        drop(connection);
        let store = SqliteStore::open(folder.path()).unwrap();
        use_format_11(&store);
        drop(store);
        assert_eq!(schema(folder.path()), schema(new.path()), "from format {format}");
    }
}

#[test]
fn a_state_of_format_10_keeps_its_rows_and_gets_the_new_subjects() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path()).unwrap();
    let text = |text: &str| text.to_owned();
    let schedule = ScheduleRow {
        id: text("s1"),
        name: text("nightly"),
        description: text("described"),
        workspace: "/w".into(),
        text: text("every minute"),
        canonical: text("every minute"),
        zone: text("UTC"),
        times: ScheduleTimes::Recurring(text("* * * * *")),
        action: text("{}"),
        ceiling: text("{}"),
        rules: text("{}"),
        state: ScheduleState::Active,
        created_at: now(),
        created_by: text("c1"),
        next_at: Some(now()),
        last_at: None,
        last_status: None,
        failures: 0,
        disabled: None,
    };
    store.schedules().add(&schedule).unwrap();
    let row = AuditRow::new(Kind::Call, now(), "c1", "cli", "handfast", "file_read");
    store.audit().append(row, Durability::Committed).wait().unwrap();
    let hash: Hash = store.blobs().put(&mut "kept".as_bytes()).unwrap().hash;
    store.trust().trust(Path::new("/w/file"), &hash, now()).unwrap();
    store.close().unwrap();
    drop(store);
    database(folder.path()).execute_batch(TO_FORMAT_10).unwrap();
    // Two processes open it at once: one migrates it, and both find it migrated.
    let stores: Vec<SqliteStore> = thread::scope(|scope| {
        let opens: Vec<_> =
            (0..2).map(|_| scope.spawn(|| SqliteStore::open(folder.path()).unwrap())).collect();
        opens.into_iter().map(|open| open.join().unwrap()).collect()
    });
    use_format_11(&stores[0]);
    assert_eq!(stores[1].schedules().find("s1").unwrap(), Some(schedule));
    assert_eq!(stores[1].audit().show("c1").unwrap().len(), 1);
    assert_eq!(stores[1].audit().verify(None).unwrap().rows, 1);
    assert_eq!(stores[1].trust().trusted_hash(Path::new("/w/file")).unwrap(), Some(hash));
    assert_eq!(stores[1].mail().replies(1).unwrap(), None);
}
