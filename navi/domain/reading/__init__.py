"""Read sessions: folds, comparisons, search, and what a rerun and a trace take from them."""
