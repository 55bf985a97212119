"""Quantized models: whether a difference is only that one side rounds its weights and activations to a few bits."""
