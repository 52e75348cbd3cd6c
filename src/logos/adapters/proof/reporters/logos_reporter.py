# pyright: basic
"""Reports each test of pytest and unittest as a line of a file. It runs in the process that runs the tests.

It works with every Python 3.6 or later, and imports nothing but the standard library. What it cannot do: product code
runs in the same process and can replace whatever it finds here. The chained digests only make sure that a file that was
edited, shortened or written by something that does not know the token is noticed.
"""

import atexit
import hashlib
import importlib.abc
import json
import os
import re
import sys

from logos_watch import Watch  # pyright: ignore[reportMissingImports]

FOLDER = "LOGOS_REPORT"
TOKEN = "LOGOS_REPORT_TOKEN"
OURS = (FOLDER, TOKEN)
# As they are now: tests replace such functions while they run.
as_json, sha256 = json.JSONEncoder().encode, hashlib.sha256
open_file, write_bytes, process_id, random_bytes = os.open, os.write, os.getpid, os.urandom


class Reporter:
    """One file of lines per process. The runner that starts first reports; runners inside its tests do not."""

    def __init__(self, folder, token):
        self.folder = folder
        self.token = token
        self.digest = ""
        self.process = process_id()
        self.owner = None
        self.handle = None
        with open(os.path.join(folder, "settings.json"), encoding="utf-8") as file:
            settings = json.load(file)
        self.root = settings["root"] or os.getcwd()
        self.only = frozenset(settings["only"])
        self.planted = bool(settings.get("planted"))
        watched = [os.path.realpath(os.path.join(self.root, path)) for path in settings.get("watched", [])]
        self.watch = Watch(self.root, watched) if self.planted and watched else None

    def begin(self, runner):
        """Whether this runner reports; a runner within a runner does not."""
        if self.owner is not None or process_id() != self.process:
            return False
        self.owner = runner
        self.write(event="start", runner=runner)
        return True

    def after_test(self):
        if self.watch is not None:
            self.tell(self.watch.after_test())

    def tell(self, replaced):
        """Report what product code has replaced."""
        for name in replaced:
            self.write(event="test", id=f"::({name})", outcome="failed")

    def end(self, status):
        if self.watch is not None:
            self.tell(self.watch.replaced())
        self.write(event="end", status=status)
        self.owner = None

    def wants(self, path):
        """Whether tests of a file are wanted."""
        return not self.only or self.relative(path) in self.only

    def write(self, **line):
        # A fork of this process has the same handle.
        if process_id() != self.process:
            return
        if self.handle is None:
            # In a worker of xdist only what was replaced is reported.
            name = f"{self.owner or 'pytest'}-{self.process}-{random_bytes(6).hex()}.jsonl"
            path = os.path.join(self.folder, "events", name)
            self.handle = open_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        text = as_json(line)
        self.digest = sha256((self.token + self.digest + text).encode()).hexdigest()
        write_bytes(self.handle, f"{self.digest} {text}\n".encode())

    def relative(self, path):
        """A path as ids have it: relative to the work dir; as it is outside of it."""
        for root in (self.root, os.path.realpath(self.root)):
            for way in (path, os.path.realpath(path)):
                if way.startswith(root.rstrip(os.sep) + os.sep):
                    return way[len(root.rstrip(os.sep)) + 1 :].replace(os.sep, "/")
        return path.replace(os.sep, "/")

    def hide(self):
        """Take everything of ours out of the environment: programs that tests start are not to report."""
        for name, separator in (("PYTHONPATH", os.pathsep), ("PATH", os.pathsep)):
            kept = [part for part in os.environ.get(name, "").split(separator) if not part.startswith(self.folder)]
            if name in os.environ:
                os.environ[name] = separator.join(kept)
            if not os.environ.get(name):
                os.environ.pop(name, None)
        options = os.environ.get("NODE_OPTIONS", "")
        ours = os.environ.get("LOGOS_REPORT_NODE_OPTIONS", "")
        if ours and ours in options:
            os.environ["NODE_OPTIONS"] = options.replace(ours, "").strip()
        if not os.environ.get("NODE_OPTIONS"):
            os.environ.pop("NODE_OPTIONS", None)
        for name in [name for name in os.environ if name.startswith(FOLDER)]:
            del os.environ[name]


class Patches(importlib.abc.MetaPathFinder):
    """Changes some modules when they are imported, and costs nothing where they are not. Others are watched."""

    def __init__(self, patches, watch=None):
        self.patches = patches
        self.watch = watch

    def find_spec(self, name, path=None, target=None):
        if name not in self.patches and self.watch is None:
            return None
        change = self.patches.pop(name, None)

        def patch(module):
            if change is not None:
                change(module)
            if self.watch is not None:
                self.watch.look_at(module)

        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = Patched(spec.loader, patch)
                return spec
        return None


class Patched(importlib.abc.Loader):
    def __init__(self, loader, patch):
        self.loader = loader
        self.patch = patch

    def __getattr__(self, name):
        return getattr(self.loader, name)

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        # What the module keeps of its loader is the loader it would have had.
        module.__loader__ = self.loader
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        self.patch(module)


class PytestPlugin:
    """Reports what pytest reports, and runs only the files that are wanted. In a worker of xdist it only does that."""

    def __init__(self, pytest_config, reporter):
        pytest_config.hookimpl(hookwrapper=True)(PytestPlugin.pytest_sessionstart)
        self.reporter = reporter
        self.reports = False
        self.root = None

    def path_of(self, node_id):
        """The id with its path relative to the work dir: pytest's is relative to its own root."""
        path, separator, rest = node_id.partition("::")
        return self.reporter.relative(os.path.join(self.root or os.getcwd(), path)) + separator + rest

    def pytest_configure(self, config):
        # A file that the command names is collected without a question, also one that cannot be imported.
        here = str(getattr(getattr(config, "invocation_params", None), "dir", None) or os.getcwd())
        places = [(word, os.path.join(here, word.partition("::")[0])) for word in config.args]
        wanted = [word for word, path in places if not os.path.isfile(path) or self.reporter.wants(path)]
        if wanted and self.reporter.only:
            config.args[:] = wanted
        if self.reporter.planted:
            # Nearly every test fails, and nobody reads how: to print it takes longer than to run the tests.
            config.option.tbstyle = "no"

    def pytest_sessionstart(self, session):
        self.root = str(getattr(session.config, "rootpath", None) or session.config.rootdir)
        yield
        # Workers have been started by now; one that is started again still needs to know which files are wanted.
        is_distributed = bool(getattr(session.config.option, "numprocesses", None))
        if not (is_distributed and self.reporter.only):
            self.reporter.hide()

    def pytest_collection_modifyitems(self, config, items):
        # Files that the command names are not asked about one by one.
        wanted = [item for item in items if self.reporter.wants(str(item.fspath))]
        if len(wanted) < len(items):
            config.hook.pytest_deselected(items=[item for item in items if item not in wanted])
            items[:] = wanted

    def ignores(self, path):
        return True if os.path.isfile(path) and not self.reporter.wants(path) else None

    def pytest_collectreport(self, report):
        if self.reporter.watch is not None:
            self.reporter.watch.look_around()
        file = os.path.join(self.root or os.getcwd(), report.nodeid.partition("::")[0])
        if not self.reports or report.outcome == "passed" or not self.reporter.wants(file):
            return
        end = "(not collected)" if report.outcome == "failed" else "(skipped)"
        self.reporter.write(event="test", id=self.path_of(report.nodeid) + "::" + end, outcome=report.outcome)

    def pytest_runtest_logreport(self, report):
        if report.when == "teardown":
            self.reporter.after_test()
        if not self.reports:
            return
        outcome = report.outcome
        if outcome == "passed" and report.when != "call":
            return
        # A failure of a test that is expected to fail is no test that passes.
        self.reporter.write(event="test", id=self.path_of(report.nodeid), outcome=outcome)


class PathPlugin(PytestPlugin):
    """The names of arguments are part of a hook: this is the hook since pytest 7."""

    def pytest_ignore_collect(self, collection_path):
        return self.ignores(str(collection_path))


class OldPathPlugin(PytestPlugin):
    def pytest_ignore_collect(self, path):
        return self.ignores(str(path))


def pytest_patch(reporter):
    def patch(module):
        original_config = module.get_config
        plugins = []

        def get_config(*arguments, **options):
            config = original_config(*arguments, **options)
            # In the process of a runner, only its first configuration is that of the tests.
            if not plugins:
                is_old = int(sys.modules["_pytest"].__version__.partition(".")[0]) < 7
                plugins.append((OldPathPlugin if is_old else PathPlugin)(module, reporter))
                plugins[0].reports = reporter.owner == "pytest"
                config.pluginmanager.register(plugins[0], "logos_reporter")
            return config

        def reporting(original):
            def main(*arguments, **options):
                if not reporter.begin("pytest"):
                    return original(*arguments, **options)
                status = original(*arguments, **options)
                reporter.end(int(status))
                del plugins[:]
                return status

            return main

        module.get_config = get_config
        # `pytest` and `python -m pytest` call the second one since pytest 9.1.
        for name in ("main", "_main"):
            if hasattr(module, name):
                setattr(module, name, reporting(getattr(module, name)))
        if hasattr(module, "cmdline"):
            module.cmdline.main = staticmethod(module.main)

    return patch


def unittest_main_patch(reporter):
    def patch(module):
        program = module.TestProgram
        original_init, original_run = program.__init__, program.runTests

        def init(self, *arguments, **options):
            self.logos_reports = reporter.begin("unittest")
            if self.logos_reports:
                reporter.hide()
            return original_init(self, *arguments, **options)

        def run_tests(self, *arguments, **options):
            try:
                return original_run(self, *arguments, **options)
            finally:
                result = getattr(self, "result", None)
                if getattr(self, "logos_reports", False) and result is not None:
                    reporter.end(0 if result.wasSuccessful() else 1)

        program.__init__, program.runTests = init, run_tests

    return patch


OUTCOMES = {
    "addSuccess": "passed",
    "addFailure": "failed",
    "addError": "failed",
    "addSkip": "skipped",
    "addExpectedFailure": "skipped",
    "addUnexpectedSuccess": "failed",
}


class UnittestResults:
    """Reports what is added to results of unittest, except to those of runners inside a test."""

    def __init__(self, reporter):
        self.reporter = reporter
        # The result whose test runs now.
        self.active = None

    def patch(self, module):
        kind = module.TestResult
        for name, outcome in OUTCOMES.items():
            setattr(kind, name, self.adding(getattr(kind, name), outcome))
        kind.startTest, kind.stopTest = self.starting(kind.startTest), self.stopping(kind.stopTest)
        kind.addSubTest = self.adding_part(kind.addSubTest)
        kind.startTestRun, kind.stopTestRun = self.run_starts(kind.startTestRun), self.run_stops(kind.stopTestRun)

    def run_starts(self, original):
        def startTestRun(result):  # noqa: N802
            if self.reporter.begin("unittest"):
                result.logos_reports = True
            return original(result)

        return startTestRun

    def run_stops(self, original):
        def stopTestRun(result):  # noqa: N802
            if getattr(result, "logos_reports", False):
                self.reporter.end(0 if result.wasSuccessful() else 1)
            return original(result)

        return stopTestRun

    def at_exit(self):
        if self.reporter.owner == "unittest" and self.active is None:
            self.reporter.end(0)

    def counts(self, result):
        return self.reporter.owner == "unittest" and (self.active is None or self.active is result)

    def starting(self, original):
        def startTest(result, test):  # noqa: N802
            if self.active is None and self.reporter.begin("unittest"):
                # Nobody says when the last test of a bare result has run. A process that is cut off runs no atexit.
                atexit.register(self.at_exit)
            if self.counts(result):
                self.active = result
            return original(result, test)

        return startTest

    def stopping(self, original):
        def stopTest(result, test):  # noqa: N802
            if self.active is result:
                self.active = None
                self.reporter.after_test()
            return original(result, test)

        return stopTest

    def adding(self, original, outcome):
        def add(result, test, *arguments, **options):
            if self.counts(result):
                self.report(test, outcome)
            return original(result, test, *arguments, **options)

        return add

    def adding_part(self, original):
        def addSubTest(result, test, subtest, err):  # noqa: N802
            if err is not None and self.counts(result):
                self.report(test, "failed")
            return original(result, test, subtest, err)

        return addSubTest

    def report(self, test, outcome):
        file, rest = place_of(getattr(test, "test_case", test))
        if self.reporter.wants(file or ""):
            name = self.reporter.relative(file) if file else ""
            self.reporter.write(event="test", id=f"{name}::{rest}", outcome=outcome)


def place_of(test):
    """The file of a test of unittest, or None, and the rest of its id."""
    kind = type(test)
    if hasattr(test, "_dt_test"):
        return test._dt_test.filename, test._dt_test.name
    if kind.__name__ == "_ErrorHolder":
        # `setUpClass (tests.test_a.Case)`
        what, _, name = str(test.id()).rstrip(")").partition(" (")
        file, rest = place_of_name(name)
        return file, "::".join([*rest, f"({what})"])
    if kind.__name__ in ("_FailedTest", "ModuleImportFailure"):
        name = str(test._testMethodName)
        file, rest = place_of_name(name)
        # The name may be the last part of the module's alone; the traceback in the message has the file.
        trace = re.search(rf'File "([^"\n]*[/\\]{re.escape(name)}\.py)"', str(getattr(test, "_exception", "")))
        if file is None and trace:
            file, rest = trace.group(1), []
        return file, "::".join([*rest, "(not imported)"])
    if not hasattr(test, "_testMethodName"):
        return None, str(test.id())
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return file and os.path.abspath(file), "::".join([*kind.__qualname__.split("."), test._testMethodName])


def place_of_name(name):
    """The file of a dotted name, and what follows the module in it."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        file = getattr(sys.modules.get(".".join(parts[:count])), "__file__", None)
        if file:
            return os.path.abspath(file), parts[count:]
        for folder in sys.path:
            path = os.path.join(os.path.abspath(folder or "."), *parts[:count]) + ".py"
            if os.path.isfile(path):
                return path, parts[count:]
    return None, parts


def case_patch(reporter):
    """Cases of files that are not wanted are not run and not reported."""

    def patch(module):
        original = module.TestCase.run

        def run(self, result=None):
            if reporter.owner == "unittest" and reporter.only and not reporter.wants(place_of(self)[0] or ""):
                return result
            return original(self, result)

        module.TestCase.run = run

    return patch


def install():
    folder, token = os.environ.get(FOLDER), os.environ.get(TOKEN)
    if not folder or not token:
        return
    try:
        reporter = Reporter(folder, token)
    except (OSError, ValueError, KeyError):
        return
    if reporter.watch is not None and hasattr(sys, "addaudithook"):
        sys.addaudithook(reporter.watch.audit)
    patches = {
        "_pytest.config": pytest_patch(reporter),
        "unittest.main": unittest_main_patch(reporter),
        "unittest.result": UnittestResults(reporter).patch,
        "unittest.case": case_patch(reporter),
    }
    # A module that is imported already, by the environment's own sitecustomize, is changed now.
    for name in [name for name in patches if name in sys.modules]:
        patches.pop(name)(sys.modules[name])
    sys.meta_path.insert(0, Patches(patches, reporter.watch))
