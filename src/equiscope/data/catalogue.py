"""Catalogue: data that recipes here are made for, where a user gets each, and what its files are."""


def advice(name: str) -> str:
    """Where a user gets a file of this name."""
    return "Set EQUISCOPE_DATA to the folder that has it."
