-- Format 6: what lies in a pack, and what a checkpoint needs, in one row each. A row and an index entry for each content lay
-- scattered by their hashes, so that every change wrote pages all over the file, the more the older the file was.

CREATE TABLE packs (
    number    INTEGER PRIMARY KEY,
    -- The hash of the pack, which is a blob.
    name      BLOB NOT NULL UNIQUE,
    -- The first eight bytes of the hash of every content in it, sorted.
    keys      BLOB NOT NULL,
    -- In the same order: the hash; where the content starts, its length there and its length before it was compressed, as
    -- 32-bit little-endian numbers.
    directory BLOB NOT NULL
) STRICT;

CREATE TABLE checkpoint_contents (
    checkpoint TEXT NOT NULL,
    -- The first eight bytes of the hash of every content that entries of the checkpoint name.
    keys       BLOB NOT NULL
) STRICT;

CREATE INDEX checkpoint_contents_by_checkpoint ON checkpoint_contents (checkpoint);
