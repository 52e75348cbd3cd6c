# pyright: basic
# Python imports this module when it starts. The environment's own module of this name comes first.
import importlib.machinery
import importlib.util
import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))
_others = [_entry for _entry in sys.path if os.path.abspath(_entry or ".") != _here]
_spec = importlib.machinery.PathFinder.find_spec("sitecustomize", _others)
if _spec is not None and _spec.loader is not None:
    _own = importlib.util.module_from_spec(_spec)
    sys.modules["sitecustomize"] = _own
    _spec.loader.exec_module(_own)

import logos_reporter  # noqa: E402  # pyright: ignore[reportMissingImports]

logos_reporter.install()
# Nothing else of ours can be imported by what is tested.
sys.path[:] = [_entry for _entry in sys.path if os.path.abspath(_entry or ".") != _here]
