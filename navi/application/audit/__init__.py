"""Audit the log: verify, sign, export, import, erase, prune."""
