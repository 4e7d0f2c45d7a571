"""What is composed of what: the same for a node, a command, a test and a rerun."""
