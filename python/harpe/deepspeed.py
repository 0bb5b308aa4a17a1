"""Hook into DeepSpeed's pipeline engine::

    import harpe.deepspeed

    engine, *_ = deepspeed.initialize(model=pipeline_module, config=config, ...)
    harpe.deepspeed.attach(engine)

The engine looks every instruction up in a map; this engine gets one of its own, in which those that
compute are wrapped. The job's shape and schedule are read off the engine; server and job id come
from ``HARPE_SERVER`` and ``HARPE_JOB``.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from .client import Client
from .errors import InvalidInputError
from .hooks import BACKWARD, FORWARD, WEIGHT, Attached, Steps, Undo, client_for
from .streams import recorder_for

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import StartOptions

__all__ = ["Attached", "attach", "job_fields"]

_KINDS = {
    "ForwardPass": ("forward", FORWARD),
    "BackwardPass": ("backward", BACKWARD),
    "WeightPass": ("weight", WEIGHT),
}
"""Instructions that compute, by the names of their classes."""


def attach(engine: Any, client: Client | None = None, **options: Unpack[StartOptions]) -> Attached:
    """Reports all calls of ``engine.train_batch`` from now on to Harpe, one iteration each.

    :param client: a started client; by default created from ``options`` (those of
        :func:`harpe.start`, which take precedence over values from the engine)

    Raises only if options are wrong, or this is not a pipeline engine.
    """
    instructions = getattr(engine, "_INSTRUCTION_MAP", None)
    if instructions is None or not hasattr(engine, "train_batch"):
        raise InvalidInputError(
            f"{type(engine).__name__} is no pipeline engine: deepspeed.initialize makes one of a "
            "PipelineModule"
        )
    client, owns_client = client_for(client, options, lambda: job_fields(engine))
    steps = Steps(recorder_for(client, getattr(engine, "device", None)))
    undo = Undo()
    wrapped = dict(instructions)
    for instruction, function in instructions.items():
        known = _KINDS.get(instruction.__name__)
        if known is not None:
            wrapped[instruction] = steps.around(function, known[1], _chunk)
    undo.set(engine, "_INSTRUCTION_MAP", wrapped)
    train_batch = engine.train_batch

    def train_batch_with_harpe(*arguments: Any, **keywords: Any) -> Any:
        steps.begin_iteration()
        try:
            return train_batch(*arguments, **keywords)
        finally:
            steps.end_iteration()

    undo.set(engine, "train_batch", train_batch_with_harpe)
    return Attached(client, steps, undo, owns_client=owns_client)


def _chunk(*_: Any, phase: int | None = None, **__: Any) -> int:
    """Returns the model part. Schedules with two parts per stage give it as the phase."""
    return phase or 0


def job_fields(engine: Any) -> dict[str, Any]:
    """Returns the job fields that an engine defines, and this rank's coordinates."""
    stages = int(engine.num_stages)
    grid = engine.grid
    fields: dict[str, Any] = {
        "stages": stages,
        "data": int(grid.data_parallel_size),
        "tensor": int(grid.model_parallel_size),
        "coordinates": (
            int(grid.get_data_parallel_id()),
            int(engine.stage_id),
            int(grid.get_slice_parallel_rank()) if int(grid.model_parallel_size) > 1 else 0,
        ),
    }
    micro_batches = int(engine.micro_batches)
    schedule = engine._train_schedule() if hasattr(engine, "_train_schedule") else None
    if schedule is None or type(schedule).__name__ == "TrainSchedule":
        fields.update(schedule="1f1b", micro_batches=micro_batches)
        return fields
    lists = [
        _instructions(
            type(schedule)(micro_batches=micro_batches, stages=stages, stage_id=stage),
            stage,
            stages,
        )
        for stage in range(stages)
    ]
    fields["schedule"] = {"name": type(schedule).__name__, "ranks": lists}
    return fields


def _instructions(schedule: Any, stage: int, stages: int) -> list[dict[str, Any]]:
    """Returns the computations of one stage in Harpe's neutral form."""
    counts: Counter[tuple[str, int]] = Counter()
    found: list[dict[str, Any]] = []
    for commands in schedule:
        for command in commands:
            known = _KINDS.get(type(command).__name__)
            if known is None:
                continue
            # Two parts per stage are placed as a V: the second one on the way back.
            phase = int(command.kwargs.get("phase") or 0)
            part = stage if phase == 0 else 2 * stages - 1 - stage
            found.append({"op": known[0], "stage": part, "mb": counts[known[0], phase]})
            counts[known[0], phase] += 1
    return found
