"""Images as tokens: patches or pixels, each at its (row, column).

Features are the raw numbers of a patch, by channel, row, column, the memory order of a Conv2d kernel. So a linear map of them is a
convolution with the patch size as kernel and stride: `x @ conv.weight.flatten(1).T + conv.bias`.
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

from equiscope.budgets import PIXELS, read, stand_in
from equiscope.errors import InputError, ShapeError, printable, reason
from equiscope.tokens.base import Tokens
from equiscope.tokens.mixed import pack

if TYPE_CHECKING:
    from PIL import Image

Pair = tuple[int, int]


def patches(image: Float[Tensor, "*batch C H W"], size: Pair = (16, 16)) -> Tokens:
    """Cut an image into patches, one token each, in row-major order.

    size    rows and columns of a patch, in pixels
    returns Tokens with x [..., N, C·rows·columns], positions [N, 2]: row and column of the patch, counted in patches
    raises  ShapeError where the image is not a whole number of patches
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
    """Images of different sizes in one sequence: each is a document, with positions that start at (0, 0).

    returns Tokens with x [N, C·rows·columns], positions [N, 2], document [N]: index of the image
    raises  ShapeError as `patches` does, and where images differ in channels
    source  Dehghani et al. 2023, "Patch n' Pack: NaViT"
    """
    return pack([patches(image, size) for image in images])


def unpatch(tokens: Tokens, size: Pair = (16, 16)) -> Tensor:
    """The inverse of `patches`, an image [..., C, H, W]; `positions` places each patch, so the rows may be in any order.

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
        raise ShapeError(f"{cell.shape[-1]} patches do not fill {down}×{across} cells once each. Give every patch of one image.")
    x = tokens.x.take_along_dim(sequence.expand(tokens.x.shape[:-1]).unsqueeze(-1), -2)
    grid = x.unflatten(-1, (-1, *size)).unflatten(-4, (down, across))  # down, across, C, rows, columns
    return grid.movedim((-5, -4), (-4, -2)).flatten(-4, -3).flatten(-2)


def read_image(path: str | Path, size: Pair | None = None) -> Float[Tensor, "3 H W"]:
    """Read an image file as RGB in 0..1, with its EXIF orientation applied. Transparency is dropped, grey becomes RGB.

    size    (H, W) to resize to, with Pillow's bicubic filter
    raises  InputError where there is no image, or one with more than 8 bits per channel
    """
    import numpy as np
    from PIL import Image

    with without_warnings():
        upright = picture(path, printable(path)).convert("RGB")
    if size is not None and min(size) < 1:
        raise InputError(f"A picture is resized to (H, W) of 1 or more, but got {size}.")
    upright = upright if size is None else upright.resize(size[::-1], Image.Resampling.BICUBIC)
    return torch.from_numpy(np.array(upright)).movedim(-1, 0).to(torch.float32) / 255


def picture(content: bytes | str | Path, where: str, most: int = PIXELS) -> "Image.Image":
    """An image from a file or its bytes, with its EXIF orientation applied; of several frames the first, and `info["animated"]`.

    most    the largest number of pixels
    raises  InputError for an incomplete image, one with more than 8 bits per channel, or one that is too large
    """
    from PIL import Image, ImageOps

    data = b""
    try:
        data = content if isinstance(content, bytes) else read(content)
        if stand := stand_in(data):
            raise InputError(f"{where} {stand}")
        with without_warnings(), Image.open(BytesIO(data)) as file:
            if (pixels := file.width * file.height) > most:
                raise InputError(
                    f"{where} has {pixels / 1e6:.0f} megapixels; at most {most / 1e6:.0f} are read. Make it smaller first."
                )
            mode = file.mode
            if mode.startswith("RGB") and any(";16" in str(part) for part in getattr(file, "tile", ())):
                mode = "RGB;16"
            file.load()
            if mode.startswith(("I", "F", "RGB;16")):
                raise InputError(f"{where} has more than 8 bits a colour (Pillow's mode {mode}). Save it with 8 bits.")
            upright = ImageOps.exif_transpose(file)
            upright.info["animated"] = getattr(file, "is_animated", False)
            return upright
    except (InputError, KeyboardInterrupt, SystemExit):
        raise
    except Exception as error:  # readers of damaged images raise any exception
        why = "Pillow knows no such format" if isinstance(error, Image.UnidentifiedImageError) else reason(error)
        raise InputError(f"{where} cannot be read as a picture: {why}. Give a file that Pillow reads, e.g. PNG or JPEG.") from error


@contextmanager
def without_warnings() -> Iterator[None]:
    """Suppress Pillow's warnings on large images and unusual metadata."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def check_whole(shape: Sequence[int], size: Sequence[int], what: str, unit: str, parts: str) -> None:
    """Raises ShapeError, with a next step, unless the shape is a whole number of parts of this size."""
    check_size(size, len(shape), parts)
    if all(n and n % s == 0 for n, s in zip(shape, size, strict=True)):
        return
    inner = [n - n % s for n, s in zip(shape, size, strict=True)]
    step = f"Crop it to {times(inner)}, pad it, or resize it." if all(inner) else "Pad it, or resize it."
    raise ShapeError(f"{what} of {times(shape)} {unit} is not a whole number of {times(size)} {parts}. {step}")


def check_size(size: Sequence[int], axes: int, parts: str) -> None:
    """Raises ShapeError unless the size of a part is an integer of at least 1 along each axis."""
    if not isinstance(size, Sequence) or len(size) != axes or not all(hasattr(n, "__index__") for n in size):
        raise ShapeError(f"The size of {parts} is {axes} whole numbers, e.g. {(16,) * axes}, but got {size!r}.")
    if min(size) < 1:
        raise ShapeError(f"{parts.capitalize()} have at least 1 along each axis, but size is {times(size)}.")


def times(sizes: Sequence[int]) -> str:
    return "×".join(map(str, sizes))
