"""Sequences: properties of models that read a row of tokens: what an output may depend on, and what must not matter."""
