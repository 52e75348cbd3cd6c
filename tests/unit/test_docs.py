"""What the documentation names exists: files, folders, links, settings, environment variables and commands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from logos.adapters.hosts.providers import PROVIDERS, Permission
from logos.app.hosts import PERMISSIONS
from logos.app.setting_sources import LEAVES
from logos.cli.app import COMMANDS, app
from logos.cli.schema import default_in_words
from logos.domain.roles import Role

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG", "SECURITY")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
# Paths of this repository as the pages write them: from its root, or from src/logos/.
_BASES = (ROOT, ROOT / "src" / "logos")
_FOLDERS = {path.name for base in _BASES for path in base.iterdir() if path.is_dir()} - {"demo"}
_PATH = re.compile(r"`([\w.-]+/[\w./*-]*)`")
_LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)")
# A command line in a block or between backticks, up to a comment, a quote or the next command.
_COMMAND = re.compile(r"(?:^ +|`|&& )logos ([a-z]+)((?: [^`\n#&;|\"']*)?)", re.MULTILINE)
_OPTION = re.compile(r"(?<!\S)--?[a-z][a-z-]*")
# A line of the tree in onboarding.md: its indentation, then names, then what they are.
_TREE_LINE = re.compile(r"^    ( *)([\w./]+(?:, [\w./]+)*)(?:\s{2,}.*|)$")


def named_paths(text: str) -> set[str]:
    return {path for path in _PATH.findall(text) if path.split("/")[0] in _FOLDERS}


def tree_paths(text: str) -> set[str]:
    """The files and folders of the annotated tree, each under the folders above it."""
    block = text.partition("## The tree")[2].partition("\n## ")[0]
    above: dict[int, str] = {}
    found: set[str] = set()
    for line in block.splitlines():
        entry = _TREE_LINE.match(line)
        if entry is None:
            continue
        depth = len(entry[1])
        folder = next((above[key] for key in sorted(above, reverse=True) if key < depth), "")
        for name in entry[2].split(", "):
            if name.endswith("/"):
                above = {key: value for key, value in above.items() if key < depth} | {depth: folder + name}
            if name.endswith("/") or "." in name:
                found.add(folder + name)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_path_that_a_page_names_exists(name: str) -> None:
    paths = named_paths((ROOT / name).read_text())
    missing = {path for path in paths if not any(list(base.glob(path.rstrip("/"))) for base in _BASES)}
    assert not missing


def test_every_entry_of_the_tree_in_onboarding_exists() -> None:
    paths = tree_paths((ROOT / "docs" / "onboarding.md").read_text())
    assert len(paths) > 30
    assert not {path for path in paths if not (ROOT / path).exists()}


@pytest.mark.parametrize("name", NAMES)
def test_every_link_of_a_page_leads_to_a_file_and_a_heading(name: str) -> None:
    page = ROOT / name
    for file, anchor in _LINK.findall(page.read_text()):
        target = page.parent / file if file else page
        assert target.exists(), file
        assert not anchor or anchor in headings(target), f"{file}#{anchor}"


def headings(page: Path) -> set[str]:
    """The anchors of a page, as GitHub makes them."""
    lines = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line.strip().lower()).replace(" ", "-") for line in lines}


def options_of(name: str, words: str) -> set[str]:
    """The options of a command, or of the command below it that `words` begin with."""
    group = get_command(app)
    found: Any = group.get_command(None, name)  # type: ignore[attr-defined]
    below = getattr(found, "commands", {}).get(words.split()[0] if words.split() else "")
    return {flag for command in (found, below) if command for option in command.params for flag in option.opts}


@pytest.mark.parametrize("name", [name for name in NAMES if "decisions" not in name and "CHANGELOG" not in name])
def test_every_command_line_of_a_page_is_one_that_logos_takes(name: str) -> None:
    for command, words in _COMMAND.findall((ROOT / name).read_text()):
        assert command in COMMANDS, command
        unknown = set(_OPTION.findall(words.replace("\\\n", " "))) - options_of(command, words) - {"--help"}
        assert not unknown, f"logos {command}{words}"


def test_the_readme_lists_every_command() -> None:
    readme = (ROOT / "README.md").read_text()
    table = " ".join(re.findall(r"^\| (`.*?) \|", readme, re.MULTILINE))
    assert not {command for command in COMMANDS if not re.search(rf"`(?:logos )?{command}\b", table)}


def test_the_page_about_agent_clis_says_what_each_role_may_do_with_each() -> None:
    page = (ROOT / "docs" / "how-to" / "agents.md").read_text()
    roles = (Role.ANALYST, Role.PEER_ANALYST, Role.PROGRAMMER, Role.TESTER)
    assert PERMISSIONS[Role.PEER_ANALYST] is PERMISSIONS[Role.PEER_PROGRAMMER]
    for row in PROVIDERS.values():
        may = " | ".join(row.permissions[PERMISSIONS[role]].may for role in roles)
        assert f"| {row.program} | {may} |" in page
    assert all(
        row.permissions[level].may for row in PROVIDERS.values() for level in Permission if level != Permission.ALL
    )


def test_the_page_about_agent_clis_has_the_version_of_each_that_was_tested() -> None:
    rows = (ROOT / "docs" / "how-to" / "agents.md").read_text().splitlines()
    told = {(provider, version) for row in rows for provider, version in re.findall(r"\| `(\w+)` \| ([\d.]+) \|", row)}
    assert told == {(row.name, row.tested) for row in PROVIDERS.values()}


def test_decision_records_are_numbered_as_their_files_are() -> None:
    for page in sorted((ROOT / "docs" / "decisions").iterdir()):
        assert page.read_text().startswith(f"# {page.name[:3]} "), page.name


def readme_settings() -> dict[str, list[str]]:
    """The rows of the README's table of settings, by their key: environment, default, meaning."""
    readme = (ROOT / "README.md").read_text()
    lines = readme.partition("## Configuration")[2].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")]
    return {cells[0].strip("`"): cells[1:] for cells in rows}


def test_the_readme_describes_every_setting_in_the_words_of_logos_schema() -> None:
    told = readme_settings()
    for leaf in LEAVES:
        if f"{leaf.path[0]}.*" not in told:
            environment, default, meaning = told[leaf.key]
            assert meaning.lower().startswith(leaf.description.rstrip(".").lower()), leaf.key
            assert (environment.strip("`"), default.replace("`", "")) == (leaf.env, default_in_words(leaf)), leaf.key


def test_every_name_in_the_glossary_is_defined_in_the_code() -> None:
    source = "\n".join(path.read_text() for path in (ROOT / "src" / "logos").rglob("*.py"))
    rows = [
        line.split("|") for line in (ROOT / "docs" / "glossary.md").read_text().splitlines() if line.count("|") == 4
    ]
    names = {name for cells in rows for name in re.findall(r"`(\w+)`", cells[3])}
    defined = set(re.findall(r"\b(?:class|def) (\w+)|^ *(\w+)(?=: | = )", source, re.MULTILINE))
    assert len(names) > 50
    assert not names - {name for pair in defined for name in pair}


def test_pre_commit_runs_the_tools_of_make_check() -> None:
    makefile = (ROOT / "Makefile").read_text()
    recipe = makefile.partition("\ncheck:")[2].partition("\n\n")[0].splitlines()[1:]
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    assert [hook["entry"] for hook in hooks] == [line.strip().replace("$(BIN)", ".venv/bin") for line in recipe]
    assert not any(hook["pass_filenames"] for hook in hooks)
