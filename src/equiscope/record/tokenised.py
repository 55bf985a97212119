"""Tokenised: a sound, a picture or a film as the tokens that a transformer would read, cut in several ways.

The thing itself is kept whole, and each way says where it cuts, so that a page can find every number of every token again.
"""

from typing import Literal

from msgspec import Struct, field

from equiscope.record.array import Array
from equiscope.record.program import VERSION

PictureCutKind = Literal["pixels", "patches", "stem"]


class Bands(Struct, frozen=True, kw_only=True):
    """The mel filters, which sum the energies of frequencies: triangles, stored without their zeros.

    step     hertz from one frequency of the Fourier transform to the next; the first is 0
    begins   [mels], number of the first frequency that a band hears; counts: how many it hears
    weights  of all bands, one after the other
    floor    energies below it count as it before the logarithm is taken
    """

    step: float
    begins: list[int]
    counts: list[int]
    weights: Array
    floor: float


class SoundCut(Struct, frozen=True, kw_only=True):
    """One length of window and one hop, and the three kinds of token that they make.

    window, hop            in samples; window_ms, hop_ms: in milliseconds, as they were asked for
    frame_positions        [N, 1] in seconds: raw frames of a window's length, one beside the next
    mel, mel_positions            [M, mels] natural logarithms of energies, one token each hop, and [M, 1] in seconds
    patch, patch_positions      windows and bands of a spectrogram patch, and [P, 2] in seconds and bands; none for a short sound
    """

    window: int
    hop: int
    window_ms: float
    hop_ms: float
    frame_positions: Array
    mel: Array
    mel_positions: Array
    bands: Bands
    patch: list[int] = field(default_factory=list)
    patch_positions: Array | None = None


class SoundTokens(Struct, frozen=True, kw_only=True):
    """A sound and its cuts.

    rate     samples a second
    samples  [T]; a sample is this times `unit`: whole numbers where the sound has 16 bits
    silent   no sample differs from another
    note     what was done to it before it was cut; empty for nothing
    """

    name: str
    rate: int
    samples: Array
    unit: float
    silent: bool
    cuts: list[SoundCut]
    note: str = ""


class Projection(Struct, frozen=True, kw_only=True):
    """A linear map of the numbers of a token to a few, made by hand so that a person can read each.

    weight  [numbers, outputs]
    output  [N, outputs]: x @ weight, computed in float64
    error   largest |x @ weight − convolution with the same numbers|, by the largest output, both in float64
    """

    weight: Array
    output: Array
    error: float


class PictureCut(Struct, frozen=True, kw_only=True):
    """One way to cut a picture: a token for each cell of a grid, row by row.

    side           of a cell in pixels; grid: rows and columns; numbers: of one token
    rows, columns  first pixel and the one after the last that a row's, a column's tokens read: they overlap for a stem
    """

    kind: PictureCutKind
    side: int
    grid: list[int]
    numbers: int
    rows: list[list[int]]
    columns: list[list[int]]
    projection: Projection | None = None


class PictureTokens(Struct, frozen=True, kw_only=True):
    """A picture and its cuts.

    size     rows and columns of pixels
    pixels   base64 of its bytes, row by row, three a pixel; a number of a token is a byte / 255
    outputs  what each output of a linear map says
    """

    name: str
    size: list[int]
    pixels: str
    outputs: list[str]
    cuts: list[PictureCut]
    note: str = ""


class FilmCut(Struct, frozen=True, kw_only=True):
    """One size of tubelet: frames, rows and columns.

    grid  how many along each axis; numbers: of one token; positions: [N, 3] centre in seconds, row and column counted in tubelets
    """

    size: list[int]
    grid: list[int]
    numbers: int
    positions: Array
    projection: Projection


class FilmTokens(Struct, frozen=True, kw_only=True):
    """A film and its cuts.

    size     frames, rows and columns
    fps      frames a second
    frames   base64 of their bytes, frame by frame, as the pixels of a picture
    outputs  what each output of a linear map says
    """

    name: str
    size: list[int]
    fps: float
    frames: str
    outputs: list[str]
    cuts: list[FilmCut]
    note: str = ""


class Tokenised(Struct, frozen=True, kw_only=True):
    """A page of tokens: of what was given, None for the rest."""

    version: int = VERSION
    title: str
    summary: str
    notes: list[str] = field(default_factory=list)
    sound: SoundTokens | None = None
    picture: PictureTokens | None = None
    film: FilmTokens | None = None
