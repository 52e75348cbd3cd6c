"""`logos record` keeps each turn's file changes: a replay in a fresh clone gives the identical tree."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.acceptance.test_simulation import IN_A_HURRY
from tests.support.repositories import FILES, make_repository
from tests.support.sandbox import Sandbox

BINARY = bytes(range(256))
FIRST = {**FILES, "old/gone.txt": "gone\n", "becomes/folder": "a file\n", "swap": "a file\n"}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Sandbox]:
    site = Sandbox.of_repository(tmp_path / "repo", FIRST, **IN_A_HURRY)
    site.set(EXPECT_CHANGE="")
    yield site
    site.close()


def tree(wd: Path) -> dict[str, tuple[bytes, bool]]:
    """Every file of a person's: its content, or where it links to, and whether it may be executed."""
    files = (path for path in wd.rglob("*") if path.relative_to(wd).parts[0] not in (".git", ".telos", ".tmp"))
    return {
        str(path.relative_to(wd)): (
            (str(path.readlink()).encode(), False)
            if path.is_symlink()
            else (path.read_bytes(), bool(path.stat().st_mode & 0o100))
        )
        for path in files
        if path.is_symlink() or path.is_file()
    }


@pytest.mark.long
def test_a_replay_in_a_fresh_clone_gives_the_identical_tree(site: Sandbox) -> None:
    edit = {
        "shop.py": "def shop() -> int:\r\n    return 1  # grün \u2028\r\n",
        "new/deep/file.txt": "no newline at the end",
        "old/gone.txt": None,
        "becomes/folder": None,
        "swap": None,
        "swap/inside": "a folder now\n",
        "becomes": "a file now\n",
        "logo.bin": {"base64": base64.b64encode(BINARY).decode()},
        "tool.sh": {"text": "#!/bin/sh\necho hello\n", "executable": True},
        "link": {"link": "shop.py"},
    }
    again = {"tool.sh": {"text": "#!/bin/sh\necho bye\n", "executable": False}, "README.md": None}
    fails = [{"say": "RESULT: FAIL\nEVIDENCE:\n- no\n"}, {}]
    script = site.script({"programmer": [{"edit": edit}, {"edit": again}], "tester": fails})
    assert site("run", "--simulate", str(script)).code == 0
    wanted = tree(site.wd)
    assert wanted["logo.bin"] == (BINARY, False)
    assert wanted["swap/inside"][0] == b"a folder now\n"

    replay = site.wd.parent / "replay.yaml"
    done = site("record", "-o", str(replay))
    assert done.code == 0, done.err
    assert "2 with file changes" in done.err
    assert "not in the script" not in done.err
    recorded = yaml.safe_load(replay.read_text())["turns"]
    assert [turn for turn, step in recorded.items() if "edit" in step] == ["r1.programmer.c1", "r2.programmer.c1"]
    assert recorded["r1.programmer.c1"]["edit"]["tool.sh"]["executable"] is True

    clone = site.at(make_repository(site.wd.parent / "clone", FIRST))
    done = clone("run", "--simulate", str(replay))
    assert done.code == 0, done.err
    assert tree(clone.wd) == wanted
    clone.close()


def test_secrets_in_recorded_files_are_redacted_and_named(site: Sandbox) -> None:
    site.script({"programmer": [{"edit": {"key.txt": "sk-abcdefghijklmnopqrstuvwx\n"}}]})
    assert site("run", "--simulate", str(site.script_path)).code == 0
    done = site("record")
    assert "sk-abcdefghij" not in done.out
    assert "not in the script: key.txt: secrets in it are redacted" in done.err


def test_a_recording_says_where_checkpoints_are_missing(site: Sandbox) -> None:
    site.script({"programmer": [{"edit": {"new.txt": "new\n"}}]})
    assert site("run", "--simulate", str(site.script_path), "--set", "checkpoints.enabled=0").code == 0
    done = site("record")
    assert done.code == 0
    assert "not in the script: the files at r1.programmer.c1 were not kept" in done.err
    assert "# It lacks" in done.out


def test_a_recorded_build_builds_the_same_files(site: Sandbox) -> None:
    l3 = {"report": {"components": [{"name": name, "purpose": name} for name in ("cart", "till")]}}
    cart = [{"edit": {"cart.py": "def cart(): ...\n", "old/gone.txt": None}}]
    site.script({"L3": [l3], "L2.cart": cart, "L1": [{"edit": {"till.py": "def till(): return 1\n"}}]})
    done = site.build("pay by invoice", "--levels", "L3-L1")
    assert done.code == 0, done.err
    wanted = site.git("rev-parse", f"{site.result}^{{tree}}")
    replay = site.wd.parent / "replay.yaml"
    done = site("record", "-o", str(replay))
    assert done.code == 0, done.err
    assert "not in the script" not in done.err

    clone = site.at(make_repository(site.wd.parent / "clone", FIRST))
    done = clone("build", "pay by invoice", "--levels", "L3-L1", "--simulate", str(replay))
    assert done.code == 0, done.err
    assert clone.git("rev-parse", f"{clone.result}^{{tree}}") == wanted
    clone.close()
