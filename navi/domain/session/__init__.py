"""A session and its open turn: what may be asked of it, what becomes of it, what it needs next."""
