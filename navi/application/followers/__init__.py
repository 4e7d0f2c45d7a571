"""Followers of the log: update read models, publish to NATS."""
