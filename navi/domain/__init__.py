"""Nouns and rules: pure, synchronous, free of clocks, ids and input or output."""
