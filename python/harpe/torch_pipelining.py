"""Hook into ``torch.distributed.pipelining``, for any of its schedules::

    import harpe.torch_pipelining

    schedule = ScheduleInterleaved1F1B(stages, n_microbatches=8, loss_fn=loss_fn)
    harpe.torch_pipelining.attach(schedule)

The job's shape and schedule are read off the schedule object; server and job id come from
``HARPE_SERVER`` and ``HARPE_JOB``. Nothing of PyTorch is changed: the stages' own methods are
wrapped, which every schedule and every version calls once its input has arrived, and custom
functions registered for actions (``register_custom_function``) are wrapped where there are some.
A custom function *replaces* what the runtime does for an action, communication included, so none is
registered where there was none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .client import Client
from .errors import InvalidInputError
from .hooks import (
    BACKWARD,
    FORWARD,
    FORWARD_BACKWARD,
    WEIGHT,
    Attached,
    Steps,
    Undo,
    client_for,
)
from .streams import recorder_for

__all__ = ["Attached", "attach", "coordinates_of", "job_fields"]

KIND_OF_ACTION = {
    "FORWARD": "forward",
    "FULL_BACKWARD": "backward",
    "BACKWARD_INPUT": "backward",
    "BACKWARD_WEIGHT": "weight",
    # The name until 2024.
    "BACKWARD": "backward",
    "WEIGHT": "weight",
}
"""Kinds of instructions, by the names of computation types."""

_OVERLAPPED = "OVERLAP_F_B"
_TENSOR_DIMENSIONS = frozenset({"tp", "tensor", "cp", "context", "sp", "ep", "etp"})
_STAGE_DIMENSIONS = frozenset({"pp", "pipe", "pipeline", "stage"})


def attach(
    schedule: Any,
    client: Client | None = None,
    *,
    mesh: Any = None,
    device: Any = None,
    **options: Any,
) -> Attached:
    """Reports all steps of ``schedule`` from the next ``step`` on to Harpe, one iteration each.

    :param client: a started client; by default created from ``options`` (those of
        :func:`harpe.start`, which take precedence over values from the schedule)
    :param mesh: the ``DeviceMesh`` of the whole job with names of its dimensions, from which this
        rank's coordinates are taken; without it ranks beyond one pipeline count as data parallel
    :param device: where the stages compute; by default the device of their parameters

    Call it once the schedule is complete: custom functions that are registered later are not
    reported. Raises only if options are wrong, or this is not a schedule.
    """
    stages = _stages(schedule)
    overlapped = _OVERLAPPED in _custom_functions(schedule)
    client, owns_client = client_for(
        client,
        options,
        lambda: {**job_fields(schedule, overlapped=overlapped), **coordinates_of(schedule, mesh)},
    )
    steps = Steps(recorder_for(client, device or getattr(stages[0], "device", None)))
    undo = Undo()
    _wrap_stages(schedule, stages, steps, undo)
    _wrap_custom_functions(schedule, stages, steps, undo)
    _wrap_step(schedule, steps, undo)
    return Attached(client, steps, undo, owns_client=owns_client)


# --- The fields of the job ------------------------------------------------------------------------


def job_fields(schedule: Any, *, overlapped: bool = False) -> dict[str, Any]:
    """Returns the job fields of a schedule: stages, micro-batches, lists of instructions.

    ``overlapped``: blocks of a forward and a backward run as one, by a custom function. Without it
    the runtime runs them one after the other.
    """
    stages = _stages(schedule)
    micro_batches = int(schedule._n_microbatches)
    # These by name: PyTorch 2.15 reports an order for its 1F1B that differs from the executed one.
    names = {base.__name__ for base in type(schedule).__mro__}
    for known, name in (("Schedule1F1B", "1f1b"), ("ScheduleGPipe", "gpipe")):
        if known in names:
            return {
                "stages": int(stages[0].num_stages),
                "schedule": name,
                "micro_batches": micro_batches,
            }
    order = getattr(schedule, "pipeline_order", None)
    if order:
        lists = [_instructions(order[rank], overlapped) for rank in sorted(order)]
        return {"stages": len(lists), "schedule": {"ranks": lists, "placement": _placement(lists)}}
    raise InvalidInputError(
        f"{type(schedule).__name__} does not say its order: give attach the client, started with "
        "the job's schedule"
    )


def _instructions(actions: Any, overlapped: bool) -> list[dict[str, Any]]:
    """Returns the computations of one rank in Harpe's neutral form."""
    found: list[dict[str, Any]] = []
    for action in actions:
        if action is None:
            continue
        name = action[1].name
        parts = getattr(action, "sub_actions", None)
        if name == _OVERLAPPED and parts:
            if overlapped and len(parts) == 2:
                forward, backward = parts
                found.append(
                    {
                        "op": "forward_backward",
                        "stage": int(forward[0]),
                        "mb": int(forward[2]),
                        "backward_stage": int(backward[0]),
                        "backward_mb": int(backward[2]),
                    }
                )
            else:
                found.extend(_instructions(parts, overlapped))
        elif name in KIND_OF_ACTION:
            found.append(
                {"op": KIND_OF_ACTION[name], "stage": int(action[0]), "mb": int(action[2])}
            )
    return found


def _placement(lists: list[list[dict[str, Any]]]) -> list[int]:
    """Returns the rank of every model part."""
    rank_of: dict[int, int] = {}
    for rank, instructions in enumerate(lists):
        for instruction in instructions:
            rank_of[instruction["stage"]] = rank
    return [rank_of[part] for part in sorted(rank_of)]


def coordinates_of(schedule: Any, mesh: Any = None) -> dict[str, Any]:
    """Returns degrees of parallelism and this rank's coordinates, by the mesh or the pipeline's
    group."""
    if mesh is not None:
        return _coordinates_in_mesh(mesh)
    first = _stages(schedule)[0]
    stage, pipeline = int(first.group_rank), int(first.group_size)
    ranks, world = _group_ranks(first)
    if len(ranks) != pipeline or pipeline == world:
        return {"coordinates": (0, stage, 0)}
    stride = ranks[1] - ranks[0] if pipeline > 1 else 1
    base = ranks[0]
    data = base // (stride * pipeline) * stride + base % stride
    return {"data": world // pipeline, "coordinates": (data, stage, 0)}


def _group_ranks(stage: Any) -> tuple[list[int], int]:
    """Returns the global ranks of the stage's pipeline, and the number of all ranks."""
    try:
        import torch.distributed as dist

        group = getattr(stage, "group", None)
        world = dist.get_world_size()
        # None means all ranks; before PyTorch 2.6 `get_process_group_ranks` does not accept it.
        ranks = range(world) if group is None else dist.get_process_group_ranks(group)
        return list(ranks), world
    except (ImportError, RuntimeError, ValueError):
        return [], int(stage.group_size)


def _coordinates_in_mesh(mesh: Any) -> dict[str, Any]:
    names = mesh.mesh_dim_names
    coordinate = mesh.get_coordinate()
    if not names or coordinate is None:
        raise InvalidInputError("the mesh has no names of its dimensions, or not this rank")
    sizes = {"data": 1, "stages": 1, "tensor": 1}
    at = {"data": 0, "stages": 0, "tensor": 0}
    for position, name in enumerate(names):
        what = "data"
        if name in _STAGE_DIMENSIONS:
            what = "stages"
        elif name in _TENSOR_DIMENSIONS:
            what = "tensor"
        size = int(mesh.size(position))
        sizes[what] *= size
        at[what] = at[what] * size + int(coordinate[position])
    return {
        "data": sizes["data"],
        "tensor": sizes["tensor"],
        "coordinates": (at["data"], at["stages"], at["tensor"]),
    }


# --- The hooks ------------------------------------------------------------------------------------


def _stages(schedule: Any) -> list[Any]:
    stages = getattr(schedule, "_stages", None) or [getattr(schedule, "_stage", None)]
    if not hasattr(schedule, "_n_microbatches") or not hasattr(stages[0], "forward_one_chunk"):
        raise InvalidInputError(
            f"{type(schedule).__name__} is no schedule of torch.distributed.pipelining"
        )
    return sorted(stages, key=lambda stage: int(stage.stage_index))


def _custom_functions(schedule: Any) -> Mapping[str, Any]:
    """Returns custom functions by the names of computation types."""
    functions = getattr(schedule, "_comp_type_to_function_map", None) or {}
    return {kind.name: function for kind, function in functions.items()}


def _forward_id(fwd_chunk_id: int, *_: Any, **__: Any) -> int:
    return fwd_chunk_id


def _backward_id(bwd_chunk_id: int, *_: Any, **__: Any) -> int:
    return bwd_chunk_id


def _wrap_stages(schedule: Any, stages: list[Any], steps: Steps, undo: Undo) -> None:
    for chunk, stage in enumerate(stages):
        # The loss of the last stage is part of its forward computation.
        with_loss = (
            bool(getattr(stage, "is_last", False))
            and getattr(schedule, "_loss_fn", None) is not None
            and hasattr(schedule, "_maybe_compute_loss")
        )
        for name, kind, micro_batch in (
            ("forward_one_chunk", FORWARD, _forward_id),
            ("backward_one_chunk", BACKWARD, _backward_id),
            ("backward_weight_one_chunk", WEIGHT, _backward_id),
        ):
            function = getattr(stage, name, None)
            if function is None:
                continue
            undo.set(
                stage,
                name,
                steps.around(
                    function, kind, chunk, micro_batch, leave_open=with_loss and kind == FORWARD
                ),
            )
        if with_loss:
            undo.set(schedule, "_maybe_compute_loss", _ending(schedule._maybe_compute_loss, steps))


def _ending(function: Any, steps: Steps) -> Any:
    def compute_loss(*arguments: Any, **keywords: Any) -> Any:
        try:
            return function(*arguments, **keywords)
        finally:
            steps.end_open()

    return compute_loss


def _wrap_custom_functions(schedule: Any, stages: list[Any], steps: Steps, undo: Undo) -> None:
    functions = getattr(schedule, "_comp_type_to_function_map", None)
    if not functions:
        return
    chunk_of = {int(stage.stage_index): chunk for chunk, stage in enumerate(stages)}

    def first(action: Any) -> Any:
        parts = getattr(action, "sub_actions", None)
        return parts[0] if parts else action

    kinds = {_OVERLAPPED: FORWARD_BACKWARD, "FORWARD": FORWARD, "BACKWARD_WEIGHT": WEIGHT}
    wrapped = dict(functions)
    for kind, function in functions.items():
        number = kinds.get(kind.name, BACKWARD if kind.name in KIND_OF_ACTION else None)
        if number is not None:
            wrapped[kind] = steps.around(
                function,
                number,
                lambda action, *_: chunk_of.get(int(first(action)[0]), 0),
                lambda action, *_: int(first(action)[2]),
            )
    undo.set(schedule, "_comp_type_to_function_map", wrapped)


def _wrap_step(schedule: Any, steps: Steps, undo: Undo) -> None:
    step = schedule.step

    def step_with_harpe(*arguments: Any, **keywords: Any) -> Any:
        # `eval` also calls `step`, without backward computations.
        if not getattr(schedule, "_has_backward", True):
            return step(*arguments, **keywords)
        steps.begin_iteration()
        try:
            return step(*arguments, **keywords)
        finally:
            steps.end_iteration()

    undo.set(schedule, "step", step_with_harpe)
