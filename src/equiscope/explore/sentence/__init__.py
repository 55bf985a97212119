"""What the page of a sentence runs: one layer whose weights a person can read, and the tour of the clocks."""
