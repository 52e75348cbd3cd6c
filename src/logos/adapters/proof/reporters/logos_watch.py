# pyright: basic
"""Notices where product code has replaced what the tests work with. It runs in the process that runs the tests.

Planted tests notice assertions that do not fail. But a comparison can also be made true from its other side: with the
library function that reads what is expected, a helper or a constant of the tests, a fixture, a context of the runner.
Of each module that tests import, and of the tests' own, the functions are remembered as they are after the import, and
compared after tests. What tests replace themselves, and put back at their end, is not seen. Product code that opens a
test file itself, which has what the test expects, is noticed as well.
"""

import os
import re
import sys
from types import FunctionType

# Replaced by no honest program: the runners, and modules that read or compare data.
WHOLE = frozenset(
    ("unittest", "_pytest", "pytest", "pluggy", "json", "pathlib", "csv", "tomllib", "configparser", "difflib", "math")
)
# Watched wherever tests read anything.
ALWAYS = {"builtins": ("open",), "io": ("open",)}
_IMPORT = re.compile(r"^[ \t]*(?:from|import)[ \t]+([\w.]+(?:[ \t]*,[ \t]*[\w.]+)*)", re.MULTILINE)
_WORD = re.compile(r"[^\W\d]\w*")
_COMPARISONS = ("__eq__", "__ne__", "__getattribute__")
_PLAIN = (str, bytes, int, float, complex, bool, type(None))
_LARGEST = 2000


class Watch:
    """`files` are the tests and what belongs to them, by their absolute paths below `root`."""

    def __init__(self, root, files):
        self.root = os.path.realpath(root) + os.sep
        self.files = frozenset(files)
        texts = [text for path in files for text in [read(path)] if text]
        self.words = frozenset(word for text in texts for word in _WORD.findall(text))
        named = (
            name for text in texts for found in _IMPORT.findall(text) for name in re.split(r"[ \t]*,[ \t]*", found)
        )
        self.tops = frozenset(name.partition(".")[0] for name in named) | WHOLE | frozenset(ALWAYS)
        self.kept = []
        self.data = []
        self.seen = set()
        self.told = set()
        self.readers = {}
        self.tests = 0
        for module in list(sys.modules.values()):
            self.look_at(module)

    def look_at(self, module):
        """Remember a module that has just been imported."""
        names = names_of(module)
        name, file = names.get("__name__"), names.get("__file__")
        if not isinstance(name, str) or name in self.seen:
            return
        path = os.path.realpath(file) if isinstance(file, str) else ""
        own, top = path in self.files, name.partition(".")[0]
        if not own and (top not in self.tops or self.is_products(path)):
            return
        self.seen.add(name)
        wanted = None if own or top in WHOLE else self.words | frozenset(ALWAYS.get(name, ()))
        self.remember(name, names, wanted, name)
        if own:
            self.remember_data(name, names, read(path) or "")

    def is_products(self, path):
        return path.startswith(self.root) and "/site-packages/" not in path.replace(os.sep, "/")

    def look_around(self):
        """Remember modules that were imported without a question: pytest rewrites those of tests itself."""
        for module in [module for name, module in list(sys.modules.items()) if name not in self.seen]:
            file = names_of(module).get("__file__")
            if isinstance(file, str) and os.path.realpath(file) in self.files:
                self.look_at(module)

    def remember(self, module, holder, wanted, title):
        for name, value in list(holder.items()):
            if wanted is not None and name not in wanted:
                continue
            # `isinstance` would ask an object that is made when somebody first looks at it.
            if issubclass(type(value), type):
                self.kept.append((holder, name, value, None, title))
                if vars(value).get("__module__") == module and title == module:
                    inner = vars(value)
                    self.remember(module, inner, wanted, f"{title}.{name}")
                    for method in _COMPARISONS:
                        if method not in inner:
                            self.kept.append((inner, method, None, None, f"{title}.{name}"))
            elif callable(value) or type(value) in (staticmethod, classmethod, property):
                self.kept.append((holder, name, value, code_of(value), title))

    def remember_data(self, module, holder, text):
        for name, value in list(holder.items()):
            known = as_text(value)
            if known is None or name.startswith("__"):
                continue
            # What a test hands to a function may be changed by it.
            if not re.search(rf"[(,=]\s*{re.escape(name)}\s*[,)]", without_parameters(text)):
                self.data.append((holder, name, known, module))

    def audit(self, event, arguments):
        """A hook of `sys.addaudithook`."""
        if event != "open" or not arguments or not isinstance(arguments[0], (str, bytes)):
            return
        path = os.fsdecode(arguments[0])
        if path.endswith(".py") and os.path.realpath(path) in self.files:
            reader = self.reader()
            if reader:
                self.readers.setdefault(f"{self.short(path)} was read by {reader}", None)

    def reader(self):
        """The product's file that asked for this; empty where an import, a traceback or a warning did."""
        frame = sys._getframe(2)
        while frame is not None:
            file = frame.f_code.co_filename
            if file.startswith("<frozen importlib") or file.endswith((f"{os.sep}linecache.py", "logos_watch.py")):
                return ""
            path = os.path.realpath(file)
            if self.is_products(path):
                return "" if path in self.files else self.short(path)
            frame = frame.f_back
        return ""

    def short(self, path):
        return os.path.realpath(path)[len(self.root) :].replace(os.sep, "/")

    def after_test(self):
        """What is found replaced after a test; not after each one where there are many."""
        self.tests += 1
        return self.replaced() if self.tests <= 50 or self.tests % 20 == 0 else []

    def replaced(self):
        """The names of what is not what it was, each once."""
        found = [
            f"{title}.{name} was replaced"
            for holder, name, value, code, title in self.kept
            if (holder.get(name) is not value and not is_pytests(title, holder.get(name)))
            or (code is not None and code_of(value) is not code)
        ]
        found += [
            f"{title}.{name} was changed"
            for holder, name, known, title in self.data
            if as_text(holder.get(name)) != known
        ]
        found += self.readers
        new = [name for name in found if name not in self.told]
        self.told.update(new)
        return new


def names_of(module):
    """What is in a module; some do their imports when they are asked."""
    try:
        names = object.__getattribute__(module, "__dict__")
    except AttributeError:
        return {}
    return names if type(names) is dict else {}


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, ValueError):
        return None


def without_parameters(text):
    """The text without the calls that give tests their parameters."""
    return re.sub(r"parametrize\([^\n]*", "", text)


def is_pytests(title, value):
    """Plugins of pytest change its classes when they are loaded."""
    code = code_of(value)
    return title.startswith("_pytest.") and code is not None and f"{os.sep}_pytest{os.sep}" in code.co_filename


def code_of(value):
    function = value.__func__ if type(value) in (staticmethod, classmethod) else value
    return function.__code__ if type(function) is FunctionType else None


def as_text(value):
    """What plain data looks like; None for anything else, and where it is large."""
    left, count = [value], 0
    while left:
        one, count = left.pop(), count + 1
        if count > _LARGEST:
            return None
        if type(one) is dict:
            left += [*one.keys(), *one.values()]
        elif type(one) in (list, tuple, set, frozenset):
            left += one
        elif type(one) not in _PLAIN:
            return None
    return repr(sorted(value, key=repr)) if type(value) in (set, frozenset) else repr(value)
