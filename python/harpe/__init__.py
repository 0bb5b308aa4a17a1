"""Harpe saves energy in large-model training by setting GPU clocks to a certified plan.

In a training script::

    import harpe

    client = harpe.start(schedule="1f1b", stages=4, micro_batches=8)
    ...
    with client.forward():  # around each computation; and client.backward()
        ...

For PyTorch's pipelining, Megatron-LM, DeepSpeed and Hugging Face's Trainer there are modules that
do this by themselves: ``harpe.torch_pipelining``, ``harpe.megatron``, ``harpe.deepspeed``,
``harpe.huggingface``. For operators and notebooks, ``harpe.Server`` talks to the server.

Nothing is imported beyond the standard library; a framework's module only on use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .errors import (
    ConflictError,
    Error,
    InfeasibleError,
    InvalidInputError,
    NoPermissionError,
    NotFoundError,
    NotSupportedError,
    UnavailableError,
)
from .recurring import RecurringJob, Trial, Verdict
from .server import Job, Server
from .step_file import StepFile

if TYPE_CHECKING:
    from .client import Client, Counts, start
    from .power_optimizer import PowerOptimizer, PowerReport

__all__ = [
    "Client",
    "ConflictError",
    "Counts",
    "Error",
    "InfeasibleError",
    "InvalidInputError",
    "Job",
    "NoPermissionError",
    "NotFoundError",
    "NotSupportedError",
    "PowerOptimizer",
    "PowerReport",
    "RecurringJob",
    "Server",
    "StepFile",
    "Trial",
    "UnavailableError",
    "Verdict",
    "start",
]

# What needs the built module, which a notebook can do without.
_BUILT = {
    "Client": "client",
    "Counts": "client",
    "PowerOptimizer": "power_optimizer",
    "PowerReport": "power_optimizer",
    "start": "client",
}


def __getattr__(name: str) -> Any:
    if name in _BUILT:
        return getattr(import_module(f".{_BUILT[name]}", __name__), name)
    if name == "__version__":
        from ._client import VERSION

        return VERSION
    raise AttributeError(f"module 'harpe' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_BUILT])
