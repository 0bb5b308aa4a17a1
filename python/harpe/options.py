"""What a rank says to its client, put together from arguments and launchers' variables."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from .errors import InvalidInputError

__all__ = ["CLIENT_OPTIONS", "SPEC_FIELDS", "StartOptions", "client_options"]

RankCoordinates = Sequence[int] | Mapping[str, int]
PerStage = float | Sequence[float]
"""One number for all stages, or one for each."""


class RankOptions(TypedDict, total=False):
    """Options of this rank, with the addresses of server and agent."""

    server: str | None
    token: str | None
    token_file: str | os.PathLike[str] | None
    ca_file: str | os.PathLike[str] | None
    job: str | None
    run: str | None
    take_over: bool | None
    observe: bool | None
    coordinates: RankCoordinates | None
    clock_socket: str | os.PathLike[str] | None
    gpu: int | None
    lease_s: float | None
    patience_s: float | None
    look_ahead_s: float | None


class JobOptions(TypedDict, total=False):
    """Options of the job, the same on all ranks: members of a specification (docs/openapi.yaml)."""

    name: str | None
    data: int | None
    stages: int | None
    tensor: int | None
    schedule: str | Mapping[str, Any] | None
    micro_batches: int | None
    chunks: int | None
    transfers: Mapping[str, Any] | None
    load_s: PerStage | None
    reduce_s: PerStage | None
    optimizer_s: PerStage | None
    fit: bool | None
    blocking_power_w: PerStage | None
    switch_latency_s: float | str | None
    min_dwell_s: float | None
    plans: int | None
    profiling: Mapping[str, Any] | None
    objective: Mapping[str, Any] | None
    carbon: Mapping[str, Any] | None
    cluster: Mapping[str, Any] | None
    profile: str | None


class StartOptions(RankOptions, JobOptions, total=False):
    """All options of :func:`harpe.start` and every ``attach``."""


CLIENT_OPTIONS = tuple(RankOptions.__annotations__)
SPEC_FIELDS = tuple(JobOptions.__annotations__)


def launched_job(environment: Mapping[str, str]) -> str | None:
    """Returns the launcher's name for the job, the same on all ranks and at every restart."""
    if environment.get("SLURM_JOB_ID"):
        return f"slurm-{environment['SLURM_JOB_ID']}"
    run = environment.get("TORCHELASTIC_RUN_ID", "")
    # torchrun's default is not a name.
    return None if run in ("", "none") else _id_of(run)


def launched_run(environment: Mapping[str, str]) -> str | None:
    """Returns a name for this start of training, the same on all ranks, even if the launcher has
    replaced a node.

    The server distinguishes starts with one name by their processes: other processes are another
    start. torchrun's count of restarts is therefore not included; each node has its own count.
    """
    run = environment.get("TORCHELASTIC_RUN_ID", "")
    slurm = environment.get("SLURM_JOB_ID", "")
    parts = [] if run in ("", "none") else [run]
    if slurm:
        parts.append(f"{slurm}.{environment.get('SLURM_RESTART_COUNT') or 0}")
    return ".".join(parts)[:256] or None


def _id_of(text: str) -> str:
    """Replaces characters that ids may not contain."""
    allowed = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in text)
    return allowed[:128]


def _coordinates(coordinates: RankCoordinates) -> dict[str, int]:
    names = ("data", "stage", "tensor")
    if isinstance(coordinates, Mapping):
        unknown = sorted(set(coordinates) - set(names))
        if unknown:
            raise InvalidInputError(
                f"rank coordinates have data, stage and tensor, and no {unknown[0]!r}"
            )
        return {name: int(coordinates.get(name, 0)) for name in names}
    numbers = [int(number) for number in coordinates]
    if len(numbers) != 3:
        raise InvalidInputError(
            f"rank coordinates are (data, stage, tensor), not {tuple(coordinates)!r}"
        )
    return dict(zip(names, numbers, strict=True))


def _plain(value: Any) -> Any:
    """Converts paths to texts, for JSON."""
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def client_options(environment: Mapping[str, str] | None = None, **given: Any) -> str:
    """Returns options as the text that ``RankClient`` accepts; ``None`` means not given.

    The client itself reads Harpe's variables for options that are neither given nor set by the
    launcher (docs/python.md).
    """
    variables = os.environ if environment is None else environment
    options: dict[str, Any] = {}
    spec: dict[str, Any] = {}
    for name, value in given.items():
        if name not in CLIENT_OPTIONS and name not in SPEC_FIELDS:
            known = ", ".join(CLIENT_OPTIONS + SPEC_FIELDS)
            raise InvalidInputError(f"there is no option {name!r}; there are {known}")
        if value is None:
            continue
        if name == "coordinates":
            options.update(_coordinates(value))
        elif name in SPEC_FIELDS:
            spec[name] = _plain(value)
        else:
            options[name] = _plain(value)
    if spec:
        options["spec"] = spec
    for name, variable, launched in (
        ("job", "HARPE_JOB", launched_job),
        ("run", "HARPE_RUN", launched_run),
    ):
        if name not in options and not variables.get(variable):
            found = launched(variables)
            if found:
                options[name] = found
    try:
        return json.dumps(options, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"an option cannot be given to the client: {error}") from None
