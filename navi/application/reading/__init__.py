"""Read sessions: folds of the log, lists, comparisons, requests rendered again."""
