"""Pictures as tokens: patches or pixels, each at its (row, column).

Features are the raw numbers of a patch, by channel, row, column: as the kernel of a Conv2d lies in memory. So a linear map of
them is a convolution with the patch as kernel and stride: `x @ conv.weight.flatten(1).T + conv.bias`.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from equiscope.budgets import PIXELS, read
from equiscope.errors import InputError, ShapeError, printable, reason
from equiscope.tokens.base import Tokens
from equiscope.tokens.mixed import pack

if TYPE_CHECKING:
    from PIL import Image

Pair = tuple[int, int]


def patches(image: Float[Tensor, "*batch C H W"], size: Pair = (16, 16)) -> Tokens:
    """Cut a picture into patches, one token each, row by row.

    size    rows and columns of a patch, in pixels
    returns Tokens with x [..., N, C·rows·columns], positions [N, 2]: row and column of the patch, counted in patches
    raises  ShapeError where the picture is not a whole number of patches
    source  Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words", section 3.1
    """
    if image.ndim < 3:
        raise ShapeError(f"A picture is [..., C, H, W], but got the shape {tuple(image.shape)}. Grey ones: image.unsqueeze(0).")
    height, width = image.shape[-2:]
    check_whole((height, width), size, "A picture", "pixels", "patches")
    rows, columns = size
    cut = image.unflatten(-1, (width // columns, columns)).unflatten(-3, (height // rows, rows))  # C, down, rows, across, columns
    return Tokens.on_grid(cut.movedim((-4, -2), (-5, -4)).flatten(-3))


def pixels(image: Float[Tensor, "*batch C H W"]) -> Tokens:
    """Every pixel a token: x [..., N, C], positions [N, 2] its row and column."""
    return patches(image, (1, 1))


def pack_images(images: Sequence[Float[Tensor, "C _ _"]], size: Pair = (16, 16)) -> Tokens:
    """Pictures of different sizes in one sequence: each a document of its own, with places that begin at (0, 0).

    returns Tokens with x [N, C·rows·columns], positions [N, 2], document [N]: which picture
    raises  ShapeError as `patches` does, and where pictures differ in channels
    source  Dehghani et al. 2023, "Patch n' Pack: NaViT"
    """
    return pack([patches(image, size) for image in images])


def unpatch(tokens: Tokens, size: Pair = (16, 16)) -> Tensor:
    """The picture [..., C, H, W] that `patches` cut, wherever its rows stand now: `positions` says where each patch belongs.

    raises  ShapeError where the patches are of another size, or do not fill a rectangle
    """
    check_size(size, 2, "patches")
    area = size[0] * size[1]
    if tokens.x.shape[-1] % area:
        raise ShapeError(f"A patch of {area} pixels has a multiple of {area} numbers, but a token has {tokens.x.shape[-1]}.")
    positions = (tokens.positions - tokens.positions.amin(-2, keepdim=True)).round().long()
    down, across = (int(n) + 1 for n in positions.flatten(0, -2).amax(0))
    cell = positions[..., 0] * across + positions[..., 1]
    filled = torch.arange(down * across, device=cell.device)
    sequence = cell.argsort(-1)
    if down * across != cell.shape[-1] or not bool((cell.gather(-1, sequence) == filled).all()):
        raise ShapeError(f"{cell.shape[-1]} patches do not fill {down}×{across} places once each. Give every patch of one picture.")
    x = tokens.x.take_along_dim(sequence.expand(tokens.x.shape[:-1]).unsqueeze(-1), -2)
    grid = x.unflatten(-1, (-1, *size)).unflatten(-4, (down, across))  # down, across, C, rows, columns
    return grid.movedim((-5, -4), (-4, -2)).flatten(-4, -3).flatten(-2)


def read_image(path: str | Path, size: Pair | None = None) -> Float[Tensor, "3 H W"]:
    """A picture file as colours in 0..1, turned upright where the camera says so. Transparency is dropped, grey becomes colour.

    size    (H, W) to resize it to, in Pillow's bicubic way
    raises  InputError where there is no picture, or one with more than 8 bits a colour
    """
    import numpy as np
    from PIL import Image

    with quietly():
        upright = picture(path, printable(path)).convert("RGB")
    if size is not None and min(size) < 1:
        raise InputError(f"A picture is resized to (H, W) of 1 or more, but got {size}.")
    upright = upright if size is None else upright.resize(size[::-1], Image.Resampling.BICUBIC)
    return torch.from_numpy(np.array(upright)).movedim(-1, 0).to(torch.float32) / 255


def picture(content: bytes | str | Path, where: str, most: int = PIXELS) -> "Image.Image":
    """A picture file, or what it holds, turned upright where the camera says so.

    most    pixels that are read
    raises  InputError where there is no whole picture, one with more than 8 bits a colour, or too large a one
    """
    from PIL import Image, ImageOps

    try:
        held = content if isinstance(content, bytes) else read(content)
        with quietly(), Image.open(BytesIO(held)) as file:
            if (pixels := file.width * file.height) > most:
                raise InputError(
                    f"{where} has {pixels / 1e6:.0f} megapixels; at most {most / 1e6:.0f} are read. Make it smaller first."
                )
            mode = "RGB;16" if any(";16" in str(part) for part in getattr(file, "tile", ())) else file.mode
            file.load()
            if mode.startswith(("I", "F", "RGB;16")):
                raise InputError(f"{where} has more than 8 bits a colour (Pillow's mode {mode}). Save it with 8 bits.")
            return ImageOps.exif_transpose(file)
    except (InputError, KeyboardInterrupt, SystemExit):
        raise
    except Exception as error:  # readers of damaged pictures raise whatever comes
        said = "Pillow knows no such format" if isinstance(error, Image.UnidentifiedImageError) else reason(error)
        raise InputError(
            f"{where} cannot be read as a picture: {said}. Give a file that Pillow reads, e.g. PNG or JPEG."
        ) from error


@contextmanager
def quietly() -> Iterator[None]:
    """Without what Pillow warns of: large pictures, and odd things beside the colours, with which a picture can be read."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def check_whole(found: Sequence[int], size: Sequence[int], what: str, unit: str, parts: str) -> None:
    """Raises ShapeError, with a next step, unless parts of this size fill what was found."""
    check_size(size, len(found), parts)
    if all(n and n % s == 0 for n, s in zip(found, size, strict=True)):
        return
    inner = [n - n % s for n, s in zip(found, size, strict=True)]
    step = f"Crop it to {times(inner)}, pad it, or resize it." if all(inner) else "Pad it, or resize it."
    raise ShapeError(f"{what} of {times(found)} {unit} is not a whole number of {times(size)} {parts}. {step}")


def check_size(size: Sequence[int], axes: int, parts: str) -> None:
    """Raises ShapeError unless the size of a part is a whole number of 1 or more along each axis."""
    if not isinstance(size, Sequence) or len(size) != axes or not all(hasattr(n, "__index__") for n in size):
        raise ShapeError(f"The size of {parts} is {axes} whole numbers, e.g. {(16,) * axes}, but got {size!r}.")
    if min(size) < 1:
        raise ShapeError(f"{parts.capitalize()} have at least 1 along each axis, but size is {times(size)}.")


def times(sizes: Sequence[int]) -> str:
    return "×".join(map(str, sizes))
