"""The event log in Postgres: group commit, live tails, partitions, sessions."""
