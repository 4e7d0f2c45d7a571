"""``python -m navi``."""

from navi.cli import main

main()
