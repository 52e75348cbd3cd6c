"""The manual page: made of the commands' help, and part of the package."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from logos.cli.app import COMMANDS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "logos.1"


def test_it_is_what_the_commands_say_now(tmp_path: Path) -> None:
    made = tmp_path / "logos.1"
    subprocess.run([sys.executable, ROOT / "tools" / "manpage.py", made], check=True)
    assert made.read_text() == PAGE.read_text(), "run `make man`"


def test_every_command_is_in_it_and_the_package_has_it() -> None:
    shown = set(re.findall(r"^\.SS logos ([\w-]+)", PAGE.read_text(), re.MULTILINE))
    assert shown == set(COMMANDS)
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["shared-data"] == {"docs/logos.1": "share/man/man1/logos.1"}


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_finds_nothing_wrong_with_it() -> None:
    done = subprocess.run(["groff", "-man", "-ww", "-Tutf8", PAGE], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert "--may-change" in re.sub(".\b", "", done.stdout).replace("\u2212", "-")
