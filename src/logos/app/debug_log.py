"""Diagnostic logging with the standard library's `logging`: on stderr, and off unless somebody asks for it."""

import logging
import sys
from collections.abc import Mapping
from contextlib import suppress

from logos.errors import ConfigError
from logos.views.redact import one_line

VARIABLE = "LOGOS_LOG"
NAMES = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
# Without -v, with -v, with -vv.
BY_VERBOSITY = (logging.WARNING, logging.INFO, logging.DEBUG)


class StderrHandler(logging.Handler):
    """Writes to what `sys.stderr` is at the moment: the live view replaces it, to print lines above its frame."""

    def emit(self, record: logging.LogRecord) -> None:
        # The terminal may be closed; a log line must not stop a run.
        with suppress(OSError, ValueError):
            print(one_line(self.format(record)), file=sys.stderr, flush=True)


def configure_logging(verbosity: int, env: Mapping[str, str]) -> None:
    """Log to stderr at the more detailed of two levels: that of `-v` or `-vv`, and that of LOGOS_LOG."""
    name = env.get(VARIABLE, "").strip().lower()
    if name and name not in NAMES:
        raise ConfigError(f"{VARIABLE}={name!r}: must be one of {', '.join(NAMES)}")
    level = min(BY_VERBOSITY[min(verbosity, 2)], NAMES.get(name, logging.WARNING))
    logger = logging.getLogger("logos")
    if level == logging.WARNING or any(isinstance(handler, StderrHandler) for handler in logger.handlers):
        logger.setLevel(min(level, logger.level or level))
        return
    handler = StderrHandler()
    handler.setFormatter(
        logging.Formatter("%(asctime)s %(levelname)s %(name)s [%(threadName)s] %(message)s", "%H:%M:%S")
    )
    logger.addHandler(handler)
    logger.setLevel(level)
