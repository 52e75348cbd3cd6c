"""Files that scripts of the tests include if they are there: a run that adds one steers the tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from logos.domain.proof import ProofRules
from logos.flows.proof.commands import included_by
from logos.flows.proof.steering import Steering, helps_tests


@pytest.mark.parametrize(
    ("path", "text", "included"),
    [
        ("Makefile", "-include .env local/more.txt\ninclude $(HOME)/x\n", {".env", "local/more.txt"}),
        ("tests/run.sh", 'cd "$(dirname "$0")/.."\nif [ -f ./a.sh ]; then . ./a.sh; fi\n', {"a.sh", "tests/a.sh"}),
        ("run.sh", "source lib/b\necho . c\n", {"lib/b"}),
        ("checks/all.py", "try:\n    import own\nexcept ImportError:\n    own = None\nimport other\n",
         {"own.py", "own/__init__.py", "checks/own.py", "checks/own/__init__.py"}),
        ("conftest.py", "try:\n    import own\nexcept OSError:\n    pass\n", set()),
        ("conftest.py", "not python (", set()),
    ],
)  # fmt: skip
def test_what_a_script_reads_as_a_part_of_itself(path: str, text: str, included: set[str]) -> None:
    assert included_by(path, text) == included


FILES = {
    "Makefile": "-include .env\ntest:\n\tpython3 checks/all.py\n",
    "checks/all.py": "try:\n    import quiet, shop.fast\nexcept ImportError:\n    pass\n",
    "shop/__init__.py": "",
    "config/.env": "",
}


def steering(files: Mapping[str, str]) -> Steering:
    def read(paths: Iterable[str]) -> dict[str, str]:
        return {path: files[path] for path in paths if path in files}

    return Steering(ProofRules("make test"), files.keys(), read)


def test_a_file_that_scripts_of_the_tests_include_is_guarded_when_it_is_new() -> None:
    new = steering(FILES)
    assert [path for path in (".env", "quiet.py", "shop/fast.py", "other.py") if new.is_guarded(path)] == [
        ".env",
        "quiet.py",
    ]
    assert not steering({**FILES, ".env": "A = 1\n"}).is_guarded(".env")


def test_what_helps_tests_is_known_by_its_name() -> None:
    names = ["tests/a.py", "test/cases.json", "vendored/near.py", "src/testing.py", "src/shop.py", "tests/a.png"]
    assert [name for name in names if helps_tests(name)] == names[:4]
