"""Sounds: heard later, heard louder. An output is invariant, or moves along in time as a wave or as frames, or grows too."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from equiscope.symmetry.actions import Action
from equiscope.symmetry.inputs import Inputs, Kind
from equiscope.symmetry.scaling import Scaling
from equiscope.symmetry.shifts import GridShift

HOPS = (2, 4, 8, 16, 160, 320, 5, 10, 3)  # strides of convolutions, and hops of 10 and 20 ms at 16 kHz


class TimeShift(GridShift):
    """The sound begins so many samples later; its end comes first."""

    name: ClassVar[str] = "time-shift"
    summary: ClassVar[str] = "hear the sound later, its end first"
    acts_on: ClassVar[tuple[Kind, ...]] = ("wave",)
    kind: ClassVar[Kind] = "wave"
    unit: ClassVar[str] = "sample"
    steps: ClassVar[tuple[int, ...]] = HOPS
    margins: ClassVar[tuple[int, ...]] = (1, 2, 4, 16, 64)


class TimeShiftPadded(TimeShift):
    """The sound begins so many samples later, after silence. A sound with silence at both ends loses nothing."""

    name: ClassVar[str] = "time-shift-padded"
    summary: ClassVar[str] = "hear the sound later, after silence"
    filled: ClassVar[bool] = True


@dataclass(frozen=True)
class Gain(Scaling):
    """The sound is played louder or softer: every sample times a factor."""

    name: ClassVar[str] = "gain"
    summary: ClassVar[str] = "play the sound louder or softer"
    acts_on: ClassVar[tuple[Kind, ...]] = ("wave",)

    @classmethod
    def missing(cls, inputs: Inputs) -> str:
        whole = any(not wave.is_floating_point() for wave in inputs.of("wave").values())
        return super().missing(inputs) or ("a sound in whole numbers cannot be played a little louder" if whole else "")

    def on_input(self, inputs: Any) -> Any:
        return inputs.each(self._louder, "wave") if isinstance(inputs, Inputs) else self._louder(inputs)

    def _louder(self, wave: Tensor) -> Tensor:
        return (wave.double() * self.factor).to(wave.dtype)


SOUNDS: tuple[type[Action], ...] = (TimeShift, TimeShiftPadded, Gain)
