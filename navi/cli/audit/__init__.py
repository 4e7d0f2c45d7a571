"""Commands that show who did what, verify the log, export and import it."""
