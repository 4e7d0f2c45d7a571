"""Pure folds of the log for reading."""
