"""Rules of model calls: which server and model, whose turn it is, how long they may take."""
