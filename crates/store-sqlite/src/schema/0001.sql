-- Format 1: the audit log, the outputs kept by reference, the trusted files.

CREATE TABLE audit (
    sequence    INTEGER PRIMARY KEY,
    format      INTEGER NOT NULL,
    kind        TEXT NOT NULL,
    time_us     INTEGER NOT NULL,
    call        TEXT NOT NULL,
    session     TEXT,
    door        TEXT NOT NULL,
    dialect     TEXT NOT NULL,
    tool        TEXT NOT NULL,
    plan        TEXT,
    decision    TEXT,
    rule        TEXT,
    approved_by TEXT,
    sandbox     TEXT,
    duration_us INTEGER,
    outcome     TEXT,
    effect      TEXT,
    output_ref  TEXT,
    previous    BLOB NOT NULL,
    hash        BLOB NOT NULL
) STRICT;

CREATE INDEX audit_by_call ON audit (call);
CREATE INDEX audit_by_session ON audit (session) WHERE session IS NOT NULL;
CREATE INDEX audit_by_time ON audit (time_us);

CREATE TRIGGER audit_rows_are_never_changed BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;

CREATE TRIGGER audit_rows_are_never_deleted BEFORE DELETE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;

-- Also keeps out INSERT OR REPLACE, which deletes without firing the trigger above.
CREATE TRIGGER audit_rows_are_added_at_the_end BEFORE INSERT ON audit
WHEN NEW.sequence IS NOT (SELECT coalesce(max(sequence), 0) + 1 FROM audit)
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;

CREATE TABLE outputs (
    id            TEXT PRIMARY KEY,
    blob          BLOB NOT NULL,
    size          INTEGER NOT NULL,
    media_type    TEXT NOT NULL,
    session       TEXT,
    created_at_us INTEGER NOT NULL
) STRICT;

CREATE INDEX outputs_by_age ON outputs (created_at_us);
CREATE INDEX outputs_by_blob ON outputs (blob);

CREATE TABLE trust (
    path          BLOB PRIMARY KEY,
    hash          BLOB NOT NULL,
    trusted_at_us INTEGER NOT NULL
) STRICT;
