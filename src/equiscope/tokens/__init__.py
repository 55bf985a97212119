"""Anything becomes tokens: features x, coordinates at, and beside them order, document, valid."""

from equiscope.tokens.base import Tokens
from equiscope.tokens.text import Embedding, characters, spelled, vocabulary, words

__all__ = ["Embedding", "Tokens", "characters", "spelled", "vocabulary", "words"]
