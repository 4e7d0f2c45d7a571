"""Rerun a recorded session: the same agent loop, with outside input served from the log."""
