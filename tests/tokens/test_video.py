"""Video: tubelets are a convolution in time and space, and a file gives back the frames that were put into it (T4)."""

import numpy as np
import pytest
import torch

from equiscope.errors import InputError, ShapeError
from equiscope.symmetry import relative_error
from equiscope.tokens import patches, read_video, tubelets


@pytest.mark.parametrize("size", [(2, 4, 3), (1, 2, 2), (4, 8, 12)], ids=str)
def test_tubelets_and_a_linear_map_are_a_convolution_with_stride(size):
    video, conv = torch.randn(2, 4, 3, 8, 12, dtype=torch.float64), torch.nn.Conv3d(3, 5, size, stride=size).double()
    wanted = conv(video.transpose(1, 2)).flatten(2).mT
    assert relative_error(tubelets(video, size).x @ conv.weight.flatten(1).T + conv.bias, wanted) < 1e-12  # a sum in another order


def test_tubelets_of_one_frame_are_its_patches():
    video = torch.randn(3, 2, 4, 6)
    tokens = tubelets(video, (1, 2, 3))
    assert torch.equal(tokens.x[4:8], patches(video[1], (2, 3)).x)
    assert tokens.positions[4:8].tolist() == [[1, 0, 0], [1, 0, 1], [1, 1, 0], [1, 1, 1]]


def test_times_are_counted_in_tubelets_or_lie_at_centres_in_seconds():
    video = torch.zeros(6, 1, 2, 2)
    assert tubelets(video, (2, 2, 2)).positions[:, 0].tolist() == [0, 1, 2]
    assert tubelets(video, (2, 2, 2), fps=4.0).positions[:, 0].tolist() == [0.25, 0.75, 1.25]
    assert tubelets(video, (2, 2, 2), fps=4.0).positions[:, 1:].tolist() == [[0, 0]] * 3
    with pytest.raises(InputError, match="fps is a positive number"):
        tubelets(video, (2, 2, 2), fps=0.0)
    with pytest.raises(ShapeError, match=r"6×2×2 frames and pixels is not a whole number of 4×2×2 tubelets. Crop it to 4×2×2"):
        tubelets(video, (4, 2, 2))


def written(path, frames, fps):
    """A video without loss: each frame a PNG."""
    av = pytest.importorskip("av")
    with av.open(str(path), "w") as file:
        stream = file.add_stream("png", rate=fps)
        stream.height, stream.width, stream.pix_fmt = frames.shape[1], frames.shape[2], "rgb24"
        for frame in frames:
            file.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        file.mux(stream.encode())


def test_a_file_gives_back_the_frames_that_were_put_into_it(tmp_path):
    frames = np.random.default_rng(0).integers(0, 256, (10, 16, 32, 3), dtype=np.uint8)
    written(tmp_path / "noise.mov", frames, fps=5)
    video, fps = read_video(tmp_path / "noise.mov")
    assert fps == 5
    assert torch.equal((video * 255).round().to(torch.uint8), torch.from_numpy(frames).movedim(-1, 1))
    some, fewer = read_video(tmp_path / "noise.mov", start=0.4, frames=3, every=2)
    assert fewer == 2.5
    assert torch.equal(some, video[[2, 4, 6]])
    assert read_video(tmp_path / "noise.mov", frames=1, size=(8, 4))[0].shape == (1, 3, 8, 4)
    with pytest.raises(InputError, match=r"has no frame at 60 seconds or later. Use an earlier start."):
        read_video(tmp_path / "noise.mov", start=60.0)


def test_a_real_video_has_the_rate_that_its_camera_had(data):
    video, fps = read_video(data("video/car-detection.mp4"), start=1.0, frames=4, every=2)
    assert video.shape == (4, 3, 432, 768)
    assert fps == 6.25  # every second one of 12.5
    assert tubelets(video, (2, 16, 16), fps=fps).x.shape == (2 * 27 * 48, 3 * 2 * 16 * 16)


def test_what_is_no_video_is_refused(tmp_path):
    (tmp_path / "note.mp4").write_text("no video")
    with pytest.raises(InputError, match=r"note.mp4 cannot be read as a video: .* Give a file that FFmpeg reads"):
        read_video(tmp_path / "note.mp4")
    with pytest.raises(InputError, match=r"There is no file .*nothing.mp4. Give a video that FFmpeg reads"):
        read_video(tmp_path / "nothing.mp4")
    with pytest.raises(InputError, match="got frames=None, every=0"):
        read_video(tmp_path / "note.mp4", every=0)


def test_without_the_extra_the_message_says_how_to_install_it(without):
    without("av")
    with pytest.raises(
        InputError, match=r"Reading a video needs the package av. Install it: pip install -e '\.\[video\]' in the clone"
    ):
        read_video("any.mp4")
