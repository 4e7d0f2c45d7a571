"""What a model is sent: messages, the prompt, its window, compression."""
