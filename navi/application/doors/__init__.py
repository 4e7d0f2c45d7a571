"""What other programs do with sessions, which keep conversations in their own form."""
