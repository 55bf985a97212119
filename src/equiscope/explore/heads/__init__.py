"""What the page of heads asks of a model: its inputs, its heads on moved tokens, what each does, in sentences."""
