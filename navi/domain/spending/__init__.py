"""What model calls come to, in tokens and money, and the budgets that bound it."""
