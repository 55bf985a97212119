"""The peers whose packages are installed.

None of them is a dependency; a missing one is listed with the command that installs it.
"""

import importlib
import warnings

INSTALL = (
    "pip install --target PEERS --no-deps e3nn==0.6.0 opt-einsum-fx se3-transformer-pytorch==0.9.0 equiformer-pytorch==0.5.4 "
    "einops einx frozendict loguru taylor-series-linear-attention rotary-embedding-torch mace-torch==0.3.16 matscipy torch-ema "
    "prettytable wcwidth configargparse torchmetrics lightning-utilities pandas python-dateutil pytz torchmd-net==3.1.0 warp-lang; "
    "then PYTHONPATH=PEERS"
)
PACKAGES = (
    "e3nn", "se3-transformer-pytorch", "equiformer-pytorch", "mace-torch", "torchmd-net", "warp-lang", "ase", "matscipy",
)  # fmt: skip
MODULES = {
    "e3nn": "e3nn.o3", "se3-transformer": "se3_transformer_pytorch", "equiformer": "equiformer_pytorch",
    "MACE": "mace.modules.models", "TensorNet": "torchmdnet.models.tensornet", "ASE": "ase.neighborlist",
    "matscipy": "matscipy.neighbours",
}  # fmt: skip


def missing():
    """Each missing peer with the reason."""
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import warp

            warp.config.quiet = True  # it tells of every kernel that it compiles
        except ImportError:
            pass
        for peer, module in MODULES.items():
            try:
                importlib.import_module(module)
            except Exception as error:  # a peer may fail in any way
                found[peer] = f"{type(error).__name__}: {str(error).splitlines()[0][:90]}"
    return found


def without(contestants, left_out):
    """The contestants whose packages are installed."""
    return {name: make for name, make in contestants.items() if not any(name.startswith(peer) for peer in left_out)}
