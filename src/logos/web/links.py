"""Addresses of the pages of a run. Each keeps the work dir, as copies have the same runs, and the moment."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from logos.app.moments import Moment


def same_place(moment: Moment) -> str:
    """The query of the same run, now."""
    return urlencode({"wd": str(moment.place)})


def same_moment(moment: Moment) -> str:
    """The query of the same run at the same moment."""
    return same_place(moment) if moment.is_now else urlencode({"wd": str(moment.place), "at": moment.seq})


def link(moment: Moment, part: str = "") -> str:
    """A page of the run: `turns/ID`, `proof`, `diff`, `build`, or the run itself."""
    below = f"/{quote(part)}" if part else ""
    return f"/runs/{quote(moment.view.run)}{below}?{same_moment(moment)}"


def moment_link(moment: Moment, seq: int) -> str:
    """The run at another event."""
    return f"/runs/{quote(moment.view.run)}?{urlencode({'wd': str(moment.place), 'at': seq})}"
