"""The hooks on stand-ins that call as the frameworks do. What they announce goes to the real
client, which compares every instruction with the schedule that the hook has given it.

The frameworks themselves: ``*_real_test.py``."""

from __future__ import annotations

import enum
import sys
import types
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import harpe
import harpe.deepspeed
import harpe.megatron
import harpe.torch_pipelining
from harpe.megatron import interleaved_lists, virtual_micro_batches

OPTIONS: dict[str, Any] = {"server": "http://127.0.0.1:9", "job": "test", "clock_socket": ""}


def is_followed(client: harpe.Client, instructions: int, iterations: int) -> None:
    counts = client.counts()
    assert counts.iterations == iterations
    assert counts.instructions == instructions
    assert counts.unexpected == counts.unknown == counts.events_lost == 0


# --- PyTorch pipelining ---------------------------------------------------------------------------


class Kind(enum.Enum):
    FORWARD = "F"
    FULL_BACKWARD = "B"
    BACKWARD_INPUT = "I"
    BACKWARD_WEIGHT = "W"
    OVERLAP_F_B = "OVERLAP_F_B"
    SEND_F = "SEND_F"


class Action(NamedTuple):
    stage_index: int
    computation_type: Kind
    microbatch_index: int | None = None
    sub_actions: tuple[Any, ...] | None = None


class Stage:
    def __init__(self, stage_index: int, num_stages: int, group_rank: int, group_size: int) -> None:
        self.stage_index, self.num_stages = stage_index, num_stages
        self.group_rank, self.group_size = group_rank, group_size
        self.is_last = stage_index == num_stages - 1
        self.ran: list[str] = []

    def forward_one_chunk(self, fwd_chunk_id: int, args: Any = (), kwargs: Any = None) -> str:
        self.ran.append(f"F{fwd_chunk_id}")
        return "output"

    def backward_one_chunk(
        self,
        bwd_chunk_id: int,
        loss: Any = None,
        full_backward: bool = True,
        last_backward: bool = False,
    ) -> None:
        self.ran.append(f"{'B' if full_backward else 'I'}{bwd_chunk_id}")

    def backward_weight_one_chunk(self, bwd_chunk_id: int, last_backward: bool = False) -> None:
        self.ran.append(f"W{bwd_chunk_id}")


class Runtime:
    """Runs a list of actions like PyTorch's runtime."""

    def __init__(
        self, stages: list[Stage], micro_batches: int, order: Any, loss: Any = None
    ) -> None:
        self._stages, self._n_microbatches, self.pipeline_order = stages, micro_batches, order
        self._comp_type_to_function_map: dict[Kind, Any] = {}
        self._has_backward, self._loss_fn = True, loss
        self.losses = 0

    def register_custom_function(self, kind: Kind, function: Any) -> None:
        self._comp_type_to_function_map[kind] = function

    def _maybe_compute_loss(self, stage: Stage, output: str) -> None:
        if stage.is_last and self._loss_fn is not None:
            self.losses += 1
            self._loss_fn()

    def perform(self, action: Action) -> None:
        stage = next(s for s in self._stages if s.stage_index == action.stage_index)
        number = action.microbatch_index
        assert number is not None
        if action.computation_type is Kind.FORWARD:
            output = stage.forward_one_chunk(number, (), {})
            self._maybe_compute_loss(stage, output)
        elif action.computation_type is Kind.BACKWARD_WEIGHT:
            stage.backward_weight_one_chunk(number, last_backward=False)
        elif self._has_backward:
            full = action.computation_type is Kind.FULL_BACKWARD
            stage.backward_one_chunk(number, loss=None, full_backward=full)

    def step(self) -> None:
        for action in self.pipeline_order[self._stages[0].group_rank]:
            if action is None:
                continue
            custom = self._comp_type_to_function_map.get(action.computation_type)
            if custom is not None:
                custom(action, None)
            elif action.sub_actions:
                for part in action.sub_actions:
                    self.perform(part)
            else:
                self.perform(action)

    def eval(self) -> None:
        self._has_backward = False
        self.step()
        self._has_backward = True


def order_of(text: str, ranks: int = 1) -> dict[int, list[Any]]:
    """Returns the order of a text such as "0F0 1F0 (0F1;1B0) 1B1", for one rank."""

    def action(word: str) -> Action:
        if word.startswith("("):
            parts = tuple(action(part) for part in word[1:-1].split(";"))
            return Action(-1, Kind.OVERLAP_F_B, None, parts)
        return Action(int(word[0]), Kind(word[1]), int(word[2:]))

    return {rank: [None, *map(action, text.split())] for rank in range(ranks)}


OVERLAPPED = "0F0 0F1 1F0 (1F1;1B0) (0F2;0B0) (1F2;1B1) 0B1 1B2 0B2"


@pytest.mark.parametrize(
    ("text", "computations"),
    [
        ("0F0 0F1 1F0 1B0 1F1 1B1 0B0 0B1", 8),
        ("0F0 0F1 1F0 1I0 1F1 1I1 1W0 0I0 0W0 1W1 0I1 0W1", 12),
        (OVERLAPPED, 12),
    ],
)
def test_a_runtime_schedule_is_followed(text: str, computations: int) -> None:
    order = order_of(text)
    micro_batches = 1 + max(int(word[-1]) for word in text.replace(")", "").split())
    stages = [Stage(0, 2, 0, 1), Stage(1, 2, 0, 1)]
    # The order of stages does not matter.
    schedule = Runtime(stages[::-1], micro_batches, order, loss=lambda: None)
    attached = harpe.torch_pipelining.attach(schedule, **OPTIONS)
    schedule.step()
    schedule.step()
    assert schedule.losses == 2 * micro_batches
    is_followed(attached.client, 2 * computations, 2)
    schedule.eval()
    is_followed(attached.client, 2 * computations, 2)
    ran = [list(stage.ran) for stage in stages]
    attached.detach()
    schedule.step()
    is_followed(attached.client, 2 * computations, 2)
    assert [len(stage.ran) for stage in stages] > [len(one) for one in ran]
    assert "step" not in vars(schedule)
    assert "forward_one_chunk" not in vars(stages[0])


def test_a_custom_function_for_overlapped_blocks_is_one_instruction() -> None:
    stages = [Stage(0, 2, 0, 1), Stage(1, 2, 0, 1)]
    schedule = Runtime(stages, 3, order_of(OVERLAPPED))

    def both(action: Action, context: Any) -> None:
        assert action.sub_actions is not None
        for part in action.sub_actions:
            schedule.perform(part)

    schedule.register_custom_function(Kind.OVERLAP_F_B, both)
    attached = harpe.torch_pipelining.attach(schedule, **OPTIONS)
    schedule.step()
    is_followed(attached.client, 9, 1)
    attached.detach()
    assert schedule._comp_type_to_function_map == {Kind.OVERLAP_F_B: both}


def test_the_loss_is_a_part_of_the_last_forward() -> None:
    stage = Stage(0, 1, 0, 1)
    during: list[Any] = []
    attached: Any = None
    schedule = Runtime(
        [stage], 1, order_of("0F0 0B0"), loss=lambda: during.append(attached._steps._open)
    )
    attached = harpe.torch_pipelining.attach(schedule, **OPTIONS)
    schedule.step()
    attached.detach()
    assert during == [True]


def test_an_exception_of_training_passes_and_leaves_nothing_open() -> None:
    def refuse() -> None:
        raise ZeroDivisionError

    schedule = Runtime([Stage(0, 1, 0, 1)], 1, order_of("0F0 0B0"), loss=refuse)
    attached = harpe.torch_pipelining.attach(schedule, **OPTIONS)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            schedule.step()
    assert not attached._steps.training
    attached.detach()
    assert attached.client.counts().iterations == 2


class Schedule1F1B(Runtime):
    """Reports an order that it does not run, like PyTorch 2.15."""


def test_plain_schedules_go_by_their_names() -> None:
    schedule = Schedule1F1B([Stage(2, 4, 2, 4)], 8, order_of("0F1 0B1"))
    assert harpe.torch_pipelining.job_fields(schedule) == {
        "stages": 4,
        "schedule": "1f1b",
        "micro_batches": 8,
    }
    assert harpe.torch_pipelining.coordinates_of(schedule) == {"coordinates": (0, 2, 0)}


def test_a_stage_of_all_ranks_is_placed_by_pytorch_before_2_6(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch, distributed = types.ModuleType("torch"), types.ModuleType("torch.distributed")
    ranks_of: dict[Any, list[int]] = {}
    vars(distributed).update(
        get_world_size=lambda: 8, get_process_group_ranks=lambda group: ranks_of[group]
    )
    vars(torch)["distributed"] = distributed
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch.distributed", distributed)
    stage = Stage(1, 2, 1, 2)
    schedule = Schedule1F1B([stage], 8, None)
    vars(stage)["group"] = None
    vars(stage)["group_size"] = 8
    assert harpe.torch_pipelining.coordinates_of(schedule) == {"coordinates": (0, 1, 0)}
    ranks_of["pipeline"] = [5, 7]
    vars(stage).update(group="pipeline", group_size=2)
    assert harpe.torch_pipelining.coordinates_of(schedule) == {
        "data": 4,
        "coordinates": (3, 1, 0),
    }


def test_a_schedule_without_an_order_and_what_is_no_schedule_are_refused() -> None:
    with pytest.raises(harpe.InvalidInputError, match="does not say its order"):
        harpe.torch_pipelining.attach(Runtime([Stage(0, 1, 0, 1)], 1, None), **OPTIONS)
    with pytest.raises(harpe.InvalidInputError, match="no schedule"):
        harpe.torch_pipelining.attach(object())
    client = harpe.start()
    with pytest.raises(harpe.InvalidInputError, match="one or the other"):
        harpe.torch_pipelining.attach(
            Runtime([Stage(0, 1, 0, 1)], 1, order_of("0F0 0B0")), client, job="x"
        )
    client.close()


class Mesh:
    def __init__(self, coordinate: tuple[int, ...], **sizes: int) -> None:
        self.mesh_dim_names = tuple(sizes)
        self._coordinate, self._sizes = coordinate, tuple(sizes.values())

    def get_coordinate(self) -> tuple[int, ...]:
        return self._coordinate

    def size(self, dimension: int) -> int:
        return self._sizes[dimension]


def test_a_mesh_says_the_place() -> None:
    schedule = Schedule1F1B([Stage(1, 2, 1, 2)], 8, None)
    mesh = Mesh((1, 2, 0, 1, 1), pp=2, dp_replicate=3, dp_shard=2, cp=2, tp=4)
    assert harpe.torch_pipelining.coordinates_of(schedule, mesh) == {
        "data": 6,
        "tensor": 8,
        "coordinates": (4, 1, 5),
    }


# --- Megatron -------------------------------------------------------------------------------------


class State:
    """``megatron.core.parallel_state`` of one rank."""

    def __init__(self, stages: int, stage: int) -> None:
        numbers = {
            "pipeline_model_parallel_world_size": stages,
            "pipeline_model_parallel_rank": stage,
            "tensor_model_parallel_world_size": 2,
            "tensor_model_parallel_rank": 1,
            "context_parallel_world_size": 2,
            "context_parallel_rank": 1,
            "data_parallel_world_size": 3,
            "data_parallel_rank": 2,
        }
        for name, number in numbers.items():
            setattr(self, f"get_{name}", lambda number=number: number)


def megatron(stages: int, stage: int, group: int | None = None) -> Any:
    """Returns ``megatron.core.pipeline_parallel.schedules``: each schedule looks up the steps in
    the module, and calls them like Megatron."""
    module: Any = types.ModuleType("schedules")
    module.ran = []

    def forward_step(func: Any, iterator: Any, model: Any, *_: Any, **__: Any) -> Any:
        module.ran.append("F")
        return "output", 1

    def backward_step(*_: Any) -> None:
        module.ran.append("B")

    def run(lists: list[dict[str, Any]], forward_only: bool, chunks: Any) -> None:
        for one in lists:
            if one["op"] == "forward":
                module.forward_step(None, None, chunks, 4, None, [], None, vp_stage=None)
            elif not forward_only:
                module.backward_step(None, None, None, "type", None)

    def forward_backward_no_pipelining(
        *, model: Any, num_microbatches: int, forward_only: bool = False, **_: Any
    ) -> None:
        run(interleaved_lists(1, num_microbatches, 1, num_microbatches)[0], forward_only, model)

    def forward_backward_pipelining_without_interleaving(
        *, model: Any, num_microbatches: int, forward_only: bool = False, **_: Any
    ) -> None:
        # In plain 1F1B each stage is one micro-batch ahead of the next stage.
        warm_up = min(stages - 1 - stage, num_microbatches)
        order = ["forward"] * warm_up
        for _step in range(num_microbatches - warm_up):
            order += ["forward", "backward"]
        order += ["backward"] * warm_up
        run([{"op": op} for op in order], forward_only, model)

    def forward_backward_pipelining_with_interleaving(
        *, model: Any, num_microbatches: int, forward_only: bool = False, **_: Any
    ) -> None:
        lists = interleaved_lists(stages, num_microbatches, len(model), group or stages)
        run(lists[stage], forward_only, model)

    for function in (
        forward_step,
        backward_step,
        forward_backward_no_pipelining,
        forward_backward_pipelining_without_interleaving,
        forward_backward_pipelining_with_interleaving,
    ):
        setattr(module, function.__name__, function)
    return module


class Chunk:
    """A model part in the wrapper of data parallelism."""

    def __init__(self, group: int | None = None) -> None:
        config = types.SimpleNamespace(microbatch_group_size_per_vp_stage=group)
        self.module = types.SimpleNamespace(config=config)


@pytest.mark.parametrize(
    ("name", "stages", "stage", "chunks", "group"),
    [
        ("forward_backward_no_pipelining", 1, 0, 1, None),
        ("forward_backward_pipelining_without_interleaving", 4, 0, 1, None),
        ("forward_backward_pipelining_without_interleaving", 4, 3, 1, None),
        ("forward_backward_pipelining_with_interleaving", 2, 0, 2, None),
        ("forward_backward_pipelining_with_interleaving", 2, 1, 3, None),
        ("forward_backward_pipelining_with_interleaving", 2, 0, 2, 4),
    ],
)
def test_megatrons_schedules_are_followed(
    name: str, stages: int, stage: int, chunks: int, group: int | None
) -> None:
    module = megatron(stages, stage, group)
    before = dict(vars(module))
    attached = harpe.megatron.attach(schedules=module, state=State(stages, stage), **OPTIONS)
    assert attached.client is None
    model = [Chunk(group) for _ in range(chunks)] if chunks > 1 else Chunk()
    for _ in range(3):
        getattr(module, name)(model=model, num_microbatches=8, forward_step_func=None)
    getattr(module, name)(model=model, num_microbatches=8, forward_only=True)
    assert attached.client is not None
    is_followed(attached.client, 3 * 2 * 8 * chunks, 3)
    attached.detach()
    assert vars(module) == before


def test_a_job_of_megatrons_that_is_wrong_is_told_once_and_trains_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    module = megatron(1, 0)
    attached = harpe.megatron.attach(
        schedules=module, state=State(1, 0), **{**OPTIONS, "job": "a b"}
    )
    for _ in range(3):
        module.forward_backward_no_pipelining(model=Chunk(), num_microbatches=2)
    assert module.ran == ["F", "B"] * 6
    assert capsys.readouterr().err.count("training continues without Harpe") == 1
    assert attached.client is None
    attached.detach()


@pytest.mark.parametrize("variable", ["RANK", "SLURM_PROCID"])
def test_of_megatrons_ranks_the_first_alone_says_what_is_wrong(
    variable: str,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level("DEBUG", logger="harpe")
    said = []
    for rank in range(4):
        monkeypatch.setenv(variable, str(rank))
        options = {**OPTIONS, "job": "a b"}
        module = megatron(4, rank)
        attached = harpe.megatron.attach(schedules=module, state=State(4, rank), **options)
        module.forward_backward_no_pipelining(model=Chunk(), num_microbatches=4)
        said.append(capsys.readouterr().err)
        attached.detach()
    assert "job" in said[0]
    assert "Correct this and start training again" in said[0]
    assert said[1:] == ["", "", ""]
    assert len(caplog.records) == 3


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 5), st.integers(1, 3), st.integers(1, 3), st.integers(0, 1))
def test_interleaved_lists_have_everything_once_and_in_order(
    stages: int, chunks: int, rounds: int, extra: int
) -> None:
    group, micro_batches = stages, stages * rounds
    lists = interleaved_lists(stages, micro_batches, chunks, group, extra)
    assert len(virtual_micro_batches(micro_batches, chunks, group)) == micro_batches * chunks
    for stage, steps in enumerate(lists):
        assert len({(s["op"], s["stage"], s["mb"]) for s in steps}) == len(steps)
        assert len(steps) == 2 * micro_batches * chunks
        assert {s["stage"] % stages for s in steps} == {stage}
        done = set()
        for step in steps:
            if step["op"] == "forward":
                done.add((step["stage"], step["mb"]))
            else:
                assert (step["stage"], step["mb"]) in done
    # The server itself accepts it.
    client = harpe.start(
        **OPTIONS,
        stages=stages,
        coordinates=(0, 0, 0),
        schedule={"ranks": lists, "placement": [p % stages for p in range(chunks * stages)]},
    )
    client.close()


# --- DeepSpeed ------------------------------------------------------------------------------------


class ForwardPass:
    pass


class BackwardPass:
    pass


class SendGrad:
    pass


class TrainSchedule:
    pass


class Engine:
    """Looks up instructions in a map, like DeepSpeed's pipeline engine."""

    num_stages, stage_id, micro_batches = 2, 1, 3

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.grid: Any = types.SimpleNamespace(
            data_parallel_size=2,
            model_parallel_size=1,
            get_data_parallel_id=lambda: 1,
        )

    def _forward(self, buffer_id: int) -> None:
        self.ran.append(f"F{buffer_id}")

    def _backward(self, buffer_id: int) -> None:
        self.ran.append(f"B{buffer_id}")

    def _send(self, buffer_id: int) -> None:
        self.ran.append(f"S{buffer_id}")

    _INSTRUCTION_MAP = {ForwardPass: _forward, BackwardPass: _backward, SendGrad: _send}  # noqa: RUF012

    def _train_schedule(self) -> TrainSchedule:
        return TrainSchedule()

    def _execute(self, *commands: Any) -> None:
        for number in range(self.micro_batches):
            for command in commands:
                types.MethodType(self._INSTRUCTION_MAP[command], self)(buffer_id=number)

    def train_batch(self, data_iter: Any = None) -> float:
        self._execute(ForwardPass, BackwardPass, SendGrad)
        return 0.5

    def eval_batch(self, data_iter: Any = None) -> None:
        self._execute(ForwardPass)


def test_deepspeeds_instructions_are_followed() -> None:
    engine, other = Engine(), Engine()
    attached = harpe.deepspeed.attach(engine, **OPTIONS)
    assert [engine.train_batch() for _ in range(2)] == [0.5, 0.5]
    engine.eval_batch()
    other.train_batch()
    is_followed(attached.client, 12, 2)
    assert len(engine.ran) == 2 * 9 + 3
    attached.detach()
    assert set(vars(engine)) == {"ran", "grid"}


def test_what_is_no_pipeline_engine_is_refused() -> None:
    with pytest.raises(harpe.InvalidInputError, match="no pipeline engine"):
        harpe.deepspeed.attach(object())
