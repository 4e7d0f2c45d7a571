"""The command line: the only reader of the environment, and the outermost layer."""

from navi.cli.menu import main

__all__ = ["main"]
