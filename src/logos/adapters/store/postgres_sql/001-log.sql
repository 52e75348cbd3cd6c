-- What a file logos.db is for one work dir is a row here. `place`: the host and the path of the work dir.
CREATE TABLE logos.logs (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    place   text NOT NULL UNIQUE,
    created timestamptz NOT NULL DEFAULT now()
);

-- Runs in the order in which they began: the clock may be set back, and the events of a fork are older than itself.
CREATE TABLE logos.runs (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run    text   NOT NULL UNIQUE,
    log    bigint NOT NULL REFERENCES logos.logs (id)
);

CREATE INDEX runs_of_a_log ON logos.runs (log, number);

-- A run is its rows in order. The primary key is what keeps two drivers from both being next. `body` has the bytes that
-- were hashed, never jsonb; `head` stands for this event and every one before it, as in the mirror of a SQLite log.
CREATE TABLE logos.events (
    run  text   NOT NULL REFERENCES logos.runs (run),
    seq  bigint NOT NULL CHECK (seq >= 1),
    at   double precision NOT NULL,
    body bytea  NOT NULL,
    head bytea  NOT NULL,
    PRIMARY KEY (run, seq)
);
