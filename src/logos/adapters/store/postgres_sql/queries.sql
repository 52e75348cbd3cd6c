-- Each query has a name; `queries()` in postgres.py reads them. The tables are made by the numbered files beside this.

-- name: version
SELECT to_regclass('logos.migrations') IS NOT NULL;

-- name: applied
SELECT coalesce(max(number), 0) FROM logos.migrations;

-- name: lock_migrations
-- One process migrates at a time. The number means nothing; it must only be the same in every version.
SELECT pg_advisory_xact_lock(4863209135);

-- name: create_migrations
CREATE SCHEMA IF NOT EXISTS logos;
CREATE TABLE IF NOT EXISTS logos.migrations (
    number  integer PRIMARY KEY,
    applied timestamptz NOT NULL DEFAULT now()
);

-- name: record_migration
INSERT INTO logos.migrations (number) VALUES (%(number)s);

-- name: find_log
SELECT id FROM logos.logs WHERE place = %(place)s;

-- name: create_log
INSERT INTO logos.logs (place) VALUES (%(place)s) ON CONFLICT (place) DO NOTHING;

-- name: append
-- One statement compares and inserts. Where two of them run at once, the second waits for the first at the primary key,
-- and fails. `stored` is what a line of a mirror is hashed from, after the hash of the event before.
WITH last AS (
    SELECT events.seq, encode(events.head, 'hex') AS head
    FROM logos.events
    WHERE events.run = %(run)s
    ORDER BY events.seq DESC
    LIMIT 1
), ours AS (
    INSERT INTO logos.runs (run, log)
    SELECT %(run)s::text, %(log)s::bigint
    WHERE %(after)s = 0 AND NOT EXISTS (SELECT FROM last)
    ON CONFLICT (run) DO NOTHING
    RETURNING run
), added AS (
    INSERT INTO logos.events (run, seq, at, body, head)
    SELECT %(run)s::text, %(after)s::bigint + 1, %(at)s::double precision, %(body)s::bytea,
           sha256(convert_to(coalesce((SELECT head FROM last), %(first)s::text), 'UTF8') || %(stored)s::bytea)
    WHERE coalesce((SELECT seq FROM last), 0) = %(after)s
      AND (EXISTS (SELECT FROM ours) OR EXISTS (SELECT FROM logos.runs WHERE run = %(run)s AND log = %(log)s))
    RETURNING run, seq, head
)
SELECT encode(head, 'hex'), pg_notify('logos_events', run || ' ' || seq) FROM added;

-- name: create_run
INSERT INTO logos.runs (run, log) VALUES (%(run)s, %(log)s);

-- name: copy_events
COPY logos.events (run, seq, at, body, head) FROM STDIN (FORMAT BINARY);

-- name: notify
SELECT pg_notify('logos_events', %(run)s::text || ' ' || %(seq)s::bigint);

-- name: is_stored
SELECT count(*) = 1 FROM logos.events
WHERE run = %(run)s AND seq = %(after)s + 1 AND at = %(at)s AND body = %(body)s;

-- name: rows
SELECT seq, at, body, encode(head, 'hex')
FROM logos.events
WHERE run = %(run)s AND seq >= %(from)s
  AND EXISTS (SELECT FROM logos.runs WHERE run = %(run)s AND log = %(log)s)
ORDER BY seq
LIMIT %(limit)s;

-- name: head
SELECT encode(head, 'hex')
FROM logos.events
WHERE run = %(run)s AND EXISTS (SELECT FROM logos.runs WHERE run = %(run)s AND log = %(log)s)
ORDER BY seq DESC
LIMIT 1;

-- name: runs
SELECT run FROM logos.runs WHERE log = %(log)s ORDER BY number;

-- name: ends
SELECT runs.run, last.seq, last.at
FROM logos.runs
CROSS JOIN LATERAL (
    SELECT events.seq, events.at FROM logos.events WHERE events.run = runs.run ORDER BY events.seq DESC LIMIT 1
) AS last
WHERE runs.log = %(log)s;

-- name: cut
DELETE FROM logos.events
WHERE run = %(run)s AND seq >= %(from)s
  AND EXISTS (SELECT FROM logos.runs WHERE run = %(run)s AND log = %(log)s);
