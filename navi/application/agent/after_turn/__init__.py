"""What a completed turn still asks for: compress, name the session, remember facts."""
