"""Call a model: send, stream, show, and record the outcome."""
