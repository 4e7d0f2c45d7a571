"""The turn that every peer keeps: a question, five tool calls with their results, an answer; 12 items."""

QUESTION = "q" * 400
CALLS = 5
CALL_NAME = "filesystem"
CALL_ARGUMENTS = {"action": "read", "path": "p" * 100}
RESULT = "o" * 2000
ANSWER = "a" * 1000
ITEMS = 2 + 2 * CALLS
