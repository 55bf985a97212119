"""What a drawing runs: a small model of the same make, and which box each step belongs to."""
