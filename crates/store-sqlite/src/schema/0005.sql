-- Format 5: what agents remember, every version of it, and an index of its words.

CREATE TABLE memories (
    number        INTEGER PRIMARY KEY,
    id            TEXT NOT NULL UNIQUE,
    workspace     BLOB NOT NULL,
    -- Whose it is; every agent of the workspace has those that are shared.
    agent         TEXT NOT NULL,
    shared        INTEGER NOT NULL,
    key           TEXT NOT NULL,
    content       TEXT NOT NULL,
    version       INTEGER NOT NULL,
    created_at_us INTEGER NOT NULL,
    changed_at_us INTEGER NOT NULL,
    deleted_at_us INTEGER
) STRICT;

CREATE UNIQUE INDEX memories_by_key ON memories (workspace, agent, key) WHERE deleted_at_us IS NULL AND shared = 0;
CREATE UNIQUE INDEX memories_shared_by_key ON memories (workspace, key) WHERE deleted_at_us IS NULL AND shared = 1;

CREATE TABLE memory_versions (
    memory  INTEGER NOT NULL,
    version INTEGER NOT NULL,
    -- created, updated or deleted.
    what    TEXT NOT NULL,
    content TEXT NOT NULL,
    at_us   INTEGER NOT NULL,
    agent   TEXT NOT NULL,
    session TEXT NOT NULL,
    call    TEXT NOT NULL,
    PRIMARY KEY (memory, version)
) STRICT, WITHOUT ROWID;

CREATE VIRTUAL TABLE memory_words USING fts5 (key, content, tokenize = 'porter unicode61');
