"""Compare: many runs of one recipe, one table, and an answer that the spread supports."""
