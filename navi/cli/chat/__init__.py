"""``navi chat``: the terminal client of a running navi."""
