"""Files of which only some sections steer tests and scripts. These sections are put back, the others stay."""

import configparser
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from posixpath import basename
from typing import Any, cast

from logos.flows.proof.examples import put_back_examples
from logos.flows.proof.rust_tests import put_back_tests

_Keys = tuple[str, ...]

# Sections by file name. A dotted path of keys for JSON and TOML, a pattern of section names for INI.
_TOML: dict[str, tuple[_Keys, ...]] = {
    "pyproject.toml": (
        ("tool", "pytest"),
        ("tool", "tox"),
        ("tool", "coverage"),
        ("tool", "nox"),
        ("tool", "hatch", "envs"),
        ("tool", "hatch", "env"),
        ("tool", "pdm", "scripts"),
        ("tool", "rye", "scripts"),
        ("tool", "pixi", "tasks"),
        ("tool", "poe"),
        ("tool", "taskipy"),
        ("tool", "ward"),
        # An installed package may be a plugin of pytest.
        ("project", "entry-points", "pytest11"),
    ),
    "Cargo.toml": (
        ("lib",),
        ("test",),
        ("bench",),
        ("profile",),
        ("package", "autotests"),
        ("package", "build"),
    ),
}
_PACKAGE_KEYS = (
    "scripts jest mocha vitest ava nyc c8 tap babel config overrides resolutions pnpm wireit jasmine directories"
)
_JSON: dict[str, tuple[_Keys, ...]] = {
    "package.json": tuple((key,) for key in _PACKAGE_KEYS.split()),
    "composer.json": (("scripts",), ("autoload-dev",), ("config",)),
}
_INI: dict[str, re.Pattern[str]] = {
    "setup.cfg": re.compile(
        r"tool:pytest|coverage:.*|aliases|test|nosetests|unittest|tox:.*|testenv.*|mutmut", re.DOTALL
    ),
    "tox.ini": re.compile(r"pytest.*|tool:pytest|tox.*|testenv.*|coverage.*|gh.*|docker.*", re.DOTALL),
}
# Source files that have tests inside.
_RUST = ".rs"
# A dependency from elsewhere than the registry can replace a runner.
_DEPENDENCIES = ("dependencies", "devDependencies", "optionalDependencies", "peerDependencies")
_FROM_ELSEWHERE = re.compile(r"(?:file|link|portal|patch|npm|git|github|https?|exec|\.|/)[:+./@]|[^@\s]+/[^@\s]+$")


def is_mixed(path: str) -> bool:
    return basename(path) in {**_TOML, **_JSON, **_INI} or path.endswith(_RUST)


def put_back(path: str, base: str | None, result: str | None) -> str:
    """The result's file with the sections of base that steer tests.

    Where one of the two cannot be read, or the sections cannot be replaced one by one, it is base's file.
    """
    if result is None or base == result:
        return base or ""
    name = basename(path)
    try:
        if name.endswith(".py"):
            return put_back_examples(base or "", result)
        if name in _JSON:
            return _json(_JSON[name], base, result)
        if name in _TOML:
            return _toml(_TOML[name], base, result)
        if name in _INI:
            return _ini(_INI[name], base, result)
        return put_back_tests(base or "", result)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, configparser.Error):
        return base or ""


def _json(keys: Iterable[_Keys], base: str | None, result: str) -> str:
    before, after = _object(base or "{}"), _object(result)
    steered = {key: before[key] for (key,) in keys if key in before}
    others = {key for (key,) in keys} - steered.keys()
    # The order of keys stays as in the result.
    merged = {key: steered.get(key, value) for key, value in after.items() if key not in others} | steered
    for key in _DEPENDENCIES:
        if isinstance(merged.get(key), dict):
            merged[key] = _from_registry(cast(dict[str, Any], merged[key]), before)
    if merged == after:
        return result
    indent = re.search(r"\n([ \t]+)\"", result)
    return json.dumps(merged, indent=indent[1] if indent else 2, ensure_ascii=False) + "\n"


def _from_registry(after: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Dependencies that came from the registry still do."""
    known: dict[str, Any] = {}
    for key in _DEPENDENCIES:
        known.update(before.get(key) or {})
    return {
        name: known[name] if name in known and _FROM_ELSEWHERE.match(str(value)) else value
        for name, value in after.items()
    }


def _object(text: str) -> dict[str, Any]:
    found = json.loads(text.removeprefix("\ufeff"))
    if not isinstance(found, dict):
        raise ValueError("it is not an object")
    return cast(dict[str, Any], found)


_TOML_HEADER = re.compile(r"^[ \t]*\[\[?[ \t]*(?P<name>[^\[\]\n]+?)[ \t]*\]\]?[ \t]*(?:#[^\n]*)?$", re.MULTILINE)
_INI_HEADER = re.compile(r"^\[(?P<name>[^\]\n]+)\]", re.MULTILINE)
_TOML_KEY = re.compile(r"[ \t]*(?:\"([^\"]*)\"|'([^']*)'|([\w-]+))[ \t]*(?:\.|$)")


def _toml(keys: tuple[_Keys, ...], base: str | None, result: str) -> str:
    before, after = tomllib.loads(base or ""), tomllib.loads(result)
    if all(_at(before, key) == _at(after, key) for key in keys):
        return result

    def steers(header: str) -> bool:
        return any(_toml_keys(header)[: len(key)] == key for key in keys)

    text = _spliced(base or "", result, _TOML_HEADER, steers)
    for key in keys:
        if len(key) == 2:
            text = _with_line(text, base or "", key)
    # Keys can be written in ways that a splice of tables does not see: then base's file is put back whole.
    spliced = tomllib.loads(text)
    same = all(_at(spliced, key) == _at(before, key) for key in keys)
    if not same or _without(spliced, keys) != _without(after, keys):
        raise ValueError("the sections cannot be replaced")
    return text


def _ini(names: re.Pattern[str], base: str | None, result: str) -> str:
    before, after = _sections(base or ""), _sections(result)
    text = _spliced(base or "", result, _INI_HEADER, lambda header: names.fullmatch(header) is not None)
    expected = {name: section for name, section in after.items() if not names.fullmatch(name)}
    expected |= {name: section for name, section in before.items() if names.fullmatch(name)}
    if _sections(text) != expected:
        raise ValueError("the sections cannot be replaced")
    return text


def _sections(text: str) -> dict[str, dict[str, str | None]]:
    parser = configparser.RawConfigParser(allow_no_value=True, default_section="")
    parser.read_string(text)
    return {name: dict(parser.items(name)) for name in parser.sections()}


def _spliced(base: str, result: str, header: re.Pattern[str], steers: Callable[[str], bool]) -> str:
    """The result without its steering sections, and with those of base at its end."""
    kept = "".join(part for name, part in _parts(result, header) if name is None or not steers(name))
    put = "".join(part for name, part in _parts(base, header) if name is not None and steers(name))
    if not put:
        return kept
    return (kept.rstrip("\n") + "\n\n" if kept.strip() else "") + put.rstrip("\n") + "\n"


def _parts(text: str, header: re.Pattern[str]) -> list[tuple[str | None, str]]:
    """The text before the first header, then each section with its header."""
    found = list(header.finditer(text))
    ends = [*(match.start() for match in found[1:]), len(text)][: len(found)]
    parts: list[tuple[str | None, str]] = [(None, text[: found[0].start()] if found else text)]
    return parts + [(match["name"], text[match.start() : end]) for match, end in zip(found, ends, strict=True)]


def _with_line(text: str, base: str, key: _Keys) -> str:
    """A single key of a table, as `autotests = false`, as base has it."""
    table, name = key
    line = re.compile(rf"^[ \t]*{re.escape(name)}[ \t]*=[^\n]*\n?", re.MULTILINE)
    put = next(
        (found[0] for part, body in _parts(base, _TOML_HEADER) if part == table and (found := line.search(body))), ""
    )
    parts: list[str] = []
    for part, body in _parts(text, _TOML_HEADER):
        if part == table:
            head, newline, rest = line.sub("", body).partition("\n")
            parts.append(head + newline + put + rest)
        else:
            parts.append(body)
    return "".join(parts)


def _toml_keys(header: str) -> _Keys:
    return tuple(next(filter(None, match.groups()), "") for match in _TOML_KEY.finditer(header))


def _at(document: object, keys: _Keys) -> object:
    for key in keys:
        if not isinstance(document, dict):
            return None
        document = cast(dict[str, object], document).get(key)
    return document


def _without(document: dict[str, Any], keys: Iterable[_Keys]) -> dict[str, Any]:
    """The document without the steering keys and without tables that are then empty."""
    left = {name: value for name, value in document.items() if (name,) not in keys}
    for name, value in left.items():
        inner = [key[1:] for key in keys if key[0] == name and len(key) > 1]
        if inner and isinstance(value, dict):
            left[name] = _without(cast(dict[str, Any], value), inner)
    return {name: value for name, value in left.items() if value != {}}
