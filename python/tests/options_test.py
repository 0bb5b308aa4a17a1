"""Options, from arguments and launchers' variables."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import harpe
from harpe.options import CLIENT_OPTIONS, SPEC_FIELDS, client_options, launched_job, launched_run

values = st.one_of(st.text(max_size=20), st.integers(-10, 10), st.floats(0, 10), st.booleans())
names = st.sampled_from([name for name in CLIENT_OPTIONS + SPEC_FIELDS if name != "coordinates"])


def passed_on(environment: dict[str, str] | None = None, **options: Any) -> dict[str, Any]:
    text: dict[str, Any] = json.loads(client_options(environment or {}, **options))
    return text


@given(st.dictionaries(names, st.none() | values))
def test_what_is_given_is_passed_on_as_it_is_and_where_it_belongs(options: dict[str, Any]) -> None:
    text = passed_on(**options)
    spec = text.pop("spec", {})
    assert {**text, **spec} == {name: value for name, value in options.items() if value is not None}
    assert set(spec) <= set(SPEC_FIELDS)
    assert set(text) <= set(CLIENT_OPTIONS)


@given(st.tuples(*[st.integers(0, 99)] * 3))
def test_a_place_is_three_numbers_or_their_names(coordinates: tuple[int, int, int]) -> None:
    names = dict(zip(("data", "stage", "tensor"), coordinates, strict=True))
    assert (
        passed_on(coordinates=coordinates)
        == passed_on(coordinates=list(coordinates))
        == passed_on(coordinates=names)
        == names
    )


@pytest.mark.parametrize("coordinates", [(1, 2), (1, 2, 3, 4), {"pipeline": 1}])
def test_other_places_are_refused(coordinates: Any) -> None:
    with pytest.raises(harpe.InvalidInputError):
        client_options({}, coordinates=coordinates)


def test_start_has_a_parameter_for_each_option() -> None:
    parameters = inspect.signature(harpe.start).parameters
    assert list(parameters) == [*CLIENT_OPTIONS, *SPEC_FIELDS]
    assert all(one.kind is one.KEYWORD_ONLY and one.default is None for one in parameters.values())


def test_an_unknown_option_is_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(harpe.InvalidInputError, match="micro_batches"):
        client_options({}, microbatches=3)


@pytest.mark.parametrize("value", [float("nan"), object(), {"x": {1, 2}}])
def test_what_is_no_json_is_refused(value: Any) -> None:
    with pytest.raises(harpe.InvalidInputError):
        client_options({}, objective=value)


def test_paths_are_texts() -> None:
    assert passed_on(clock_socket=Path("/run/x"))["clock_socket"] == "/run/x"


# Launchers.


@given(st.text(min_size=1).filter(lambda text: text != "none"))
def test_a_launchers_name_makes_an_id_that_a_job_may_have(run: str) -> None:
    job = launched_job({"TORCHELASTIC_RUN_ID": run})
    assert job is not None
    assert re.fullmatch(r"[A-Za-z0-9._-]{1,128}", job)


def test_a_job_is_named_by_its_launcher_unless_somebody_else_does() -> None:
    slurm = {"SLURM_JOB_ID": "77"}
    assert passed_on(slurm)["job"] == "slurm-77"
    assert passed_on(slurm, job="mine")["job"] == "mine"
    # The client itself reads this variable.
    assert "job" not in passed_on({**slurm, "HARPE_JOB": "theirs"})
    assert "job" not in passed_on({"TORCHELASTIC_RUN_ID": "none"})
    assert "job" not in passed_on({})


def test_all_ranks_of_a_start_have_the_same_name_whatever_node_they_are_on() -> None:
    torchrun = {"TORCHELASTIC_RUN_ID": "abc", "SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "1"}
    # An agent that joins later, to replace a lost node, counts its own restarts.
    runs = {launched_run({**torchrun, "TORCHELASTIC_RESTART_COUNT": str(i)}) for i in range(3)}
    assert runs == {"abc.7.1"}
    assert launched_run({"TORCHELASTIC_RUN_ID": "abc"}) == "abc"


def test_requeued_jobs_of_slurm_are_told_apart() -> None:
    names = [
        launched_run({"SLURM_JOB_ID": job, **({"SLURM_RESTART_COUNT": count} if count else {})})
        for job, count in (("7", ""), ("7", "1"), ("7", "2"), ("8", ""))
    ]
    assert names == ["7.0", "7.1", "7.2", "8.0"]
    # torchrun's default is not a name.
    assert launched_run({"TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_RESTART_COUNT": "0"}) is None
    assert launched_run({}) is None
