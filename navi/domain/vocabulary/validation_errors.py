"""Turn msgspec validation errors into ``BadInput`` that names the field."""

import re

import msgspec

from navi.domain.vocabulary.errors import BadInput

_PLACE = re.compile(r"^(?P<cause>.*) - at `(?:key in )?\$(?P<path>[^`]*)`$", re.DOTALL)
_MISSING = re.compile(r"^Object missing required field `(?P<name>[^`]*)`$")
_UNKNOWN = re.compile(r"^Object contains unknown field `(?P<name>[^`]*)`$")


def validation_error(error: msgspec.ValidationError, *, whole: str = "value") -> BadInput:
    """The ``BadInput`` for a msgspec error: which field, and why.

    Args:
        whole: how the value itself is called where no field of it is to blame.
    """
    text = str(error)
    path = ""
    if match := _PLACE.match(text):
        text, path = match["cause"], match["path"].removeprefix(".")
    if match := _MISSING.match(text):
        return BadInput(_join(path, match["name"]), "is missing")
    if match := _UNKNOWN.match(text):
        return BadInput(_join(path, match["name"]), "is not known")
    return BadInput(path or whole, text[:1].lower() + text[1:].replace("`", ""))


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
