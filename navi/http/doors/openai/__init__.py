"""Chat completions as OpenAI has them, for official clients and chat pages."""
