"""Memories: keep them up to date with the log; add, find, change, forget, erase."""
