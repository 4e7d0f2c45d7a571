"""The moment at which a piece of text was written, as it stands in the piece."""

import re

DIGITS = 20  # nanoseconds of the machine's monotonic clock
MARK = re.compile(rb"@(\d{%d})" % DIGITS)
