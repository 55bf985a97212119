"""Numerics: properties of the calculation itself: side effects, chance, gradients, precision and devices."""
