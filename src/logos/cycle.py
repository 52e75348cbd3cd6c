"""`python -m logos.cycle [config.json]`: run or resume a cycle, configured by the file and the environment only."""

import os
import sys
from pathlib import Path

from logos.app.debug_log import configure_logging
from logos.app.runs import progress
from logos.app.setting_sources import load_settings
from logos.app.start import run_here
from logos.app.workdir import say
from logos.errors import Interrupted, LogosError
from logos.signals import interruptible


def main(arguments: list[str]) -> int:
    if len(arguments) > 1:
        say("usage: python -m logos.cycle [config.json]")
        return 2
    try:
        configure_logging(0, os.environ)
        with interruptible():
            settings = load_settings(Path(arguments[0]) if arguments else None, os.environ, bare=True)
            reread, waits = os.environ.get("REREAD") == "1", sys.stdin.isatty() and sys.stderr.isatty()
            result = run_here(settings, bare=True, watchers=[progress(say)], reread=reread, waits_at_gates=waits)
    except (LogosError, Interrupted) as error:
        say(f"logos: {error}")
        return error.exit_code
    say(result.in_words)
    return result.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
