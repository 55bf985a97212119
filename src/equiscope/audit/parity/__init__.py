"""Parity of two implementations: values are aligned by their numbers, then the first step that differs is found and explained."""
