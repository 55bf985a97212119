"""Video as tokens: tubelets of frames × rows × columns, each at (time, row, column).

Features are the raw numbers of a tubelet, by channel, time, row, column: the memory order of a Conv3d kernel. So a linear
map of them is a convolution with the tubelet size as kernel and stride: `x @ conv.weight.flatten(1).T + conv.bias`.
"""

import os
from dataclasses import replace
from itertools import islice
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from equiscope.budgets import FRAMES, PIXELS, regular
from equiscope.errors import InputError, ShapeError
from equiscope.tokens.base import Tokens
from equiscope.tokens.extra import needed
from equiscope.tokens.images import Pair, check_whole


def tubelets(video: Float[Tensor, "*batch T C H W"], size: tuple[int, int, int] = (2, 16, 16), fps: float | None = None) -> Tokens:
    """Cut a video into tubelets, one token each, in the order time, row, column.

    size    frames, rows and columns of a tubelet
    fps     frames per second: a tubelet's time is then its centre in seconds (fps=1 counts in frames)
    returns Tokens with x [..., N, C·frames·rows·columns], positions [N, 3]: time, row and column, counted in tubelets
    raises  ShapeError where the video is not a whole number of tubelets, InputError for an fps that is not positive
    source  Arnab et al. 2021, "ViViT", section 3.2
    """
    if fps is not None and not fps > 0:
        raise InputError(f"fps is a positive number of frames a second, but got {fps}.")
    if video.ndim < 4:
        raise ShapeError(f"A video is [..., T, C, H, W], but got the shape {tuple(video.shape)}.")
    long, _, high, wide = video.shape[-4:]
    check_whole((long, high, wide), size, "A video", "frames and pixels", "tubelets")
    times, rows, columns = size
    # from the back, so that the axes in front keep their numbers: T, t, C, R, r, S, s
    cut = video.unflatten(-1, (wide // columns, columns)).unflatten(-3, (high // rows, rows)).unflatten(-6, (long // times, times))
    boxes = cut.movedim((-7, -4, -2), (-7, -6, -5)).transpose(-4, -3)  # T, R, S, C, t, r, s
    tokens = Tokens.on_grid(boxes.flatten(-4), axes=3)
    if fps is None:
        return tokens
    seconds = (tokens.positions[:, :1].double() + 0.5) * times / fps
    return replace(tokens, positions=torch.cat([seconds.to(tokens.positions.dtype), tokens.positions[:, 1:]], -1))


def read_video(
    path: str | Path, start: float = 0.0, frames: int | None = None, every: int = 1, size: Pair | None = None
) -> tuple[Float[Tensor, "T 3 H W"], float]:
    """Read frames of a video file as RGB in 0..1, and their rate per second.

    A frame takes 12 bytes a pixel: ten seconds of 640×360 at 30 frames per second are 830 MB. Read only what you need.
    start   in seconds; frames: at most so many; every: take each n-th frame; size: (H, W) to resize to
    raises  InputError where there is no video, no frame after start, or the extra `video` is not installed
    """
    av = needed("av", "video", "Reading a video")
    height, width = (None, None) if size is None else size
    if every < 1 or (frames is not None and frames < 1):
        raise InputError(f"frames and every are 1 or more, but got frames={frames}, every={every}.")
    regular(path, "a video that FFmpeg reads, e.g. MP4")
    images: list[Tensor] = []
    try:
        # an absolute path, and of files alone: a name or a playlist could have FFmpeg ask a network
        with av.open(os.path.abspath(path), metadata_errors="replace", options={"protocol_whitelist": "file"}) as file:
            stream = file.streams.video[0]
            area = stream.width * stream.height if size is None else size[0] * size[1]
            most = FRAMES // max(1, area)
            if not most or stream.width * stream.height > PIXELS:
                raise InputError(f"{path} has frames of {stream.width}×{stream.height} pixels, which are too large to be read.")
            began = float((stream.start_time or 0) * stream.time_base)  # a file's clock need not begin at 0
            later = (frame for frame in file.decode(stream) if frame.time is None or frame.time - began >= start)
            picked = islice(later, 0, None if frames is None else frames * every, every)
            for frame in picked:
                if len(images) == most:
                    raise InputError(
                        f"{path} has more than {most} frames of {area} pixels to be read. Ask for fewer frames, or a smaller size."
                    )
                images.append(torch.from_numpy(frame.to_ndarray(format="rgb24", width=width, height=height)))
            fps = float(stream.average_rate or stream.guessed_rate)
    except (av.error.FFmpegError, IndexError, ValueError, TypeError, MemoryError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} cannot be read as a video: {error}. Give a file that FFmpeg reads, e.g. MP4.") from error
    if not images:
        raise InputError(f"{path} has no frame at {start:g} seconds or later. Use an earlier start.")
    return torch.stack(images).movedim(-1, 1).to(torch.float32) / 255, fps / every
