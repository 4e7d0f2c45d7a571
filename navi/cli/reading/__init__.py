"""Commands that read sessions."""
