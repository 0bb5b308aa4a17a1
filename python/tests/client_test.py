"""The client as training uses it; the client is the real one, its server is not there."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import harpe
from harpe.client import KINDS

Start = Callable[..., Any]

anything = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(sorted(KINDS)),
    st.binary(max_size=5),
    st.lists(st.integers(-(2**70), 2**70), max_size=5),
    st.builds(object),
)


def iterate(client: Any, micro_batches: int = 4) -> None:
    """Runs one iteration of stage 0 of 2 in 1F1B."""
    with client.iteration():
        with client.forward(micro_batch=0):
            pass
        for micro_batch in range(micro_batches):
            if micro_batch + 1 < micro_batches:
                with client.forward(micro_batch=micro_batch + 1):
                    pass
            with client.backward(micro_batch=micro_batch):
                pass


def test_instructions_are_followed(start: Start) -> None:
    client = start()
    for _ in range(3):
        iterate(client)
    counts = client.counts()
    assert counts.iterations == 3
    assert counts.instructions == 24
    assert counts.unexpected == counts.unknown == counts.events_lost == 0


def test_numbers_of_micro_batches_may_be_left_out(start: Start) -> None:
    client = start()
    for kind in ("forward", "forward", "backward", "forward", "backward"):
        client.on_instruction_begin(kind)
        client.on_instruction_end()
    assert client.counts().unexpected == 0
    client.on_instruction_begin("backward")
    assert client.counts().unexpected == 1
    client.on_instruction_begin("weight")
    assert client.counts().unknown == 1


def test_kinds_may_be_words_numbers_and_keywords(start: Start) -> None:
    client = start()
    client.on_instruction_begin("forward", 0, 0)
    client.on_instruction_begin(KINDS["forward"], chunk=0, micro_batch=1)
    client.on_instruction_begin(kind="backward", micro_batch=0)
    with client.instruction("forward", micro_batch=2):
        pass
    assert client.counts().instructions == 4
    assert client.counts().unexpected == 0


def test_all_kinds_have_names() -> None:
    assert sorted(KINDS.values()) == list(range(len(KINDS)))
    assert {"forward", "backward", "weight", "recompute", "forward_backward"} <= set(KINDS)


def test_an_exception_passes_through_and_ends_its_instruction(start: Start) -> None:
    client = start()
    with pytest.raises(ZeroDivisionError):
        with client.iteration(), client.forward():
            raise ZeroDivisionError
    iterate(client)
    assert client.counts().instructions == 9


def test_iterations_are_counted_from_the_last_number_told(start: Start) -> None:
    client = start()
    with client.iteration(7) as number:
        assert number == 7
    with client.iteration() as number:
        assert number == 8


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(anything, max_size=5),
    st.dictionaries(st.sampled_from(["kind", "chunk", "micro_batch", "other"]), anything),
)
def test_nothing_raises_into_training(
    start: Start, arguments: list[Any], keywords: dict[str, Any]
) -> None:
    client = getattr(test_nothing_raises_into_training, "client", None)
    if client is None or client.closed:
        client = test_nothing_raises_into_training.client = start()  # type: ignore[attr-defined]
    assert client.on_instruction_begin(*arguments, **keywords) is None
    for argument in arguments:
        assert client.on_iteration_begin(argument) is None
        assert client.on_iteration_end(argument) is None
    client.on_instruction_end()


def test_misuse_is_told_once(start: Start, capfd: pytest.CaptureFixture[str]) -> None:
    client = start()
    for _ in range(3):
        client.on_instruction_begin("fordward")
        client.on_iteration_begin(-5)
        client.on_iteration_end([1, 2, 3])
    ignored = [line for line in client.events() if "ignored" in line]
    assert len(ignored) == 1
    assert "'fordward' is no instruction" in ignored[0]
    assert capfd.readouterr().err.count("ignored") == 1
    assert client.counts().instructions == 0


def test_a_server_that_is_not_there_is_told_once_and_hinders_nobody(start: Start) -> None:
    client = start()
    end = time.monotonic() + 5
    while not any("cannot register" in line for line in client.events()):
        assert time.monotonic() < end
        time.sleep(0.01)
    for _ in range(20):
        iterate(client)
    assert not client.registered
    assert sum("cannot register" in line for line in client.events()) == 1


def test_without_a_server_the_client_does_nothing() -> None:
    with harpe.start() as client:
        iterate(client)
        assert client.counts() == harpe.Counts(*[0] * 10)
        assert "HARPE_SERVER" in client.events()[0]


def test_a_closed_client_takes_calls_and_remembers_counts(start: Start) -> None:
    client = start()
    iterate(client)
    counts = client.counts()
    assert not client.closed
    client.close()
    client.close()
    assert client.closed
    iterate(client)
    client.on_iteration_end([1, 2])
    assert client.counts() == counts
    assert not client.registered


class _Plan(BaseHTTPRequestHandler):
    """A server with one plan, whose instructions have a label."""

    body = (
        b'{"assignments": [{"version": 1, "from_iteration": 0, "purpose": "plan", '
        b'"clocks_mhz": [1200], "knobs": [{"label": "sm12"}], "knobs_of": [0]}]}'
    )

    def _response(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    do_GET = do_PUT = do_POST = _response  # noqa: N815

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@contextmanager
def _serving(plan: type[_Plan]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), plan) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def _labels_until_the_plan_is_heard(client: harpe.Client) -> set[str]:
    """Returns the labels of instructions of iteration 0, until the plan's label appears."""
    labels: set[str] = set()
    end = time.monotonic() + 10
    while "sm12" not in labels and time.monotonic() < end:
        with client.iteration(0), client.forward(micro_batch=0):
            labels.add(client.label)
    assert "sm12" in labels
    return labels


def test_labels_of_the_plan_are_handed_to_training(start: Start) -> None:
    with _serving(_Plan) as server:
        client = start(server=server)
        assert client.label == ""
        assert _labels_until_the_plan_is_heard(client) <= {"", "sm12"}
        client.close()
        assert client.label == ""


class _Pause(_Plan):
    """A server that requests a pause before iteration 3."""

    body = (
        b'{"assignments": [{"version": 1, "from_iteration": 0, "purpose": "all_max", '
        b'"clocks_mhz": [1200], "knobs": [{"label": "sm12"}], "knobs_of": [0]}, '
        b'{"version": 2, "from_iteration": 3, "purpose": "all_max", '
        b'"clocks_mhz": [1200], "pause": {"number": 1, "until": 1800000000, "why": "dirty"}}]}'
    )


def test_training_pauses_where_it_is_asked_to(start: Start) -> None:
    with _serving(_Pause) as server:
        client = start(server=server)
        _labels_until_the_plan_is_heard(client)
        assert client.pause_requested(2) is None
        pause = client.pause_requested(3)
        assert pause is not None
        assert pause.reason == "dirty"
        assert pause.until == datetime(2027, 1, 15, 8, tzinfo=timezone.utc)
        told: list[bool] = []

        def not_all(asked: bool) -> bool:
            told.append(asked)
            return False

        save = lambda: told.append(True)  # noqa: E731
        assert not client.pause_if_requested(save, iteration=3, agree=not_all)
        assert told == [True], "others are not asked, so nothing is saved"
        assert client.pause_requested(3) is not None
        assert not client.wait_for_resume(timeout=0)
        assert not client.wait_for_resume(timeout=0.01)
        assert client.pause_requested(4) is None, "it was followed"
        assert client.wait_for_resume()
        saved: list[int] = []
        assert not client.pause_if_requested(lambda: saved.append(5), iteration=5)
        assert saved == []
        client.close()
        assert client.pause_requested() is None
        assert client.wait_for_resume()


def test_wrong_options_are_all_told_at_once() -> None:
    with pytest.raises(harpe.InvalidInputError) as caught:
        harpe.start(server="http://127.0.0.1:9", job="a b", schedule="2f2b", stages=2)
    said = str(caught.value)
    assert caught.value.code == "invalid_input"
    assert isinstance(caught.value, ValueError)
    assert "schedule" in said or "micro_batches" in said


def test_what_is_wrong_is_told_without_places_in_json_that_nobody_wrote() -> None:
    with pytest.raises(harpe.InvalidInputError) as caught:
        harpe.start(server="http://127.0.0.1:9", job="a", schedule="1f1b", micro_batches="four")  # type: ignore[arg-type]
    assert "options:" not in str(caught.value)
    assert [line for line in str(caught.value).splitlines() if "micro_batches" in line] == [
        "micro_batches: expected an integer"
    ]


@pytest.mark.parametrize("coordinates", [(0, 2, 0), (1, 0, 0), (0, 0, 1)])
def test_a_place_outside_of_the_job_is_refused(
    start: Start, coordinates: tuple[int, int, int]
) -> None:
    with pytest.raises(harpe.InvalidInputError, match="no rank of a job"):
        start(coordinates=coordinates)


def test_the_environment_says_what_arguments_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "HARPE_SERVER": "http://127.0.0.1:9",
        "HARPE_JOB": "gpt3",
        "HARPE_CLOCK_SOCKET": "",
        "HARPE_SCHEDULE": "1f1b",
        "HARPE_STAGES": "2",
        "HARPE_MICRO_BATCHES": "4",
        "RANK": "0",
    }.items():
        monkeypatch.setenv(name, value)
    with harpe.start() as client:
        iterate(client)
        assert client.counts().instructions == 8
        assert client.counts().unexpected == 0


def test_the_built_type_cannot_be_started_twice_or_without_options(start: Start) -> None:
    from harpe._client import Failure, RankClient

    client = start()
    with pytest.raises(RuntimeError):
        client.__init__("{}")
    with pytest.raises(TypeError):
        RankClient()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        RankClient("{}", x=1)  # type: ignore[call-arg]
    with pytest.raises(Failure):
        RankClient("[")
    # An object whose construction failed is safe to use.
    empty = RankClient.__new__(RankClient)
    empty.on_instruction_begin("forward")
    empty.on_iteration_end()
    empty.close()
    assert empty.closed
    assert empty.events() == []


def test_clients_go_when_nobody_holds_them(start: Start) -> None:
    before = threads()
    for _ in range(3):
        iterate(
            harpe.start(
                server="http://127.0.0.1:9",
                job="test",
                clock_socket="",
                schedule="1f1b",
                stages=2,
                micro_batches=4,
                coordinates=(0, 0, 0),
            )
        )
    gc.collect()
    assert threads() == before


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def run(package: Path, code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    start = (
        "import os, sys, time; import harpe\n"
        "client = harpe.start(server='http://127.0.0.1:9', job='x', clock_socket='', "
        "schedule='1f1b', stages=1, micro_batches=2)\n"
    )
    return subprocess.run(
        [sys.executable, "-c", start + code],
        env={**os.environ, "PYTHONPATH": str(package.parent), **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_an_interpreter_ends_with_a_client_open(package: Path) -> None:
    begun = time.monotonic()
    done = run(package, "client.on_instruction_begin('forward')")
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - begun < 20


def test_a_forked_child_leaves_the_parents_client_alone(package: Path) -> None:
    code = """
client.on_instruction_begin("forward")
child = os.fork()
if child == 0:
    client.on_instruction_begin("backward")
    client.on_instruction_end()
    sys.exit(0 if client.closed and client.counts().instructions == 1 else 1)
assert os.waitpid(child, 0)[1] == 0
client.on_instruction_end()
client.on_instruction_begin("backward")
assert not client.closed and client.counts().instructions == 2
"""
    done = run(package, code)
    assert done.returncode == 0, done.stderr
