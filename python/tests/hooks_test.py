"""What all hooks share: whatever frameworks do, the client is called in a well-formed order."""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harpe.hooks import BACKWARD, FORWARD, Steps, Undo


class Story:
    """A recorder that checks its calls."""

    def __init__(self) -> None:
        self.instructions: list[tuple[int, int, int]] = []
        self.iterations: list[int] = []
        self.in_iteration = self.in_instruction = False

    def begin(self, kind: int, chunk: int, micro_batch: int) -> None:
        assert self.in_iteration
        assert not self.in_instruction
        self.in_instruction = True
        self.instructions.append((kind, chunk, micro_batch))

    def end(self) -> None:
        assert self.in_instruction
        self.in_instruction = False

    def iteration_begin(self, number: int) -> None:
        assert not self.in_instruction
        self.in_iteration = True
        self.iterations.append(number)

    def iteration_end(self) -> None:
        assert self.in_iteration
        assert not self.in_instruction
        self.in_iteration = False


calls = st.sampled_from(
    ["begin_iteration", "end_iteration", "begin", "end", "end_open", "call", "fail", "open"]
)


@given(st.lists(calls))
def test_the_story_is_well_formed_whatever_happens(calls: list[str]) -> None:
    story = Story()
    steps = Steps(story)

    def fail() -> None:
        raise ZeroDivisionError

    functions = {
        "call": steps.around(lambda: steps.around(lambda: 5, BACKWARD)(), FORWARD),
        "fail": steps.around(fail, FORWARD),
        "open": steps.around(lambda: 5, FORWARD, leave_open=True),
    }
    for call in calls:
        if call == "begin":
            steps.begin(FORWARD)
        elif call == "fail":
            with pytest.raises(ZeroDivisionError):
                functions[call]()
        elif call in functions:
            assert functions[call]() == 5
        else:
            getattr(steps, call)()
    steps.end_iteration()
    assert not story.in_iteration
    assert story.iterations == list(range(len(story.iterations)))


def test_outside_of_iterations_nothing_is_told() -> None:
    story = Story()
    steps = Steps(story)
    steps.around(lambda: None, FORWARD)()
    assert story.instructions == []


def test_numbers_are_looked_up_in_arguments_and_may_be_unknown() -> None:
    story = Story()
    steps = Steps(story)
    steps.begin_iteration()
    chunk_of = {"a": 1}
    function = steps.around(
        lambda name, number=0: None,
        FORWARD,
        lambda name, number=0: chunk_of[name],
        lambda name, number=0: number,
    )
    function("a", 3)
    function("a", number=4)
    function("b", 5)
    assert story.instructions == [(FORWARD, 1, 3), (FORWARD, 1, 4), (FORWARD, 0, 5)]


def test_a_part_of_an_instruction_is_no_instruction() -> None:
    story = Story()
    steps = Steps(story)
    steps.begin_iteration()
    inner = steps.around(lambda: None, BACKWARD)
    steps.around(lambda: (inner(), inner()), FORWARD)()
    assert story.instructions == [(FORWARD, 0, -1)]


class Owner:
    def method(self) -> str:
        return "own"


def test_what_was_replaced_is_put_back() -> None:
    owner: Any = Owner()
    undo = Undo()
    undo.set(owner, "method", lambda: "first")
    undo.set(owner, "method", lambda: "second")
    undo.set(owner, "other", 1)
    assert owner.method() == "second"
    undo.all()
    assert owner.method() == "own"
    assert vars(owner) == {}
    undo.all()


def test_what_somebody_else_has_put_there_is_left() -> None:
    owner: Any = Owner()
    undo = Undo()
    undo.set(owner, "method", lambda: "harpe")
    owner.method = lambda: "theirs"
    undo.all()
    assert owner.method() == "theirs"


class Asked:
    """A client with pause requests before some steps."""

    def __init__(self, *asked: bool) -> None:
        self.asked = list(asked)
        self.calls: list[str] = []

    def pause_requested(self) -> object:
        return self.asked.pop(0) or None

    def wait_for_resume(self) -> bool:
        self.calls.append("wait")
        return True


def test_a_trainer_saves_and_waits_where_it_is_asked_to_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stand_in = types.ModuleType("transformers")
    stand_in.__dict__["TrainerCallback"] = object
    monkeypatch.setitem(sys.modules, "transformers", stand_in)
    monkeypatch.delitem(sys.modules, "harpe.huggingface", raising=False)
    huggingface = importlib.import_module("harpe.huggingface")
    client = Asked(False, True, False)
    callback: Any = huggingface.HarpeCallback(Steps(Story()), client)
    control = types.SimpleNamespace(should_save=False)
    for _ in range(3):
        callback.on_step_begin(None, None, control)
        client.calls.append("step")
        callback.on_step_end(None, None, control)
        if control.should_save:
            client.calls.append("save")
            control.should_save = False
    assert client.calls == ["step", "step", "save", "wait", "step"]
    monkeypatch.delitem(sys.modules, "harpe.huggingface")
