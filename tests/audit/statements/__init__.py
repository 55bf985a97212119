"""Properties, on real models."""
