"""Harpe saves energy in large-model training by setting GPU clocks to a certified plan.

In a training script::

    import harpe

    client = harpe.start(schedule="1f1b", stages=4, micro_batches=8)
    ...
    with client.forward():  # around each computation; and client.backward()
        ...

For PyTorch's pipelining, Megatron-LM, DeepSpeed and Hugging Face's Trainer there are modules that
do this by themselves: ``harpe.torch_pipelining``, ``harpe.megatron``, ``harpe.deepspeed``,
``harpe.huggingface``. For operators and notebooks, ``harpe.Server`` talks to the server,
``harpe.plan`` plans an iteration, and ``harpe.measure`` says what a block of code costs.

Nothing is imported beyond the standard library; a framework's module only on use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .errors import (
    ConflictError,
    Diagnostic,
    Error,
    InfeasibleError,
    InvalidInputError,
    NoPermissionError,
    NotFoundError,
    NotSupportedError,
    UnavailableError,
)

if TYPE_CHECKING:
    from .client import Client, Counts, start
    from .measuring import Carbon, DeviceEnergy, Measurement, measure
    from .planning import FrontierPoint, Plan, PlanFigures, plan
    from .power_optimizer import PowerOptimizer, PowerReport
    from .recurring import RecurringJob, Trial, Verdict
    from .server import Job, Server
    from .step_file import StepFile

__all__ = [
    "Carbon",
    "Client",
    "ConflictError",
    "Counts",
    "DeviceEnergy",
    "Diagnostic",
    "Error",
    "FrontierPoint",
    "InfeasibleError",
    "InvalidInputError",
    "Job",
    "Measurement",
    "NoPermissionError",
    "NotFoundError",
    "NotSupportedError",
    "Plan",
    "PlanFigures",
    "PowerOptimizer",
    "PowerReport",
    "RecurringJob",
    "Server",
    "StepFile",
    "Trial",
    "UnavailableError",
    "Verdict",
    "measure",
    "plan",
    "start",
]

# Imported on use: some modules need the built module, which a notebook may do without, and the
# command of a wheel starts faster without modules for Python users.
_ON_USE = {
    "Carbon": "measuring",
    "Client": "client",
    "Counts": "client",
    "DeviceEnergy": "measuring",
    "FrontierPoint": "planning",
    "Job": "server",
    "Measurement": "measuring",
    "Plan": "planning",
    "PlanFigures": "planning",
    "PowerOptimizer": "power_optimizer",
    "PowerReport": "power_optimizer",
    "RecurringJob": "recurring",
    "Server": "server",
    "StepFile": "step_file",
    "Trial": "recurring",
    "Verdict": "recurring",
    "measure": "measuring",
    "plan": "planning",
    "start": "client",
}


def __getattr__(name: str) -> Any:
    if name in _ON_USE:
        return getattr(import_module(f".{_ON_USE[name]}", __name__), name)
    if name == "__version__":
        from ._client import VERSION

        return VERSION
    raise AttributeError(f"module 'harpe' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_ON_USE])
