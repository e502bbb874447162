-- Format 9: rows of the audit are found by their workspace, which their plan names.

ALTER TABLE audit ADD COLUMN workspace TEXT GENERATED ALWAYS AS (
    CASE WHEN json_valid(plan) THEN CAST(json_extract(plan, '$.workspace') AS TEXT) END
) VIRTUAL;

CREATE INDEX audit_by_workspace ON audit (workspace);
