-- Format 3: what calls changed, so that it can be undone.

CREATE TABLE checkpoints (
    id         TEXT PRIMARY KEY,
    session    TEXT,
    tool       TEXT NOT NULL,
    workspace  BLOB NOT NULL,
    made_at_us INTEGER NOT NULL,
    folder     TEXT NOT NULL,
    -- 0: a commit is to follow; 1: a direct change is under way; 2: it has happened.
    state      INTEGER NOT NULL,
    undoes     TEXT,
    paths      INTEGER NOT NULL,
    bytes      INTEGER NOT NULL,
    unsaved    BLOB NOT NULL,
    roots      BLOB NOT NULL
) STRICT;

CREATE INDEX checkpoints_by_age ON checkpoints (workspace, made_at_us);

CREATE TABLE checkpoint_entries (
    checkpoint TEXT NOT NULL,
    number     INTEGER NOT NULL,
    path       BLOB NOT NULL,
    before     BLOB,
    after      BLOB,
    content    BLOB,
    PRIMARY KEY (checkpoint, number)
) STRICT, WITHOUT ROWID;

CREATE INDEX checkpoint_entries_by_content ON checkpoint_entries (content) WHERE content IS NOT NULL;
