"""The WebSocket of a session."""
