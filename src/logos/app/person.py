"""Who asks: decisions about a run are a person's, so that no agent approves its own work.

What this cannot stop is in docs/how-to/trust.md.
"""

from collections.abc import Mapping
from pathlib import Path

from logos.adapters.commands import MARK
from logos.adapters.processes import environments
from logos.adapters.store.mirror import folder_of, state_folder
from logos.app.workdir import WorkDir
from logos.errors import UsageError

# In the environment of what Logos starts for agents and checks, and in that of the terminals of a CAO server.
MARKS = (MARK, "CAO_TERMINAL_ID")


def require_person(place: Path, doing: str = "decide this") -> None:
    """Refuse to act on the runs of a work dir below an agent, or below a command that Logos runs for one.

    An agent may use Logos for work dirs and a state folder of its own, for example in the tests of its project.
    """
    for environment in environments():
        mark = next((name for name in MARKS if name in environment), "")
        if mark and _is_concerned(environment, place):
            raise UsageError(
                f"an agent cannot {doing}: this process was started by one ({mark} is in its environment); "
                "use a terminal of your own"
            )


def _is_concerned(environment: Mapping[str, str], place: Path) -> bool:
    """Whether the Logos that marked a process keeps records of this work dir, or would."""
    try:
        theirs, ours = state_folder(environment), state_folder()
    except OSError:
        return True
    database = WorkDir(place).database
    return theirs == ours or folder_of(database, theirs).is_dir()
