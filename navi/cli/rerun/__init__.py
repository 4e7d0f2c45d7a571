"""``navi rerun``: run a recorded session again, from the log, live or as a test."""
