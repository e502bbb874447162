-- Format 7: what agents remember as vectors, so that it is found by its meaning. A text is several pieces, all of one version and
-- made by one model. They can be made again at any time, so what has none is not lost, and only found by its words.

CREATE TABLE memory_vectors (
    memory  INTEGER NOT NULL,
    version INTEGER NOT NULL,
    -- The hash of all that the vector depends on.
    model   BLOB NOT NULL,
    vector  BLOB NOT NULL
) STRICT;

CREATE INDEX memory_vectors_by_memory ON memory_vectors (memory, version, model);

CREATE INDEX memories_by_agent ON memories (workspace, agent, shared, version) WHERE deleted_at_us IS NULL;
