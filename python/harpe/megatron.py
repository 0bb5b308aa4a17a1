"""Hook into Megatron-LM (``megatron.core.pipeline_parallel``)::

    import harpe.megatron

    harpe.megatron.attach()  # before training begins, such as at the top of pretrain_gpt.py

Megatron's ``forward_step`` and ``backward_step`` are wrapped where its schedules look them up, and
so are the schedules themselves, an iteration each. What the job is like, Megatron knows when the
first iteration begins: then the client is started, with ``HARPE_SERVER`` and ``HARPE_JOB``.
"""

from __future__ import annotations

import functools
import importlib
import logging
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .client import Client, start_with
from .errors import Error, InvalidInputError
from .hooks import BACKWARD, FORWARD, Steps, Undo, is_first_rank
from .streams import recorder_for

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import StartOptions

__all__ = ["Attached", "attach", "interleaved_lists", "virtual_micro_batches"]

_SCHEDULES = (
    "forward_backward_no_pipelining",
    "forward_backward_pipelining_without_interleaving",
    "forward_backward_pipelining_with_interleaving",
)


def virtual_micro_batches(micro_batches: int, chunks: int, group: int) -> list[tuple[int, int]]:
    """Micro-batch and chunk of every forward step, in the order in which each rank runs them.

    Backward steps follow the same order with the chunks reversed.
    """
    return [
        (micro_batch, chunk)
        for first in range(0, micro_batches, group)
        for chunk in range(chunks)
        for micro_batch in range(first, min(first + group, micro_batches))
    ]


def interleaved_lists(
    stages: int, micro_batches: int, chunks: int, group: int, extra_warm_up: int = 0
) -> list[list[dict[str, Any]]]:
    """Returns the computations of each stage, in Harpe's neutral form.

    ``group``: number of consecutive micro-batches of a chunk; ``extra_warm_up``: additional forward
    steps before the first backward step, such as 1 if the exchange of experts is overlapped.
    """
    order = virtual_micro_batches(micro_batches, chunks, group)
    lists = []
    for stage in range(stages):
        ahead = min(2 * (stages - 1 - stage) + (chunks - 1) * group + extra_warm_up, len(order))
        steps = []
        for k in range(len(order) + ahead):
            if k < len(order):
                micro_batch, chunk = order[k]
                steps.append({"op": "forward", "stage": chunk * stages + stage, "mb": micro_batch})
            if k >= ahead:
                micro_batch, chunk = order[k - ahead]
                part = (chunks - 1 - chunk) * stages + stage
                steps.append({"op": "backward", "stage": part, "mb": micro_batch})
        lists.append(steps)
    return lists


class Attached:
    """Megatron with Harpe attached. ``client`` is set once the first iteration has begun."""

    def __init__(self, schedules: Any, state: Any, options: Mapping[str, Any]) -> None:
        self.client: Client | None = None
        self._schedules = schedules
        self._state = state
        self._options = options
        self._steps: Steps | None = None
        self._failed = False
        self._owns_client = True
        self._undo = Undo()
        self._order: list[tuple[int, int]] = []
        self._chunks = 1
        self._forwards = self._backwards = 0

    def pause_if_requested(self, save: Callable[[], object] | None = None) -> bool:
        """Pauses if requested, after calling ``save``, such as ``lambda: save_checkpoint(iteration,
        model, optimizer, ...)``. Call it between iterations, on all ranks. Returns whether it
        paused."""
        return self.client is not None and self.client.pause_if_requested(save)

    def detach(self) -> None:
        """Restores Megatron, and closes the client if it was created here."""
        self._undo.all()
        if self._steps is not None:
            self._steps.end_iteration()
        if self.client is not None and self._owns_client:
            self.client.close()

    # --- The hooks --------------------------------------------------------------------------------

    def _wrap(self) -> None:
        for name, kind in (("forward_step", FORWARD), ("backward_step", BACKWARD)):
            function = getattr(self._schedules, name)
            self._undo.set(self._schedules, name, self._step(function, kind))
        for name in _SCHEDULES:
            function = getattr(self._schedules, name, None)
            if function is not None:
                self._undo.set(self._schedules, name, self._iteration(function))

    def _step(self, function: Callable[..., Any], kind: int) -> Callable[..., Any]:
        @functools.wraps(function)
        def step(*arguments: Any, **keywords: Any) -> Any:
            steps = self._steps
            if steps is None or not steps.training:
                return function(*arguments, **keywords)
            micro_batch, chunk = self._next(kind)
            steps.begin(kind, chunk, micro_batch)
            try:
                return function(*arguments, **keywords)
            finally:
                steps.end()

        return step

    def _next(self, kind: int) -> tuple[int, int]:
        """Returns micro-batch and chunk of the next step of that kind, which Megatron does not
        give."""
        if kind == FORWARD:
            k, self._forwards = self._forwards, self._forwards + 1
        else:
            k, self._backwards = self._backwards, self._backwards + 1
        if k >= len(self._order):
            return -1, 0
        micro_batch, chunk = self._order[k]
        return micro_batch, chunk if kind == FORWARD else self._chunks - 1 - chunk

    def _iteration(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def schedule(*arguments: Any, **keywords: Any) -> Any:
            steps = self._begin(keywords)
            if steps is None:
                return function(*arguments, **keywords)
            steps.begin_iteration()
            try:
                return function(*arguments, **keywords)
            finally:
                steps.end_iteration()

        return schedule

    def _begin(self, keywords: dict[str, Any]) -> Steps | None:
        """Returns None if nothing is to be reported: in evaluation, or without a client."""
        if self._failed or keywords.get("forward_only", False):
            return None
        try:
            micro_batches, chunks, group = self._sizes(keywords)
            self._order = virtual_micro_batches(micro_batches, chunks, group)
            self._chunks = chunks
            self._forwards = self._backwards = 0
            if self._steps is None:
                if self.client is None:
                    self.client = start_with(self._job(keywords, micro_batches, chunks, group))
                self._steps = Steps(recorder_for(self.client))
        except (Error, AttributeError, KeyError, TypeError, ValueError, AssertionError) as error:
            # Training has already begun, and continues.
            self._failed = True
            self._say_failed(error)
            return None
        return self._steps

    def _say_failed(self, error: Exception) -> None:
        """Reports an error, usually the same on all ranks: the first prints it, others log it for
        debugging."""
        if is_first_rank():
            print(
                f"harpe: training continues without Harpe: {error}. Correct this and start "
                "training again. Python's logger 'harpe' has the messages of other ranks at level "
                "DEBUG",
                file=sys.stderr,
            )
        else:
            logging.getLogger("harpe").debug("training continues without Harpe: %s", error)

    # --- The fields of the job --------------------------------------------------------------------

    def _sizes(self, keywords: dict[str, Any]) -> tuple[int, int, int]:
        """Returns the number of micro-batches, of chunks, and of consecutive micro-batches of a
        chunk."""
        micro_batches = int(keywords["num_microbatches"])
        model = keywords["model"]
        chunks = len(model) if isinstance(model, list) else 1
        stages = int(self._state.get_pipeline_model_parallel_world_size())
        group = stages if chunks > 1 else micro_batches
        if chunks > 1:
            config = getattr(_unwrapped(model[0]), "config", None)
            given = getattr(config, "microbatch_group_size_per_vp_stage", None)
            group = int(given) if given else stages
        return micro_batches, chunks, max(1, group)

    def _job(
        self, keywords: dict[str, Any], micro_batches: int, chunks: int, group: int
    ) -> dict[str, Any]:
        state = self._state
        stages = int(state.get_pipeline_model_parallel_world_size())
        tensor = int(state.get_tensor_model_parallel_world_size())
        shard = int(state.get_tensor_model_parallel_rank())
        # Ranks of a context group work in lock-step, as ranks of a tensor group do.
        context = max(1, int(state.get_context_parallel_world_size()))
        shard += tensor * (int(state.get_context_parallel_rank()) if context > 1 else 0)
        fields: dict[str, Any] = {
            "stages": stages,
            "data": int(state.get_data_parallel_world_size()),
            "tensor": tensor * context,
            "coordinates": (
                int(state.get_data_parallel_rank()),
                int(state.get_pipeline_model_parallel_rank()),
                shard,
            ),
        }
        if chunks > 1 and stages > 1:
            config = getattr(_unwrapped(keywords["model"][0]), "config", None)
            extra = int(bool(getattr(config, "overlap_moe_expert_parallel_comm", False)))
            fields["schedule"] = {
                "name": "interleaved-1f1b",
                "ranks": interleaved_lists(stages, micro_batches, chunks, group, extra),
                "placement": [part % stages for part in range(chunks * stages)],
            }
        else:
            fields.update(schedule="1f1b", micro_batches=micro_batches)
        fields.update(self._options)
        return fields


def attach(
    client: Client | None = None,
    *,
    schedules: Any = None,
    state: Any = None,
    **options: Unpack[StartOptions],
) -> Attached:
    """Reports all schedules that Megatron runs from now on to Harpe.

    :param client: a started client; by default one is created when the first iteration begins, from
        ``options`` (those of :func:`harpe.start`, which take precedence over values from Megatron)
    :param schedules: the module in place of ``megatron.core.pipeline_parallel.schedules``
    :param state: the module in place of ``megatron.core.parallel_state``

    Wrong options are detected when the first iteration begins: the job's first rank reports them on
    standard error, others at level DEBUG of the logger ``harpe``, and training continues without
    Harpe.
    """
    if schedules is None:
        schedules = importlib.import_module("megatron.core.pipeline_parallel.schedules")
    if state is None:
        state = importlib.import_module("megatron.core.parallel_state")
    for name in ("forward_step", "backward_step"):
        if not hasattr(schedules, name):
            raise InvalidInputError(f"this version of Megatron has no {name} to wrap")
    if client is not None and options:
        raise InvalidInputError(
            "options are for a client that is not there yet: give one or the other"
        )
    attached = Attached(schedules, state, options)
    attached.client = client
    attached._owns_client = client is None
    attached._wrap()
    return attached


def _unwrapped(module: Any) -> Any:
    """Returns a model without the wrappers of mixed precision and data parallelism."""
    while hasattr(module, "module"):
        module = module.module
    return module
