"""Prompts that are too long to send: the agent gets a file in its own folder and the instruction to read it."""

from __future__ import annotations

from pathlib import Path

from logos.adapters.files import own_folder, write_atomically


def write_prompt(cwd: Path, name: str, prompt: str) -> Path:
    """Write a prompt below the folder in which its agent works: some agents may read nothing else."""
    folder = cwd / ".tmp" / "agent-prompts"
    own_folder(folder.parent)
    own_folder(folder)
    write_atomically(folder / name, prompt)
    return folder / name


def read_instruction(file: Path) -> str:
    return f"Your instructions are in a file. Read the file '{file}' completely and follow it."
