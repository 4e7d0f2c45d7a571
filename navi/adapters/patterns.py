"""Search texts of models for an operator's regular expressions, with a time limit.

The expression is trusted and the text is not: one that makes `re` try for hours is easily found, and
`re` cannot be stopped.
"""

import regex

SEARCH_SECONDS = 0.2  # an ordinary search of the longest text takes a few milliseconds


def search_in_time(expression: str, text: str) -> bool | None:
    """Whether the expression is found in the text; None where that cannot be told in time."""
    try:
        found = regex.search(expression, text, timeout=SEARCH_SECONDS, concurrent=True)
    except (TimeoutError, MemoryError, regex.error):
        return None
    return found is not None
