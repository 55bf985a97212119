"""Prints the table of these differences: python -m tests.audit.parity.planted_sixth [--only WORD] [--record]."""

from pathlib import Path

from ..table_of_planted import main
from .cases import CASES, HEALTHY

if __name__ == "__main__":
    main(CASES, HEALTHY, Path(__file__).with_name("known_failures.json"), by="family")
