"""Hook into Hugging Face's ``Trainer``, for jobs whose model is on one GPU a rank::

    import harpe.huggingface

    trainer = Trainer(model=model, args=args, train_dataset=data)
    harpe.huggingface.attach(trainer)
    trainer.train()

A job without a pipeline is one of a single stage: its forward and backward computations are
instructions, the steps of gradient accumulation micro-batches, an optimizer step an iteration.
There is no slack inside of it to save energy in; what is saved comes from an objective of less
speed, a power cap, or from waiting for slower ranks.
"""

from __future__ import annotations

import functools
import os
import sys
from typing import TYPE_CHECKING, Any

from .client import Client
from .errors import InvalidInputError
from .hooks import BACKWARD, FORWARD, Attached, Steps, Undo, client_for
from .power_optimizer import PowerOptimizer, PowerReport
from .step_file import StepFile, local_rank
from .streams import recorder_for

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import StartOptions

    class TrainerCallback:
        """Stands in for that of transformers."""

else:
    from transformers import TrainerCallback

__all__ = ["Attached", "HarpeCallback", "PowerOptimizerCallback", "StepFileCallback", "attach"]


class HarpeCallback(TrainerCallback):
    """Follows the trainer's optimizer steps. Created and completed by :func:`attach`.

    If training is requested to pause, the trainer saves a checkpoint and then waits.
    """

    def __init__(self, steps: Steps, client: Client | None = None) -> None:
        self._steps = steps
        self._client = client
        self._pauses = False

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._pauses and self._client is not None:
            self._pauses = False
            self._client.wait_for_resume()
        self._steps.begin_iteration()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._steps.end_iteration()
        if self._client is None or self._client.pause_requested() is None:
            return
        # The trainer saves after its callbacks have returned, so the wait is before the next step.
        self._pauses = control.should_save = True

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._steps.end_iteration()


class StepFileCallback(TrainerCallback):
    """Reports the trainer's steps to ``harpe run --optimize``, which finds the best clock or power
    limit::

        trainer.add_callback(harpe.huggingface.StepFileCallback())
    """

    def __init__(self) -> None:
        self._steps = StepFile()

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._steps.on_step_begin()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._steps.on_epoch_end()

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        # An evaluation before this is not part of the step.
        self._steps.on_epoch_end()


class PowerOptimizerCallback(TrainerCallback):
    """Finds the best clock or power limit, without a command around the training::

        trainer.add_callback(harpe.huggingface.PowerOptimizerCallback("energy", max_slowdown=0.03))

    Takes the arguments of :class:`harpe.PowerOptimizer`. The first rank of a node prints the
    report, which is then available as ``report``.
    """

    report: PowerReport | None = None

    def __init__(self, optimize: str = "energy", **options: Any) -> None:
        self._options = {"optimize": optimize, **options}
        self._optimizer: PowerOptimizer | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        # Not earlier: the trainer may initialise torch.distributed late.
        self._optimizer = PowerOptimizer(**self._options)

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._optimizer is not None:
            self._optimizer.on_step_begin()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._optimizer is not None:
            self._optimizer.on_epoch_end()

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.on_epoch_end(args, state, control)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._optimizer is None:
            return
        self.report = self._optimizer.close()
        self._optimizer = None
        if not local_rank():
            print(f"harpe: {self.report}", file=sys.stderr)


def attach(
    trainer: Any,
    client: Client | None = None,
    *,
    pauses: bool = True,
    **options: Unpack[StartOptions],
) -> Attached:
    """Reports the trainer's next training to Harpe, one iteration per optimizer step.

    :param client: a started client; by default created from ``options`` (those of
        :func:`harpe.start`, which take precedence over values from the trainer)
    :param pauses: save a checkpoint and wait if training is requested to pause

    Raises only if options are wrong, or this is not a trainer.
    """
    arguments = getattr(trainer, "args", None)
    if arguments is None or not hasattr(trainer, "training_step"):
        raise InvalidInputError(f"{type(trainer).__name__} is no Trainer of transformers")
    client, owns_client = client_for(client, options, lambda: _job_fields(arguments))
    steps = Steps(recorder_for(client, getattr(arguments, "device", None)))
    callback = HarpeCallback(steps, client if pauses else None)
    undo = Undo()
    # Evaluation also computes losses, but between iterations.
    undo.set(trainer, "compute_loss", steps.around(trainer.compute_loss, FORWARD))
    undo.set(trainer, "training_step", _training_step(trainer, steps))
    trainer.add_callback(callback)
    undo.call(lambda: trainer.remove_callback(callback))
    return Attached(client, steps, undo, owns_client=owns_client)


def _training_step(trainer: Any, steps: Steps) -> Any:
    """Wraps training steps on use, since `train` may create another accelerator."""
    function = trainer.training_step

    @functools.wraps(function)
    def training_step(*arguments: Any, **keywords: Any) -> Any:
        accelerator = trainer.accelerator
        undo = Undo()
        undo.set(accelerator, "backward", steps.around(accelerator.backward, BACKWARD))
        try:
            return function(*arguments, **keywords)
        finally:
            undo.all()

    return training_step


def _job_fields(arguments: Any) -> dict[str, Any]:
    """Returns the job fields that the trainer's arguments define, and this rank's coordinates."""
    return {
        "stages": 1,
        "data": max(1, int(getattr(arguments, "world_size", 1))),
        "coordinates": (
            int(getattr(arguments, "process_index", os.environ.get("RANK", "0"))),
            0,
            0,
        ),
        "schedule": "1f1b",
        "micro_batches": max(1, int(arguments.gradient_accumulation_steps)),
    }
