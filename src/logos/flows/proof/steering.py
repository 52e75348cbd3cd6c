"""What a proof puts back: decided by the files before the run, which no agent could write.

Most files say by their name that they are tests or settings (`guarded`). Of the others, some are used by tests alone:
data, vendored packages, helpers that compare results. And some that look like tests are the product's. Who mentions a
file tells.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from posixpath import basename, dirname, join, normpath, splitext

from logos.domain.proof import CountedTests, ProofRules
from logos.flows.proof.commands import included_by
from logos.flows.proof.examples import has_examples
from logos.flows.proof.guarded import allowed, ambiguous_folder, is_guarded, is_test, mixed, named_files, scripts_of
from logos.flows.proof.mentions import imported, is_code, mentions, names_from
from logos.flows.proof.test_ids import file_of

# Texts of files by path; only those that are text, and not too large.
Read = Callable[[Iterable[str]], Mapping[str, str]]

_VENDORED = re.compile(r"(^|/)_?(vendor(ed|ing)?|third[-_]?party|external|extern|deps)/")
_LIKE_TESTS = re.compile(
    r"(?i)(^|[/_.-])(testing|test_?(utils?|helpers?|support|kit|tools?)|asserts?|assertions?|matchers?|expect)([/_.-]|$)"
)
_ASSERTS = re.compile(r"\bAssertionError\b|\b(unittest|pytest|hamcrest|node:assert|chai)\b|require\(.assert.\)")
# The product, too, may check what it is given.
_MAY_ASSERT = re.compile(r"^\s*assert\b|\bassert[.(]|\bexpect\(", re.MULTILINE)
_SCRIPT = re.compile(r"\.(sh|bash|zsh|py|rb|pl|mk|[cm]?[jt]sx?)$")
_ON_PATH = re.compile(r"^.*\bPATH\b.*$", re.MULTILINE)
_FOLDER = re.compile(r"[\w.-]+(?:/[\w.-]+)*")
# The folder itself: `PATH=.:$PATH`, `PATH="$PWD:$PATH"`.
_HERE = re.compile(r"""[="':](\.|\$+[({]?(CURDIR|PWD|pwd)[)}]?)/?["':]""")
# How a line of a test begins that believes what a function says, and what compares its result.
_ASSERTED = r"[ \t]*(?:await\s+)?(?:assert\s+(?:not\s+)?|self\.assert(?:True|False)\(\s*|assert(?:\.ok)?\(\s*!?)?"
_COMPARED = r"\)\s*(?:[=!]=|[<>]|is\b|in\b)"
_MODULE = re.compile(r"\.(py|[cm]?[jt]sx?)$")
_VARIABLE = re.compile(r"\$+(?:\{\w+\}|\(\w+\)|\w+)/?")
_WORD = re.compile(r"[\w.+-]+")


@dataclass(frozen=True, slots=True)
class PutBack:
    """The files to put back as before the run.

    `certain` steer the tests. `examples` are source files with examples that doctest runs. `helpers` seem to be used by
    tests alone: the result must pass with them as they are now and as they were. `concerned` are the test files that
    use helpers; empty: unknown.
    """

    certain: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    helpers: tuple[str, ...] = ()
    concerned: tuple[str, ...] = ()


class Steering:
    """What steers the tests of a project. `paths` are its files before the run, relative to the work dir."""

    def __init__(self, rules: ProofRules, paths: Collection[str], read: Read) -> None:
        self._given = rules
        self._paths = paths
        self._read = read

    # -- by name

    @cached_property
    def named(self) -> frozenset[str]:
        """The files that the command names, and that these name in turn; of the setup, those that are executed."""
        setup = named_files(self._given.setup, self._text)
        return frozenset((*named_files(self._given.command, self._text), *filter(_is_script, setup)))

    @cached_property
    def rules(self) -> ProofRules:
        return replace(self._given, guarded=(*self._given.guarded, *(f"/{path}" for path in sorted(self.named))))

    def is_guarded(self, path: str) -> bool:
        # A file that only the command names, and that did not exist, is what the run was to make.
        rules = self.rules if path in self._paths else replace(self.rules, command="")
        if path not in self._paths and (self._is_new_program(path) or path in self._included):
            return True
        return is_guarded(path, rules) and not self._is_product(path)

    def is_test(self, path: str) -> bool:
        return is_test(path) and not self._is_product(path)

    def _text(self, path: str) -> str | None:
        return self._read([path]).get(path)

    # -- who mentions it

    @cached_property
    def _tests(self) -> Mapping[str, str]:
        """The texts of tests, and of what the command executes."""
        return self._read(path for path in self._paths if is_code(path) and (is_test(path) or path in self.named))

    @cached_property
    def _product(self) -> Mapping[str, str]:
        """The texts of the other programs."""
        return self._read(
            path for path in self._paths if is_code(path) and path not in self._tests and not is_test(path)
        )

    @cached_property
    def _product_folders(self) -> dict[str, frozenset[str]]:
        return {}

    def _is_product(self, path: str) -> bool:
        """Whether a file only looks like a test, because of its folder, and is a part of the product."""
        folder = ambiguous_folder(path)
        if not folder or path in self.named or allowed(path, self._given.guarded):
            return False
        if folder not in self._product_folders:
            self._product_folders[folder] = self._used_by_product(folder)
        used = self._product_folders[folder]
        if path in self._paths:
            return path in used
        # A new file is what its neighbours are; no test of before knows a new folder.
        return bool(used) or not any(known.startswith(f"{folder}/") for known in self._paths)

    def _used_by_product(self, folder: str) -> frozenset[str]:
        inside = [path for path in self._paths if path.startswith(f"{folder}/") and ambiguous_folder(path) == folder]
        used = frozenset(path for path in inside if self._mentioned(self._product, path))
        # What the product's files of this folder use is the product's, too.
        texts = self._read(path for path in used if is_code(path))
        return used | {path for path in inside if self._mentioned(texts, path)}

    @staticmethod
    def _mentioned(texts: Mapping[str, str], path: str) -> bool:
        return any(mentions(source, text, path) for source, text in texts.items() if source != path)

    # -- programs

    @cached_property
    def _scripts(self) -> Mapping[str, str]:
        """What is executed to run the tests, with the command and the setup themselves."""
        commands = (self._given.command, self._given.setup)
        found = {path: text for command in commands for path, text in scripts_of(command, self._text).items()}
        conftests = self._read(path for path in self._paths if basename(path) == "conftest.py")
        return {**found, **conftests, "": "\n".join(commands)}

    @cached_property
    def program_folders(self) -> frozenset[str]:
        """Folders that may be in PATH while the tests run."""
        found: set[str] = set()
        for source, text in self._scripts.items():
            for line in _ON_PATH.findall(text):
                here = dirname(source)
                names = {*_FOLDER.findall(_VARIABLE.sub(" ", line)), *([""] if _HERE.search(line) else [])}
                found |= {normpath(join(start, name)) for name in names for start in (here, "")}
        return frozenset("" if folder == "." else folder for folder in found if not folder.startswith(".."))

    @cached_property
    def _words(self) -> frozenset[str]:
        return frozenset(
            word for text in (*self._scripts.values(), *self._tests.values()) for word in _WORD.findall(text)
        )

    def _is_new_program(self, path: str) -> bool:
        """Whether a new file comes before a program that tests start by its name."""
        return dirname(path) in self.program_folders and basename(path) in self._words

    @cached_property
    def _included(self) -> frozenset[str]:
        """Files that scripts of the tests read as parts of themselves if they are there, not the product's."""
        tops = {path.partition("/")[0] for path in self._paths if "/" in path}
        found = {path for source, text in self._scripts.items() if source for path in included_by(source, text)}
        return frozenset(path for path in found if not (path.endswith(".py") and path.partition("/")[0] in tops))

    # -- the decision

    def put_back(
        self, changed: Collection[str], free: Iterable[str], before: CountedTests | None, result: Collection[str]
    ) -> PutBack:
        """`changed` are the paths that differ, `free` patterns of paths that may; `result` are those after the run."""
        free = tuple(free)
        certain = tuple(path for path in changed if self.is_guarded(path) and not allowed(path, free))
        left = [path for path in changed if not self.is_guarded(path) and not allowed(path, free)]
        known = [path for path in left if path in self._paths]
        with_tests = self._files_with_tests(known, before)
        helpers = [path for path in known if path in with_tests or self._is_helper(path, left, free)]
        helpers += self._shadows(left, helpers, free, before)
        concerned = {source for path in helpers for source in self._users(path)} | {*with_tests}
        ran = {file_of(test) for test in before.executed} if before is not None else set[str]()
        examples = (
            () if not left else tuple(path for path in known if path in result and self._has_examples(path, before))
        )
        return PutBack(certain, examples, tuple(helpers), tuple(sorted(concerned)) if concerned <= ran else ())

    def _files_with_tests(self, paths: Iterable[str], before: CountedTests | None) -> set[str]:
        """Files that do not look like tests, and of which tests ran before."""
        executed = before.executed if before is not None else ()
        found = {file_of(test) for test in executed if not (_is_example(test) and file_of(test).endswith(".py"))}
        return found & {*paths}

    def _has_examples(self, path: str, before: CountedTests | None) -> bool:
        if not path.endswith(".py") or not has_examples(self._text(path) or ""):
            return False
        executed = before.executed if before is not None else ()
        return any(_is_example(test) and file_of(test) == path for test in executed) or self._runs_doctest

    @cached_property
    def _runs_doctest(self) -> bool:
        settings = self._read(path for path in self._paths if mixed(path) or basename(path).endswith((".ini", ".cfg")))
        return any("doctest" in text for text in (*self._scripts.values(), *settings.values(), *self._tests.values()))

    def _users(self, path: str) -> list[str]:
        return [source for source, text in self._tests.items() if mentions(source, text, path)]

    def _is_helper(self, path: str, changed: Iterable[str], free: Collection[str]) -> bool:
        """Whether a file seems to be used by tests alone, and not to be what they test."""
        users = self._users(path)
        if not users or any(allowed(user, free) for user in users):
            return False
        text = self._text(path)
        on_path = dirname(path) in self.program_folders
        if is_code(path) and text is not None:
            clearly = bool(_VENDORED.search(path) or _LIKE_TESTS.search(splitext(path)[0]) or _ASSERTS.search(text))
            # What is not clearly a helper counts only where nothing that has changed can be in it.
            uses = (other for other in changed if other != path and mentions(path, text, other))
            maybe = on_path or _MAY_ASSERT.search(text) or self._judges(path, users)
            if not clearly and (not maybe or any(uses)):
                return False
        return not self._used_by_product_of(path)

    def _used_by_product_of(self, path: str) -> bool:
        """Whether the product uses a file; a package that only passes a name on does not."""
        passing_on = {join(folder, name) for folder in _above(path) for name in ("__init__.py", "index.js", "index.ts")}
        return self._mentioned(
            {source: text for source, text in self._product.items() if source not in passing_on}, path
        )

    def _judges(self, path: str, users: Iterable[str]) -> bool:
        """Whether tests only give results of other code to a function of this file: `assert near(total(prices), 3)`."""
        for user in users:
            names = "|".join(map(re.escape, sorted(names_from(user, self._tests[user], path))))
            call = rf"(?:{names})(?:\.\w+)?\(\s*(?!(?:{names})\b)[\w.]+\("
            if names and re.search(rf"^{_ASSERTED}{call}(?!.*{_COMPARED})", self._tests[user], re.MULTILINE):
                return True
        return False

    def _shadows(
        self, changed: Iterable[str], helpers: Collection[str], free: Collection[str], before: CountedTests | None
    ) -> list[str]:
        """New modules that tests would import in place of a helper, or of a package from elsewhere."""
        found: list[str] = []
        for path in (path for path in changed if path not in self._paths and _MODULE.search(path)):
            users = self._users(path)
            if not users or any(allowed(user, free) for user in users):
                continue
            name = _import_name(path)
            same = [known for known in self._paths if _MODULE.search(known) and _import_name(known) == name]
            same = [known for known in same if any(mentions(user, self._tests[user], known) for user in users)]
            if any(known in helpers or self._is_helper(known, (), free) for known in same) or (
                not same and self._came_from_elsewhere(path, users, before)
            ):
                found.append(path)
        return found

    def _came_from_elsewhere(self, path: str, users: Iterable[str], before: CountedTests | None) -> bool:
        """Whether tests passed that import a module of this name, although the project had none."""
        if before is None or not path.endswith(".py"):
            return False
        failed = {file_of(test) for test in before.failed}
        passed = {file_of(test) for test in before.passed} - failed
        is_top = dirname(splitext(path)[0].removesuffix("/__init__")) in self._roots
        return is_top and passed.issuperset(users)

    @cached_property
    def _roots(self) -> frozenset[str]:
        """Folders whose modules tests import by their bare names."""
        tops = {parts[0] for source, text in self._tests.items() for parts in imported(source, text)}
        modules = (splitext(path)[0].removesuffix("/__init__") for path in self._paths if path.endswith(".py"))
        return frozenset(("", *(dirname(module) for module in modules if basename(module) in tops)))


def helps_tests(path: str) -> bool:
    """Whether a file of this name holds tests, or is a program or data that they use."""
    stem, ending = splitext(path)
    return (is_code(path) or ending == ".json") and bool(
        is_test(path) or _VENDORED.search(path) or _LIKE_TESTS.search(stem)
    )


def _is_script(path: str) -> bool:
    return bool(_SCRIPT.search(path)) or "." not in basename(path)


def _is_example(test: str) -> bool:
    """Whether a test is an example of a docstring: pytest names it `file.py::module.function`."""
    return "." in test.partition("::")[2].partition("[")[0].partition("::")[0]


def _above(path: str) -> Iterable[str]:
    while path:
        path = dirname(path)
        yield path


def _import_name(path: str) -> str:
    return basename(splitext(path)[0].removesuffix("/__init__").removesuffix("/index"))
