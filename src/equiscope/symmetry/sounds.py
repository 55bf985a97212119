"""Waveforms: delayed or amplified. An output is invariant, or shifts in time as a waveform or as frames, or scales too."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from equiscope.symmetry.actions import Action
from equiscope.symmetry.inputs import InputKind, Inputs
from equiscope.symmetry.scaling import Scaling
from equiscope.symmetry.shifts import GridShift

HOPS = (2, 4, 8, 16, 160, 320, 5, 10, 3)  # strides of convolutions, and hops of 10 and 20 ms at 16 kHz


class TimeShift(GridShift):
    """Delay the waveform by whole samples, circularly."""

    name: ClassVar[str] = "time-shift"
    summary: ClassVar[str] = "delay the waveform, circularly"
    acts_on: ClassVar[tuple[InputKind, ...]] = ("wave",)
    kind: ClassVar[InputKind] = "wave"
    unit: ClassVar[str] = "sample"
    steps: ClassVar[tuple[int, ...]] = HOPS
    margins: ClassVar[tuple[int, ...]] = (1, 2, 4, 16, 64)


class TimeShiftPadded(TimeShift):
    """Delay the waveform by whole samples, padded with zeros. A waveform with silence at both ends loses nothing."""

    name: ClassVar[str] = "time-shift-padded"
    summary: ClassVar[str] = "delay the waveform, padded with zeros"
    filled: ClassVar[bool] = True


@dataclass(frozen=True)
class Gain(Scaling):
    """Multiply every sample by a factor."""

    name: ClassVar[str] = "gain"
    summary: ClassVar[str] = "multiply the waveform by a factor"
    acts_on: ClassVar[tuple[InputKind, ...]] = ("wave",)

    @classmethod
    def missing(cls, inputs: Inputs) -> str:
        whole = any(not wave.is_floating_point() for wave in inputs.of("wave").values())
        return super().missing(inputs) or ("an integer waveform cannot be multiplied by a fraction" if whole else "")

    def on_input(self, inputs: Any) -> Any:
        return inputs.each(self._scaled, "wave") if isinstance(inputs, Inputs) else self._scaled(inputs)

    def _scaled(self, wave: Tensor) -> Tensor:
        return (wave.double() * self.factor).to(wave.dtype)


SOUNDS: tuple[type[Action], ...] = (TimeShift, TimeShiftPadded, Gain)
