-- A run is its rows in order. The primary key is what keeps two drivers from both being next.
CREATE TABLE IF NOT EXISTS events (
    run  TEXT    NOT NULL,
    seq  INTEGER NOT NULL CHECK (seq >= 1),
    at   REAL    NOT NULL,
    body TEXT    NOT NULL,
    PRIMARY KEY (run, seq)
) WITHOUT ROWID;

-- Runs in the order in which they began: the clock may be set back, and the events of a fork are older than itself.
CREATE TABLE IF NOT EXISTS runs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    run    TEXT    NOT NULL UNIQUE
);

-- Which mirror the log has. The id alone proves nothing: the mirror also knows the path of the log.
CREATE TABLE IF NOT EXISTS log (
    id TEXT NOT NULL
);

-- Runs that were written while their mirror could not be: the signature of their last hash.
CREATE TABLE IF NOT EXISTS seals (
    run  TEXT PRIMARY KEY,
    seal TEXT NOT NULL
) WITHOUT ROWID;
