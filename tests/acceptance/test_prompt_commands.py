"""The shell commands that prompts tell agents to run do what they say."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from logos.prompts import PLACEHOLDER, response_instruction


@pytest.mark.parametrize("folder", ["plain", "with spaces", 'it\'s "quoted" $HOME `id`; x'])
def test_the_command_of_the_instruction_writes_the_file_whatever_its_path(tmp_path: Path, folder: str) -> None:
    path = tmp_path / folder / "test_result.md"
    path.parent.mkdir()
    instruction = response_instruction(path)
    # A path that needs quotes in a command is told without them, too.
    assert (f"\n{path}\n" in instruction) is (folder != "plain")
    command = instruction[instruction.index("\ncat ") :]
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert path.read_text() == f"{PLACEHOLDER}\n"
    assert done.stdout + done.stderr == ""
    assert [file.name for file in tmp_path.iterdir()] == [folder]


def test_a_response_in_the_heredoc_is_not_touched_by_the_shell(tmp_path: Path) -> None:
    path = tmp_path / "test_result.md"
    says = "RESULT: FAIL\nEVIDENCE:\n| $(touch oops) `id` $HOME \\n 'EOF' \"EOF\"\nEOF"
    instruction = response_instruction(path).replace(PLACEHOLDER, says)
    command = instruction[instruction.index("\ncat ") :]
    subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True)
    assert path.read_text() == f"{says}\n"
