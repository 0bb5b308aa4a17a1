"""What the hook takes from Megatron is there in its own package, and its order is ours. Its
schedules themselves need a CUDA device. Needs megatron-core and torch; skipped without."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
schedules = pytest.importorskip("megatron.core.pipeline_parallel.schedules")
from megatron.core import parallel_state  # noqa: E402

import harpe.megatron  # noqa: E402
from harpe.megatron import virtual_micro_batches  # noqa: E402


def test_what_is_wrapped_is_there_and_is_put_back() -> None:
    names = ["forward_step", "backward_step", *harpe.megatron._SCHEDULES]
    before = [getattr(schedules, name) for name in names]
    attached = harpe.megatron.attach(server="http://127.0.0.1:9", job="test")
    assert all(getattr(schedules, n) is not b for n, b in zip(names, before, strict=True))
    # The functions that Megatron passes to training are the wrapped ones.
    wrapped = {getattr(schedules, name) for name in harpe.megatron._SCHEDULES}
    assert schedules.get_forward_backward_func(pp_size=2, vp_size=None) in wrapped
    attached.detach()
    assert [getattr(schedules, name) for name in names] == before


def test_the_state_is_asked_for_what_it_has() -> None:
    for size in ("pipeline_model_parallel", "tensor_model_parallel", "context_parallel"):
        assert callable(getattr(parallel_state, f"get_{size}_world_size"))
        assert callable(getattr(parallel_state, f"get_{size}_rank"))


@pytest.mark.parametrize(("micro_batches", "chunks", "group"), [(8, 2, 2), (8, 3, 4), (10, 2, 4)])
def test_the_order_of_micro_batches_is_megatrons(
    micro_batches: int, chunks: int, group: int
) -> None:
    theirs = schedules.get_schedule_table(micro_batches, chunks, group)
    assert virtual_micro_batches(micro_batches, chunks, group) == [tuple(one) for one in theirs]
