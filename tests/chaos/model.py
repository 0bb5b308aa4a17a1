"""What an iteration of the light ranks takes and uses: 1F1B pipelines whose costs are known, so that the same machines at
all-max can be computed beside what the server's assignments make of it."""

import functools

CLOCKS = [1740, 1410, 1005]
TIMES = {1740: 1.0, 1410: 1.2, 1005: 1.7}  # time of an instruction, relative to the shortest
ENERGIES = {1740: 1.0, 1410: 0.84, 1005: 0.76}
IMBALANCE = (1.0, 1.1, 0.9, 1.2)
BLOCKING_W = 80.0
BUSY_W = 300.0  # at the highest clock


@functools.lru_cache(maxsize=None)
def lists(stages, micro_batches):
    """Returns the instructions of each stage: (backward, micro-batch) in order."""
    made = []
    for stage in range(stages):
        ahead = min(stages - 1 - stage, micro_batches)
        order = [(False, i) for i in range(ahead)]
        for i in range(micro_batches - ahead):
            order += [(False, ahead + i), (True, i)]
        order += [(True, i) for i in range(micro_batches - ahead, micro_batches)]
        made.append(tuple(order))
    return made


@functools.lru_cache(maxsize=4096)
def makespan(stages, micro_batches, durations):
    """Returns the makespan of a pipeline whose stages take `durations` for the instructions of their lists."""
    order = lists(stages, micro_batches)
    done, at, free = {}, [0] * stages, [0.0] * stages
    left = sum(map(len, order))
    while left:
        for stage in range(stages):
            while at[stage] < len(order[stage]):
                backward, batch = order[stage][at[stage]]
                before = (backward, stage + (1 if backward else -1), batch)
                if backward and stage == stages - 1:
                    before = (False, stage, batch)
                if not (stage == 0 and not backward) and before not in done:
                    break
                begin = max(free[stage], done.get(before, 0.0))
                free[stage] = begin + durations[stage][at[stage]]
                done[backward, stage, batch] = free[stage]
                at[stage] += 1
                left -= 1
    return max(free)


class Model:
    """The model of a job. A factor slows down one rank's computations; clocks are one for all instructions, or one
    each."""

    def __init__(self, stages, micro_batches, iteration_s):
        self.stages, self.micro_batches = stages, micro_batches
        unit = self.pipeline_time([([CLOCKS[0]], 1.0)] * stages, 1.0)
        self.forward_s = iteration_s / unit

    def base(self, stage, backward):
        return IMBALANCE[stage % len(IMBALANCE)] * (2 if backward else 1)

    def durations(self, stage, clocks, factor, forward_s):
        order = lists(self.stages, self.micro_batches)[stage]
        each = clocks if len(clocks) > 1 else clocks * len(order)
        return tuple(self.base(stage, backward) * forward_s * TIMES[clock] * factor
                     for (backward, _), clock in zip(order, each, strict=True))

    def pipeline_time(self, ranks, forward_s=None):
        """\\param ranks  the clocks and the factor of each stage."""
        forward_s = forward_s or self.forward_s
        return makespan(self.stages, self.micro_batches, tuple(
            self.durations(stage, clocks, factor, forward_s) for stage, (clocks, factor) in enumerate(ranks)))

    def rank(self, stage, clocks, factor):
        """Returns {backward: (count, seconds, joules)} of the computations of a rank."""
        order = lists(self.stages, self.micro_batches)[stage]
        each = clocks if len(clocks) > 1 else clocks * len(order)
        sums = {False: [0, 0.0, 0.0], True: [0, 0.0, 0.0]}
        for (backward, _), clock in zip(order, each, strict=True):
            fastest = self.base(stage, backward) * self.forward_s
            one = sums[backward]
            one[0] += 1
            one[1] += fastest * TIMES[clock] * factor
            one[2] += fastest * BUSY_W * ENERGIES[clock] * factor
        return {backward: tuple(one) for backward, one in sums.items()}

    def profile(self):
        rows = ["stage,instruction,frequency,time,energy"]
        for stage in range(self.stages):
            for backward, name in ((False, "forward"), (True, "backward")):
                fastest = self.base(stage, backward) * self.forward_s
                rows += [f"{stage},{name},{clock},{fastest * TIMES[clock]:.9g},{fastest * BUSY_W * ENERGIES[clock]:.9g}"
                         for clock in CLOCKS]
        return "\n".join(rows) + "\n"

    def specification(self, data):
        return {"data": data, "stages": self.stages, "schedule": "1f1b", "micro_batches": self.micro_batches,
                "blocking_power_w": BLOCKING_W, "plans": 20, "profile": self.profile()}
