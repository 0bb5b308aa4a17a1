#!/usr/bin/env python3
"""What a call around an instruction costs training, from Python.

    PYTHONPATH=build/release/python python/bench/call_cost_bench.py [--check]

The client is the real one at work: it counts, keeps its log and looks for a server that is not
there. Each call is timed by itself; what an empty call takes is printed beside it, not taken off.
Checks that every instruction was counted, in the schedule's order, and that none was lost; with
--check also that p99 is below a microsecond, which needs a machine that is not busy otherwise.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import harpe
from harpe.client import KINDS

MICRO_BATCHES, ITERATIONS, WARM_UP = 64, 400, 20


def quantiles(times: list[int]) -> str:
    ordered = sorted(times)
    found = [ordered[int(len(ordered) * share)] for share in (0.5, 0.9, 0.99, 0.999)]
    return "".join(f"{ns:9d}" for ns in (*found, ordered[-1]))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="fail where p99 is a microsecond")
    arguments = parser.parse_args()
    client = harpe.start(
        server="http://127.0.0.1:9",
        job="bench",
        clock_socket="",
        schedule="1f1b",
        stages=1,
        micro_batches=MICRO_BATCHES,
    )
    begin, end, now = client.on_instruction_begin, client.on_instruction_end, time.perf_counter_ns
    forward, backward = KINDS["forward"], KINDS["backward"]
    times: dict[str, list[int]] = {"begin": [], "end": [], "with client.forward()": [], "empty": []}

    def timed(name: str, call: Callable[..., object], *values: int) -> None:
        before = now()
        call(*values)
        times[name].append(now() - before)

    def forward_in_with(micro_batch: int) -> None:
        with client.forward(micro_batch=micro_batch):
            pass

    for iteration in range(WARM_UP + ITERATIONS):
        if iteration == WARM_UP:
            for kept in times.values():
                kept.clear()
        client.on_iteration_begin(iteration)
        for micro_batch in range(MICRO_BATCHES):
            if iteration % 2:
                timed("begin", begin, forward, 0, micro_batch)
                timed("end", end)
            else:
                timed("with client.forward()", forward_in_with, micro_batch)
            timed("begin", begin, backward, 0, micro_batch)
            timed("end", end)
            timed("empty", lambda: None)
        client.on_iteration_end()
        # As long as a short iteration; the client's own threads run in the meantime.
        time.sleep(0.002)
    client.close()
    counts = client.counts()
    print(f"{'ns':24}{'median':>9}{'p90':>9}{'p99':>9}{'p99.9':>9}{'most':>9}")
    for name, kept in times.items():
        print(f"{name:24}{quantiles(kept)}")
    expected = 2 * MICRO_BATCHES * (WARM_UP + ITERATIONS)
    if counts.instructions != expected or counts.unexpected or counts.events_lost:
        print(f"{expected} instructions were reported, the client says {counts}")
        return 1
    slow = [
        name
        for name in ("begin", "end")
        if sorted(times[name])[len(times[name]) * 99 // 100] > 1000
    ]
    if slow:
        print(
            f"p99 of {' and '.join(slow)} is above a microsecond on this machine, as busy as it is"
        )
    return 1 if slow and arguments.check else 0


if __name__ == "__main__":
    sys.exit(main())
