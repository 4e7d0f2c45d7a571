"""Talk to a running navi: the terminal client, the decisions that it waits for, forks."""
