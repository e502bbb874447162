-- Format 4: small saved files lie several in one pack, and here is where.

CREATE TABLE packed (
    content BLOB PRIMARY KEY,
    -- The hash of the pack, which is a blob.
    pack    BLOB NOT NULL,
    start   INTEGER NOT NULL,
    length  INTEGER NOT NULL,
    -- Of the content, before it was compressed.
    size    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX packed_by_pack ON packed (pack);
