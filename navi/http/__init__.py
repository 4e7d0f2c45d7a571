"""The edge: HTTP and WebSocket for people and programs."""
