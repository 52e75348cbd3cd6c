"""Settings from anything: a Settings object, or one line of a UsageError; never anything else."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from logos.app.preflight import check_input
from logos.app.run_start import make_plan
from logos.app.setting_sources import LEAVES, as_environment, load_settings
from logos.app.settings import Settings
from logos.domain.roles import Role
from logos.errors import ConfigError, UsageError
from tests.builders import a_plan, examples

SECTIONS = sorted({leaf.path[0] for leaf in LEAVES if len(leaf.path) == 2})
KEYS = [*(leaf.path[-1] for leaf in LEAVES), *SECTIONS, "agents", "$schema", "nonsense", ""]

any_text = st.text(max_size=12) | st.text(st.characters(categories=["Cs", "Cc", "L"]), max_size=4)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 50),
    st.integers(),
    st.floats(),
    st.just(10**400),
    any_text,
    st.sampled_from(
        ["proceed", "block", "analyst", "tester", "1", "true", "~", "~nobody-of-that-name", "/", "x" * 5000]
    ),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | any_text, inner, max_size=4),
)
leaf_tables = st.fixed_dictionaries(
    {},
    optional={
        **{leaf.path[0]: values for leaf in LEAVES if len(leaf.path) == 1},
        **{
            section: values
            | st.fixed_dictionaries({}, optional={leaf.path[1]: values for leaf in LEAVES if leaf.path[0] == section})
            for section in SECTIONS
        },
        "agents": values
        | st.dictionaries(
            st.sampled_from([*Role, "manager"]),
            values | st.fixed_dictionaries({}, optional={"provider": values, "profile": values, "x": values}),
            max_size=3,
        ),
        "$schema": values,
        "unknown": values,
    },
)
env_texts = st.one_of(
    any_text,
    st.sampled_from(
        [
            "",
            "0",
            "1",
            "yes",
            "off",
            "nan",
            "inf",
            "-1",
            "1e9",
            "9" * 5000,
            "½",
            "１２",
            "1_0",
            " 3 ",
            "~nobody-of-that-name",
        ]
    ),
)
environments = st.dictionaries(st.sampled_from([leaf.env for leaf in LEAVES]), env_texts, max_size=4)
overrides = st.lists(
    st.one_of(
        any_text,
        st.builds(
            "{}={}".format,
            st.sampled_from([*(leaf.key for leaf in LEAVES), *(leaf.env for leaf in LEAVES), "x.y"]),
            env_texts,
        ),
    ),
    max_size=3,
)


@contextmanager
def a_file(content: bytes) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "logos.json"
        path.write_bytes(content)
        yield path


def use(settings: Settings) -> None:
    """Everything that is worked out from settings must be there as well."""
    assert set(settings.agent_config()) == set(Role)
    for folder in (settings.work_dir, settings.state_path, settings.response_dir, settings.telos_dir):
        assert folder.is_absolute()
    values = as_environment(settings)
    assert {leaf.env for leaf in LEAVES} < set(values)
    make_plan(settings, a_plan().prompt)


def load_or_complain(config: Path | None, env: dict[str, str], given_overrides: list[str]) -> Settings | None:
    try:
        settings = load_settings(config, env, given_overrides)
        use(settings)
    except UsageError as error:
        message = str(error)
        assert message
        assert "\n" not in message
        return None
    assert isinstance(settings, Settings)
    return settings


@examples(40)
@given(leaf_tables | values, environments, overrides)
@example({"limits": {"max_rounds": 10**400}}, {}, [])
@example({"agents": {"analyst": {"provider": "\ud800"}}}, {}, [])
@example({"wd": "~nobody-of-that-name"}, {}, [])
@example({}, {}, ["a\nb"])
@example({"\n": None}, {}, [])
def test_any_json_environment_and_flags_are_settings_or_a_config_error(
    document: Any, env: dict[str, str], given_overrides: list[str]
) -> None:
    with a_file(json.dumps(document).encode()) as path:
        load_or_complain(path, env, given_overrides)


@examples(40)
@given(
    st.binary(max_size=40)
    | st.sampled_from([b"", b"{", b"[]", b"null", b"\xef\xbb\xbf{}", b"[" * 20_000, b'{"a":' * 20_000, b"1" * 5000])
)
def test_any_bytes_are_settings_or_a_config_error(content: bytes) -> None:
    with a_file(content) as path:
        load_or_complain(path, {}, [])


@examples(40)
@given(environments, overrides)
def test_any_environment_and_flags_alone_are_settings_or_a_config_error(
    env: dict[str, str], given_overrides: list[str]
) -> None:
    load_or_complain(None, env, given_overrides)


@examples(40)
@given(st.sampled_from([leaf for leaf in LEAVES if leaf.env not in ("WD", "STATE_FILE")]), env_texts)
def test_what_is_accepted_from_the_environment_is_accepted_from_a_flag_and_means_the_same(leaf, text: str) -> None:
    by_env = load_or_complain(None, {leaf.env: text}, []) if text else None
    by_flag = load_or_complain(None, {}, [f"{leaf.key}={text}"]) if text else None
    assert (by_env and by_env.model_dump()) == (by_flag and by_flag.model_dump())


@pytest.mark.parametrize(
    "env",
    [
        {"WD": "~nobody-of-that-name/x"},
        {"STATE_FILE": "~nobody-of-that-name/x"},
        {"PROMPT_FILE": "~nobody-of-that-name/x"},
        {"WD": "x" * 5000},
        {"WD": "/dev/null"},
        {"WD": "/dev/null/x"},
        {"PROMPT_FILE": "x" * 5000},
        {"PROMPT_FILE": "/"},
        {"PROMPT": "no parts"},
    ],
    ids=lambda env: "-".join(f"{key} {value[:25]}" for key, value in env.items()),
)
def test_a_path_or_prompt_that_cannot_be_is_one_line_before_anything_is_touched(env: dict[str, str]) -> None:
    try:
        settings = load_settings(None, env)
        use(settings)
        check_input(settings)
    except UsageError as error:
        assert str(error).count("\n") == 0  # noqa: PT017 - whether it is an error at all is another question


def test_a_missing_configuration_is_a_config_error(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.json", tmp_path, tmp_path / ("x" * 5000)):
        with pytest.raises(ConfigError, match="cannot read the configuration"):
            load_settings(path, {})
