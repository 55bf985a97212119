"""Sequences: properties of models of token sequences: what an output may depend on, and what must not affect it."""
