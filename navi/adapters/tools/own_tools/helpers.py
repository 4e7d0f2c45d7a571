"""Import the modules beside own tools from the texts that the process was given."""

import importlib.abc
import importlib.machinery
import importlib.util
import linecache
import sys
import types
from collections.abc import Mapping, Sequence

from navi.adapters.tools.own_tools.wire import Helper


def offer_helpers(helpers: Sequence[Helper]) -> None:
    """Have ``import _helpers`` find these modules, behind all that Python knows itself.

    Their texts are those that came with the tools: a file that is edited meanwhile changes nothing.
    """
    sys.meta_path.append(_Helpers({helper.module: helper for helper in helpers}))


def keep_lines(path: str, text: str) -> None:
    """Have tracebacks show lines of this text, and not of the file as it is by then."""
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)


class _Helpers(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, helpers: Mapping[str, Helper]) -> None:
        self._helpers = helpers

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: types.ModuleType | None = None,
        /,
    ) -> importlib.machinery.ModuleSpec | None:
        """How to load a module, where it is one of these."""
        del path, target
        helper = self._helpers.get(fullname)
        if helper is None:
            # A directory without __init__.py is a package, too.
            if not any(name.startswith(f"{fullname}.") for name in self._helpers):
                return None
            return importlib.util.spec_from_loader(fullname, self, is_package=True)
        return importlib.util.spec_from_loader(
            fullname, self, origin=helper.path, is_package=helper.package
        )

    def exec_module(self, module: types.ModuleType) -> None:
        """Run a module's text."""
        helper = self._helpers.get(module.__name__)
        if helper is None:
            return
        module.__file__ = helper.path
        keep_lines(helper.path, helper.text)
        code = compile(helper.text, helper.path, "exec")
        exec(code, module.__dict__)  # noqa: S102 - running the user's own files is what this is for
