"""The log of a work dir, read as it is: nothing is created, repaired or numbered by looking."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from logos.adapters.store.codec import decode
from logos.domain.events import Recorded
from logos.domain.turns import RunId


def read_log(wd: Path) -> dict[str, list[Recorded]]:
    """Every run of a work dir, oldest first. Empty before a driver has made its tables."""
    path = wd / ".telos" / "logos.db"
    if not path.exists():
        return {}
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=60)) as db:
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables >= {"events", "runs"}:
            return {}
        # In one transaction: a run that begins between two statements would have no number yet.
        db.execute("BEGIN")
        runs = [run for (run,) in db.execute("SELECT run FROM runs ORDER BY number")]
        rows = db.execute("SELECT run, seq, at, CAST(body AS BLOB) FROM events ORDER BY run, seq").fetchall()
    found: dict[str, list[Recorded]] = {run: [] for run in runs}
    for run, seq, at, body in rows:
        found.setdefault(run, []).append(Recorded(RunId(run), seq, at, decode(body)))
    return found
