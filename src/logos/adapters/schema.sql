-- A run is its rows in order. The primary key is what keeps two drivers from both being next.
CREATE TABLE IF NOT EXISTS events (
    run  TEXT    NOT NULL,
    seq  INTEGER NOT NULL CHECK (seq >= 1),
    at   REAL    NOT NULL,
    body TEXT    NOT NULL,
    PRIMARY KEY (run, seq)
) WITHOUT ROWID;
