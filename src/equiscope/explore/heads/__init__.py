"""What the page of heads needs from a model: its inputs, reruns on permuted or shifted tokens, a second model, its predictions."""
