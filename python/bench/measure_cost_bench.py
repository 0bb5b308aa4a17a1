"""What harpe.measure costs: a block that does nothing, and sampling while a block runs.

    HARPE_SIMULATION=examples/simulations/a100x4.toml PYTHONPATH=build/release/python \
        python3 python/bench/measure_cost_bench.py
"""

from __future__ import annotations

import statistics
import time

import harpe

BLOCKS = 300
BUSY_S = 5.0


def main() -> None:
    with harpe.measure() as first:
        pass
    wall, processor = [], []
    for _ in range(BLOCKS):
        begin, begin_cpu = time.perf_counter(), time.process_time()
        with harpe.measure():
            pass
        wall.append(time.perf_counter() - begin)
        processor.append(time.process_time() - begin_cpu)
    for name, values in (("time", wall), ("processor time", processor)):
        rising = sorted(values)
        print(
            f"an empty block, {name}: median {1e6 * statistics.median(values):.0f} us,"
            f" p99 {1e6 * rising[int(0.99 * BLOCKS)]:.0f} us"
        )
    begin_cpu = time.process_time()
    with harpe.measure() as m:
        time.sleep(BUSY_S)
    share = (time.process_time() - begin_cpu) / BUSY_S
    print(f"sampling of {len(m.devices)} devices: {100 * share:.2f} % of one processor")
    assert first.simulated == m.simulated


if __name__ == "__main__":
    main()
