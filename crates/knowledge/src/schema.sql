CREATE TABLE state (one INTEGER PRIMARY KEY CHECK (one = 1), changes INTEGER NOT NULL, removals INTEGER NOT NULL);
INSERT INTO state VALUES (1, 0, 0);
CREATE TABLE files (
    id INTEGER PRIMARY KEY,
    path BLOB NOT NULL UNIQUE,
    scope INTEGER NOT NULL,
    size INTEGER NOT NULL,
    seconds INTEGER NOT NULL,
    nanoseconds INTEGER NOT NULL,
    hash BLOB NOT NULL,
    note TEXT
);
CREATE TABLE chunks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    file INTEGER NOT NULL REFERENCES files (id),
    section TEXT NOT NULL,
    first_line INTEGER NOT NULL,
    last_line INTEGER NOT NULL,
    text TEXT NOT NULL,
    heading INTEGER NOT NULL,
    hash BLOB NOT NULL
);
CREATE INDEX chunks_of_file ON chunks (file);
CREATE INDEX chunks_of_hash ON chunks (hash);
CREATE TABLE embeddings (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    hash BLOB NOT NULL,
    model BLOB NOT NULL,
    vector BLOB NOT NULL,
    UNIQUE (hash, model)
);
CREATE VIRTUAL TABLE words USING fts5 (
    path, section, body, content = '', contentless_delete = 1, tokenize = 'porter unicode61 remove_diacritics 2'
);
