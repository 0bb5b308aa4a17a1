"""What the hooks into frameworks share: no instruction within another, none left open, and nothing
of Harpe's that raises into training."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from typing import Any

from .client import KINDS, Client, start_with
from .errors import InvalidInputError
from .streams import Recorder

__all__ = [
    "BACKWARD",
    "FORWARD",
    "FORWARD_BACKWARD",
    "WEIGHT",
    "Attached",
    "Steps",
    "Undo",
    "client_for",
]

FORWARD = KINDS["forward"]
BACKWARD = KINDS["backward"]
WEIGHT = KINDS["weight"]
FORWARD_BACKWARD = KINDS["forward_backward"]


class Steps:
    """Follows training through iterations and instructions."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._next_iteration = 0
        self._open = False
        self.training = False
        """Within an iteration. Outside of one, as in evaluation, nothing is reported."""

    def begin_iteration(self) -> None:
        self.end()
        self.training = True
        self._recorder.iteration_begin(self._next_iteration)
        self._next_iteration += 1

    def end_iteration(self) -> None:
        if not self.training:
            return
        self.end()
        self.training = False
        self._recorder.iteration_end()

    def begin(self, kind: int, chunk: int = 0, micro_batch: int = -1) -> None:
        """Begins an instruction, and ends the open one."""
        if not self.training:
            return
        self.end()
        self._open = True
        self._recorder.begin(kind, chunk, micro_batch)

    def end(self) -> None:
        if self._open:
            self._open = False
            self._recorder.end()

    def end_open(self) -> None:
        """Ends an instruction that was left open, unless the call is part of another
        instruction."""
        if not self._within:
            self.end()

    def around(
        self,
        function: Callable[..., Any],
        kind: int,
        chunk: Callable[..., int] | int = 0,
        micro_batch: Callable[..., int] | int = -1,
        *,
        leave_open: bool = False,
    ) -> Callable[..., Any]:
        """Returns the function wrapped as an instruction. ``chunk`` and ``micro_batch`` may be
        computed from its arguments. A call within another instruction is part of that instruction.

        ``leave_open``: more of the instruction follows; the hook that ends it calls :meth:`end`.
        """

        @functools.wraps(function)
        def instruction(*arguments: Any, **keywords: Any) -> Any:
            if not self.training or self._within:
                return function(*arguments, **keywords)
            self.begin(
                kind,
                _of(chunk, arguments, keywords, 0),
                _of(micro_batch, arguments, keywords, -1),
            )
            self._within = True
            whole = False
            try:
                result = function(*arguments, **keywords)
                whole = leave_open
                return result
            finally:
                self._within = False
                if not whole:
                    self.end()

        return instruction

    _within = False


def _of(
    value: Callable[..., int] | int,
    arguments: tuple[Any, ...],
    keywords: dict[str, Any],
    unknown: int,
) -> int:
    if not callable(value):
        return value
    try:
        return value(*arguments, **keywords)
    except Exception:
        # Another version passes other arguments: the value is then unknown.
        return unknown


def client_for(
    client: Client | None, options: Mapping[str, Any], fields: Callable[[], dict[str, Any]]
) -> tuple[Client, bool]:
    """Returns the given client, or a new one from the framework's fields, overridden by options;
    and whether it is new."""
    if client is None:
        return start_with({**fields(), **options}), True
    if options:
        raise InvalidInputError(
            "options are for a client that is not there yet: give one or the other"
        )
    return client, False


def is_first_rank() -> bool:
    """Returns whether the launcher's variables mark this process as the first; True without any."""
    for name in ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"):
        if os.environ.get(name):
            return os.environ[name] == "0"
    return True


def _drop(owner: Any, name: str, value: Any) -> None:
    """Deletes an attribute, unless other code has replaced it."""
    if vars(owner).get(name) is value:
        delattr(owner, name)


class Undo:
    """Changes to restore at the end."""

    def __init__(self) -> None:
        self._calls: list[Callable[[], Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Sets an attribute until the end."""
        own = vars(owner)
        if name in own:
            self._calls.append(functools.partial(setattr, owner, name, own[name]))
        else:
            self._calls.append(functools.partial(_drop, owner, name, value))
        setattr(owner, name, value)

    def call(self, function: Callable[[], Any]) -> None:
        """Registers another call for the end."""
        self._calls.append(function)

    def all(self) -> None:
        while self._calls:
            self._calls.pop()()


class Attached:
    """A framework with Harpe attached; ``client`` reports to the server."""

    def __init__(self, client: Client, steps: Steps, undo: Undo, *, owns_client: bool) -> None:
        self.client = client
        self._steps = steps
        self._undo = undo
        self._owns_client = owns_client

    def pause_if_requested(self, save: Callable[[], object] | None = None) -> bool:
        """See :meth:`harpe.client.Client.pause_if_requested`."""
        return self.client.pause_if_requested(save)

    def detach(self) -> None:
        """Restores the framework, and closes the client if ``attach`` created it."""
        self._undo.all()
        self._steps.end_iteration()
        if self._owns_client:
            self.client.close()
