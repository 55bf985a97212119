"""Once: what is computed of a tensor alone is kept beside it, for as long as it lives and nobody writes to it.

The places of a text are one tensor for queries and keys of all layers, so what a scheme makes of them (angles, cosines, sines)
need not be made again for each. Where somebody watches, every step is done, and noted, where it belongs.
"""

import weakref
from collections.abc import Callable, Hashable

import torch
from torch import Tensor
from torch.autograd import forward_ad

from equiscope.trace.recorder import recording

Made = dict[Hashable, Tensor]
_kept: dict[int, tuple["weakref.ref[Tensor]", int, Made]] = {}  # by id: a tensor, its version, and by key what was made of it


def once(of: Tensor, key: Hashable, make: Callable[[], Tensor]) -> Tensor:
    """What `make` gives, which depends on the numbers of `of` and on the key alone; the same tensor while these stay.

    Whether they stay is told as autograd tells it, by the tensor's version; memory that others own is never trusted.
    """
    if not _may_keep(of):
        return make()
    made = _beside(of)
    if key not in made:
        new = make()
        if type(new) is not Tensor or new.is_inference() or new.requires_grad:  # made of more than `of`, or where it cannot serve
            return new
        made[key] = new
    return made[key]


def _beside(of: Tensor) -> Made:
    number = id(of)
    if number in _kept:
        known, version, made = _kept[number]
        if known() is of and version == of._version:
            return made
    made = {}
    _kept[number] = (weakref.ref(of, lambda _: _kept.pop(number, None)), of._version, made)
    return made


def _may_keep(of: Tensor) -> bool:
    if type(of) is not Tensor or of.requires_grad or of.is_inference() or recording() or transformed(of):
        return False
    if (
        torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack()
    ):  # somebody counts what torch does, or changes it
        return False
    if of.is_cuda and torch.cuda.is_current_stream_capturing():  # a graph is to make it again from other numbers
        return False
    return of.untyped_storage().resizable()  # not so: numpy's, say, which writes without telling


def transformed(*tensors: Tensor) -> bool:
    """Whether a compiler, torch.func or a forward derivative is at work; then only the plain formulas serve."""
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return True
    return forward_ad._current_level >= 0 and any(forward_ad.unpack_dual(t).tangent is not None for t in tensors)
