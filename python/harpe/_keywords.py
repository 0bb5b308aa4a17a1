"""Keyword arguments that a function does not have, and which of its own was probably meant."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# Other names of the same quantity, without underscores: from frameworks, from options, without
# units.
_ELSEWHERE = {
    "batches": "micro_batches",
    "nummicrobatches": "micro_batches",
    "gradientaccumulationsteps": "micro_batches",
    "pipelinestages": "stages",
    "numstages": "stages",
    "virtualstages": "chunks",
    "tensor": "gpus_per_stage",
    "tensorparallel": "gpus_per_stage",
    "deadline": "deadline_s",
    "straggler": "straggler_s",
    "powercap": "power_cap_w",
    "switchlatency": "switch_latency_s",
    "latency": "switch_latency_s",
    "searchtime": "search_time_s",
    "load": "load_s",
    "reduce": "reduce_s",
    "optimizer": "optimizer_s",
}


def guesses_keywords(function: Callable[P, T]) -> Callable[P, T]:
    """Wraps a function so that its TypeError for an unknown keyword argument names the likely
    one."""
    known = tuple(inspect.signature(function).parameters)

    @functools.wraps(function)
    def checked(*arguments: P.args, **named: P.kwargs) -> T:
        unknown = next((name for name in named if name not in known), None)
        if unknown is None:
            return function(*arguments, **named)
        likely = _likely(unknown, known)
        raise TypeError(
            f"{function.__name__}() got an unexpected keyword argument {unknown!r}"
            + (f"; did you mean {likely!r}?" if likely else "")
        )

    return checked


def _likely(unknown: str, known: tuple[str, ...]) -> str | None:
    bare = _bare(unknown)
    for name in known:
        if _bare(name) == bare:
            return name
    if _ELSEWHERE.get(bare) in known:
        return _ELSEWHERE[bare]
    near = difflib.get_close_matches(unknown, known, n=1, cutoff=0.7)
    return near[0] if near else None


def _bare(name: str) -> str:
    return name.lower().replace("_", "")
