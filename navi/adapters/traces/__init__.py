"""Traces as other programs read them: OTLP, and the format that Perfetto opens."""
