"""Run the agent: turns, the loop of each actor, its tools, plans and compressions."""
