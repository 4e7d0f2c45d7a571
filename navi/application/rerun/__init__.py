"""Run a recorded session again: the same loop, with what came from outside served from the log."""
