"""Which tests run on the same worker: those of a file that share a server, a demo or a build; all others run anywhere.

xdist 3.8 ignores the mark `xdist_group` under pytest 9 (it sets an attribute that pytest no longer reads), and work
stealing knows no groups. So the unit of work is chosen here by path.
"""

from __future__ import annotations

from fnmatch import fnmatch

from xdist.scheduler.loadscope import LoadScopeScheduling

# Files whose tests share something that takes long to make, and folders of short tests, where handing out every test
# on its own would cost more than the tests.
TOGETHER = (
    "tests/live/test_build.py",
    "tests/live/test_c[aoy]*.py",
    "tests/live/test_harness.py",
    "tests/live/test_smoke.py",
    # Browsers take much memory and both cores: one at a time.
    "tests/live/web/test_page*.py",
    "tests/acceptance/test_demo*.py",
    # A database server.
    "tests/*/test_log.py",
    "tests/*/test_postgres*.py",
    "tests/unit/*",
)


def unit_of(nodeid: str) -> str:
    """What a test is handed out with: its file, or nothing but itself."""
    path = nodeid.split("::", 1)[0]
    return path if any(fnmatch(path, pattern) for pattern in TOGETHER) else nodeid


class Schedule(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)
