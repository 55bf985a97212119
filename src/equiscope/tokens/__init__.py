"""Tokens of every modality: features `x` and `positions`, with `order`, `document` and `valid`.

One file per modality: text, images, sound, video, points in space; `mixed` combines several in one sequence. Features are raw
numbers; the model's input layer maps them to its width.
"""

from equiscope.tokens.base import Tokens
from equiscope.tokens.images import pack_images, patches, pixels, read_image, unpatch
from equiscope.tokens.mixed import consecutive_positions, join, keep_positions, pack, share_rank
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
    "consecutive_positions",
    "frames",
    "join",
    "keep_positions",
    "log_mel",
    "mel_filters",
    "pack",
    "pack_images",
    "patches",
    "pixels",
    "read_frames",
    "read_image",
    "read_points",
    "read_sound",
    "read_video",
    "resampled",
    "share_rank",
    "spectrogram_patches",
    "spelled",
    "tubelets",
    "unpatch",
    "vertices",
    "vocabulary",
    "words",
]
