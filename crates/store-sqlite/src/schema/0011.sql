-- Format 11: agents with their conversations, their mail, and what models have cost.

CREATE TABLE agents (
    -- The order of creation.
    number          INTEGER PRIMARY KEY,
    id              TEXT NOT NULL UNIQUE,
    workspace       BLOB NOT NULL,
    parent          TEXT,
    name            TEXT NOT NULL,
    task            TEXT NOT NULL,
    model           TEXT NOT NULL,
    -- running, idle, done, failed, stopped or interrupted.
    state           TEXT NOT NULL,
    settings        TEXT NOT NULL,
    -- The call that has created it.
    created_by      TEXT NOT NULL,
    owner           TEXT NOT NULL,
    -- The fence: what an owner of a lower epoch reports is refused.
    epoch           INTEGER NOT NULL,
    held_until_us   INTEGER NOT NULL,
    created_at_us   INTEGER NOT NULL,
    ended_at_us     INTEGER,
    outcome         TEXT,
    spent_micro_usd INTEGER NOT NULL,
    spent_tokens    INTEGER NOT NULL
) STRICT;

CREATE INDEX agents_by_age ON agents (workspace, created_at_us, number);
CREATE INDEX agents_open ON agents (workspace, created_at_us, number, state)
    WHERE state IN ('running', 'idle');
CREATE INDEX agents_held ON agents (held_until_us) WHERE state IN ('running', 'idle');
CREATE INDEX agents_ended ON agents (ended_at_us) WHERE state NOT IN ('running', 'idle');
CREATE INDEX agents_by_parent ON agents (parent) WHERE parent IS NOT NULL;
-- For the last agent of a person.
CREATE INDEX agents_of_people ON agents (workspace, name, created_at_us, number) WHERE parent IS NULL;

CREATE TABLE agent_entries (
    -- The number of the agent.
    agent  INTEGER NOT NULL,
    seq    INTEGER NOT NULL,
    json   TEXT NOT NULL,
    tokens INTEGER NOT NULL
) STRICT;

-- Not the primary key of a table without row ids, because entries are long.
CREATE UNIQUE INDEX agent_entries_in_order ON agent_entries (agent, seq);

CREATE TABLE mail (
    -- Never used again, because replies name it.
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace        BLOB NOT NULL,
    sender           TEXT NOT NULL,
    receiver         TEXT NOT NULL,
    -- 0: standard; 1: high.
    priority         INTEGER NOT NULL,
    sent_at_us       INTEGER NOT NULL,
    deadline_us      INTEGER,
    -- waiting, claimed, delivered, answered or dead.
    state            TEXT NOT NULL,
    -- 1 if no earlier mail of its sender, its receiver and its priority is open: only these are handed out.
    first            INTEGER NOT NULL,
    claimed_until_us INTEGER,
    -- The fence: what is acknowledged with a lower epoch is refused.
    epoch            INTEGER NOT NULL DEFAULT 0,
    in_reply_to      INTEGER,
    dead_reason      TEXT,
    body             TEXT NOT NULL
) STRICT;

CREATE INDEX mail_first ON mail (workspace, receiver, priority DESC, id, claimed_until_us, first, state)
    WHERE first = 1 AND state IN ('waiting', 'claimed');
CREATE INDEX mail_lanes ON mail (workspace, receiver, sender, priority, id, state)
    WHERE state IN ('waiting', 'claimed');
CREATE INDEX mail_deadlines ON mail (deadline_us)
    WHERE deadline_us IS NOT NULL AND state IN ('waiting', 'claimed');
CREATE INDEX mail_replies ON mail (in_reply_to) WHERE in_reply_to IS NOT NULL;
CREATE INDEX mail_dead ON mail (workspace, id) WHERE state = 'dead';
CREATE INDEX mail_ended ON mail (sent_at_us) WHERE state NOT IN ('waiting', 'claimed');

CREATE TRIGGER mail_lane_goes_on AFTER UPDATE OF state ON mail
WHEN OLD.first = 1 AND OLD.state IN ('waiting', 'claimed') AND NEW.state NOT IN ('waiting', 'claimed')
BEGIN
    UPDATE mail SET first = 1 WHERE id = (
        SELECT min(id) FROM mail
        WHERE workspace = NEW.workspace AND receiver = NEW.receiver AND sender = NEW.sender
            AND priority = NEW.priority AND state IN ('waiting', 'claimed'));
END;

CREATE TABLE spending (
    -- day or project.
    scope     TEXT NOT NULL,
    -- The day as in 2026-01-02, or the path.
    name      BLOB NOT NULL,
    micro_usd INTEGER NOT NULL,
    tokens    INTEGER NOT NULL,
    PRIMARY KEY (scope, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE reservations (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    owner         TEXT NOT NULL,
    -- The most that the call can cost.
    micro_usd     INTEGER NOT NULL,
    tokens        INTEGER NOT NULL,
    held_until_us INTEGER NOT NULL
) STRICT;

CREATE INDEX reservations_held ON reservations (held_until_us);

CREATE TABLE reserved_accounts (
    scope       TEXT NOT NULL,
    name        BLOB NOT NULL,
    reservation INTEGER NOT NULL,
    PRIMARY KEY (scope, name, reservation)
) STRICT, WITHOUT ROWID;

CREATE INDEX reserved_accounts_by_reservation ON reserved_accounts (reservation);
