-- Format 2: questions to humans with their answers, and what answers allow beyond one call.

CREATE TABLE approvals (
    id             TEXT PRIMARY KEY,
    call           TEXT NOT NULL,
    session        TEXT NOT NULL,
    door           TEXT NOT NULL,
    workspace      BLOB NOT NULL,
    tool           TEXT NOT NULL,
    level          TEXT NOT NULL,
    plan           TEXT NOT NULL,
    request        TEXT NOT NULL,
    shape          TEXT NOT NULL,
    question       TEXT NOT NULL,
    asked_at_us    INTEGER NOT NULL,
    expires_at_us  INTEGER NOT NULL,
    state          TEXT NOT NULL,
    changes        TEXT,
    scope          TEXT,
    answered_at_us INTEGER,
    answered_by    TEXT,
    message        TEXT,
    told           INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE UNIQUE INDEX approvals_asked_once ON approvals (workspace, plan) WHERE state = 'waiting';
CREATE INDEX approvals_by_request ON approvals (workspace, request) WHERE state IN ('waiting', 'approved', 'denied');
CREATE INDEX approvals_by_time ON approvals (asked_at_us);

CREATE TABLE leases (
    id            TEXT PRIMARY KEY,
    approval      TEXT,
    scope         TEXT NOT NULL,
    session       TEXT,
    workspace     BLOB,
    kind          TEXT NOT NULL,
    tool          TEXT NOT NULL,
    pattern       TEXT NOT NULL,
    covers        TEXT NOT NULL,
    granted_by    TEXT NOT NULL,
    granted_at_us INTEGER NOT NULL,
    expires_at_us INTEGER NOT NULL,
    revoked_at_us INTEGER,
    uses          INTEGER NOT NULL DEFAULT 0,
    used_at_us    INTEGER
) STRICT;

CREATE INDEX leases_in_force ON leases (expires_at_us) WHERE revoked_at_us IS NULL;
