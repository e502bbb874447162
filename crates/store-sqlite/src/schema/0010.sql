-- Format 10: schedules, and their firings.

CREATE TABLE schedules (
    id            TEXT PRIMARY KEY,
    name          TEXT NOT NULL,
    description   TEXT NOT NULL,
    workspace     BLOB NOT NULL,
    text          TEXT NOT NULL,
    canonical     TEXT NOT NULL,
    zone          TEXT NOT NULL,
    -- One of the two: a cron line, or a single instant.
    cron          TEXT,
    run_at_us     INTEGER,
    action        TEXT NOT NULL,
    ceiling       TEXT NOT NULL,
    rules         TEXT NOT NULL,
    -- active, paused or ended.
    state         TEXT NOT NULL,
    created_at_us INTEGER NOT NULL,
    -- The call that has created it.
    created_by    TEXT NOT NULL,
    -- The first instant that was not claimed.
    next_at_us    INTEGER,
    last_at_us    INTEGER,
    last_status   TEXT,
    failures      INTEGER NOT NULL DEFAULT 0,
    disabled      TEXT,
    CHECK ((cron IS NULL) <> (run_at_us IS NULL))
) STRICT;

CREATE INDEX schedules_due ON schedules (workspace, state, next_at_us, id);
-- Callers name schedules by their names.
CREATE UNIQUE INDEX schedules_names ON schedules (workspace, name) WHERE state <> 'ended';

CREATE INDEX schedules_ended ON schedules (last_at_us) WHERE state = 'ended';

CREATE TABLE firings (
    schedule      TEXT NOT NULL,
    instant_us    INTEGER NOT NULL,
    -- claimed, waiting, queued, done or failed.
    state         TEXT NOT NULL,
    owner         TEXT NOT NULL,
    -- The fence: what an owner of a lower epoch reports is refused.
    epoch         INTEGER NOT NULL,
    attempt       INTEGER NOT NULL,
    -- 1 if the lease of the claim before ended without an end of its attempt.
    interrupted   INTEGER NOT NULL DEFAULT 0,
    begun_at_us   INTEGER NOT NULL,
    -- The end of the lease, or the time of the next attempt.
    held_until_us INTEGER NOT NULL,
    ended_at_us   INTEGER,
    outcome       TEXT,
    output        TEXT,
    PRIMARY KEY (schedule, instant_us)
) STRICT, WITHOUT ROWID;

CREATE INDEX firings_held ON firings (held_until_us) WHERE state IN ('claimed', 'waiting');
CREATE INDEX firings_open ON firings (schedule) WHERE ended_at_us IS NULL;
