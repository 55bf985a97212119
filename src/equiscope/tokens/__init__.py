"""Anything becomes tokens: features x, coordinates at, and beside them order, document, valid.

One file per kind of thing: text, images, sound, video, points in space; `mixed` puts several of them into one sequence.
Features are the raw numbers; the model's first map brings them to its width.
"""

from equiscope.tokens.base import Tokens
from equiscope.tokens.images import packed, patches, pixels, read_image, unpatch
from equiscope.tokens.mixed import join, one_after_another, own, pack, together
from equiscope.tokens.points import Points, atoms, read_frames, read_points, vertices
from equiscope.tokens.sound import frames, log_mel, mel_filters, read_sound, resampled, spectrogram_patches
from equiscope.tokens.stem import Stem
from equiscope.tokens.text import Embedding, characters, spelled, vocabulary, words
from equiscope.tokens.tokenizer import Tokenizer, by_bytes, by_characters, by_pieces, by_words
from equiscope.tokens.video import read_video, tubelets

__all__ = [
    "Embedding",
    "Points",
    "Stem",
    "Tokenizer",
    "Tokens",
    "atoms",
    "by_bytes",
    "by_characters",
    "by_pieces",
    "by_words",
    "characters",
    "frames",
    "join",
    "log_mel",
    "mel_filters",
    "one_after_another",
    "own",
    "pack",
    "packed",
    "patches",
    "pixels",
    "read_frames",
    "read_image",
    "read_points",
    "read_sound",
    "read_video",
    "resampled",
    "spectrogram_patches",
    "spelled",
    "together",
    "tubelets",
    "unpatch",
    "vertices",
    "vocabulary",
    "words",
]
