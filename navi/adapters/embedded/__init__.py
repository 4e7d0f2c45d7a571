"""The real Postgres and NATS as navi's own children, for a machine that has neither."""
