"""NATS: the log as JetStream streams, and wake-ups between nodes; losing it loses nothing."""
