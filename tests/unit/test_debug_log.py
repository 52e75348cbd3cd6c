"""Diagnostic logging: what it shows, what it hides, and how it gets along with the live view."""

from __future__ import annotations

import io
import logging

import pytest
from rich.console import Console
from rich.live import Live
from rich.text import Text

from logos.app.debug_log import configure_logging
from logos.errors import ConfigError

LOGGER = logging.getLogger("logos.somewhere")


@pytest.mark.parametrize(
    ("verbosity", "env", "shown"),
    [
        (0, {}, []),
        (0, {"LOGOS_LOG": ""}, []),
        (0, {"LOGOS_LOG": "warning"}, []),
        (1, {}, ["INFO"]),
        (0, {"LOGOS_LOG": "Info"}, ["INFO"]),
        (2, {}, ["INFO", "DEBUG"]),
        (5, {}, ["INFO", "DEBUG"]),
        (1, {"LOGOS_LOG": "debug"}, ["INFO", "DEBUG"]),
        (2, {"LOGOS_LOG": "error"}, ["INFO", "DEBUG"]),
    ],
)
def test_the_more_detailed_of_flag_and_variable_wins(
    capsys: pytest.CaptureFixture[str], verbosity: int, env: dict[str, str], shown: list[str]
) -> None:
    # `logos -v run` and `logos run -v` both configure; a line is written once.
    configure_logging(0, env)
    configure_logging(verbosity, env)
    configure_logging(0, env)
    LOGGER.info("retrying")
    LOGGER.debug("looking")
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.split()[1] for line in err.splitlines()] == shown


def test_an_unknown_level_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="LOGOS_LOG='loud': must be one of debug, info, warning, error"):
        configure_logging(0, {"LOGOS_LOG": "Loud"})


def test_a_line_names_its_module_and_holds_no_secret_and_no_control_sequence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logging(1, {})
    LOGGER.info("Authorization: Bearer %s\n\x1b[31mred", "abcdefgh12345678")
    err = capsys.readouterr().err
    assert "INFO logos.somewhere [MainThread] Authorization: Bearer [redacted] red\n" in err


def test_a_line_is_printed_above_the_frame_of_a_live_view() -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=60, color_system=None)
    configure_logging(1, {})
    with Live(Text("the frame"), console=console, auto_refresh=False) as live:
        LOGGER.info("a log line")
        live.refresh()
    drawn = screen.getvalue()
    assert drawn.index("a log line") < drawn.rindex("the frame")


def test_a_closed_terminal_does_not_stop_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    configure_logging(1, {})
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr("sys.stderr", closed)
    LOGGER.info("nobody reads this")
