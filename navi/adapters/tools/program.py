"""Start a module of navi as a process of its own."""

import ctypes
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

import navi

# What programs need to work at all. Everything else stays with the server: its environment holds
# the passwords of databases and the keys of model servers.
PASSED_ON = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h

_ROOT = str(Path(navi.__file__).parent.parent)
_START = "import runpy, sys; sys.path.append(sys.argv.pop(1)); runpy.run_module(sys.argv.pop(1), run_name='__main__')"


def command_of(module: str, *arguments: str) -> tuple[str, ...]:
    """The command line that runs a module, whether navi is installed or lies in a checkout."""
    # -P: a file json.py in the directory the program runs in is not the json module.
    return (sys.executable, "-P", "-c", _START, _ROOT, module, *arguments)


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The few variables that are passed on, without any secret of navi's."""
    return {name: environment[name] for name in PASSED_ON if name in environment}


def die_with(parent: int, *, by: signal.Signals) -> None:
    """Have this process sent a signal when the one that started it ends, however that ends.

    What detaches itself from this process stays below it, where it is found when all is to end.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    end_with(parent, by=by)


def end_with(parent: int, *, by: signal.Signals) -> None:
    """As ``die_with``, for a process that leaves alone what detaches itself from it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, by)
    if os.getppid() != parent:
        sys.exit("the server that started this process is gone")
