#!/usr/bin/python3
"""Plans of every schedule against a simulation of the schedule's own lists and a linear program.

usage: schedule_times_test.py HARPE

Stages work through the lists that `harpe schedule convert` writes and send each other activations and
gradients, in simulated time, with random times for every stage and kind. What `harpe plan` says of
all-max, of every start of its plan and of the iteration, and what `harpe predict` and `harpe schedule
show` say, must be the same; its lower bound must be the optimum of the linear program that the same
rules make; `harpe verify` must accept it, and so must the independent checker beside the project
where it is at hand. Prints the seed of each case and a row for each.
"""

import contextlib
import csv
import heapq
import importlib.util
import io
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import optimum_test  # noqa: E402
from scipy import optimize  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHARED = pathlib.Path(os.environ.get("HARPE_SHARED", ROOT.parent / "shared"))
CLOCKS = (900, 1050, 1200, 1350)
POWER = 60.0
SECONDS_OFF = 1e-9
BOUND_OFF = 1e-6

# Imported schedules: fused and separate recomputation with sends and receives; sends and receives that run when they
# block, too, one of them missing; blocks and split backwards in addition to full ones; two directions.
IMPORTED = {
    "messages.csv": "0F0,0SEND_F0,0F1,0SEND_F1,0R0,0RECV_B0,0B0,0RECV_B1,0C1,0REDUCE_GRAD\n"
    "1RECV_F0,1F0,1C0,1SEND_B0,1RECV_F1,1F1,1R1,1B1,1SEND_B1\n",
    "cells.csv": "0F0,0SEND_F0,0F1,0SEND_F1,0F2,0SEND_F2,0RECV_B0,0B0,0RECV_B1,0B1,0RECV_B2,0B2\n"
    "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1,1RECV_F2,1F2,1SEND_F2,"
    "1B0,1SEND_B0,1RECV_B1,1B1,1SEND_B1,1RECV_B2,1B2,1SEND_B2\n"
    "2RECV_F0,2F0,2F1,2RECV_F2,2F2,2B0,2SEND_B0,2B1,2SEND_B1,2B2,2SEND_B2\n",
    "blocks.csv": "0F0,3F0,(0F1;3B0)OVERLAP_F_B,3F1,3I1,0B0,3W1,0B1\n"
    "1F0,2F0,1F1,(2F1;2B0)OVERLAP_F_B,1I0,1W0,2B1,1B1\n",
    "two_ways.json": json.dumps({
        "copies": 2,
        "placement": [0, 1, 1, 0],
        "ranks": [
            [{"op": "forward", "stage": a, "mb": 0}, {"op": "forward", "stage": b, "mb": 0},
             {"op": "forward_backward", "stage": a, "mb": 1, "backward_stage": b, "backward_mb": 0},
             {"op": "recompute_backward", "stage": a, "mb": 0}, {"op": "forward", "stage": b, "mb": 1},
             {"op": "backward", "stage": b, "mb": 1}, {"op": "backward", "stage": a, "mb": 1}]
            for a, b in ((0, 3), (2, 1))
        ],
    }),
}  # fmt: skip


def solved(*arguments, linprog=optimize.linprog, **options):
    """Calls scipy's linprog; if its simplex fails numerically (status 4), its interior point method."""
    result = linprog(*arguments, **options)
    return linprog(*arguments, **{**options, "method": "highs-ipm"}) if result.status == 4 else result


optimize.linprog = solved  # for the independent checker


class Lists:
    """The lists of a schedule, with the inputs and outputs of each instruction."""

    def __init__(self, document):
        self.ranks, self.placement = document["ranks"], document["placement"]
        self.model = len(self.placement) // document.get("copies", 1)
        ops = [(op["op"], op.get("stage"), op.get("mb")) for rank in self.ranks for op in rank]
        self.weights = {key[1:] for key in ops if key[0] == "weight"}
        self.recomputes = {key[1:] for key in ops if key[0] == "recompute"}
        self.received = {
            (op["stage"], op["mb"], op.get("gradient", False))
            for rank in self.ranks for op in rank if op["op"] == "recv"
        }  # fmt: skip

    def backward(self, part, micro_batch, known):
        """Returns a backward for a profile that may have separate input and weight gradients."""
        full = "weight" in known and (part, micro_batch) not in self.weights
        return [(kind, part, micro_batch) for kind in (["backward", "weight"] if full else ["backward"])]

    def parts(self, op, known):
        """Returns an instruction as a sequence of kinds that the profile has."""
        kind, part, m = op["op"], op.get("stage"), op.get("mb")
        if kind == "backward":
            return self.backward(part, m, known)
        if kind == "forward_backward" and kind not in known:
            return [("forward", part, m), *self.backward(op["backward_stage"], op["backward_mb"], known)]
        if kind == "recompute_backward" and kind not in known:
            return [("recompute", part, m), *self.backward(part, m, known)]
        return [(kind, part, m)]

    def chunk(self, part):
        return self.placement[:part].count(self.placement[part])

    def needs(self, op):
        kind, part, m = op["op"], op.get("stage"), op.get("mb")
        found = []
        if kind in ("forward", "forward_backward"):
            if part % self.model > 0:
                found.append(("forward", part - 1, m))
            if (part, m, False) in self.received:
                found.append(("recv", part, m, False))
        if kind in ("backward", "recompute_backward", "forward_backward"):
            k, n = (op["backward_stage"], op["backward_mb"]) if kind == "forward_backward" else (part, m)
            found.append(("forward", k, n))
            if k % self.model < self.model - 1:
                found.append(("backward", k + 1, n))
            if (k, n) in self.recomputes:
                found.append(("recompute", k, n))
            if (k, n, True) in self.received:
                found.append(("recv", k, n, True))
        if kind == "recompute":
            found.append(("forward", part, m))
        if kind == "weight":
            found.append(("backward", part, m))
        if kind == "send":
            found.append(("backward" if op.get("gradient") else "forward", part, m))
        if kind == "recv":
            back = op.get("gradient", False)
            found.append(("send", part + 1 if back else part - 1, m, back))
        return found

    def gives(self, op):
        kind, part, m = op["op"], op.get("stage"), op.get("mb")
        if kind == "forward_backward":
            return [("forward", part, m), ("backward", op["backward_stage"], op["backward_mb"])]
        if kind in ("send", "recv"):
            return [(kind, part, m, op.get("gradient", False))]
        return [("backward" if kind == "recompute_backward" else kind, part, m)]

    def messages(self, mode, transfers):
        """Yields (sender, receiver, thing, seconds) of all messages between ranks; instructions are (rank, position).
        Seconds are None if transfers take no time. Blocking transfers go from the send to the recv, if the schedule has
        them."""
        giver = {t: (r, i) for r, rank in enumerate(self.ranks) for i, op in enumerate(rank) for t in self.gives(op)}
        for r, rank in enumerate(self.ranks):
            for i, op in enumerate(rank):
                for thing in self.needs(op):
                    sender = giver[thing]
                    if sender[0] == r or thing[0] not in ("forward", "backward"):
                        continue
                    times = transfers[thing[0]] if transfers else None
                    back = thing[0] == "backward"
                    receiver = (r, i)
                    if mode == "rendezvous" and times:
                        sender = giver.get(("send", *thing[1:], back), sender)
                        receiver = giver.get(("recv", thing[1] + (-1 if back else 1), thing[2], back), receiver)
                    yield sender, receiver, thing, times[thing[1] - back] if times else None

    def is_send(self, place):
        return place[1] >= 0 and self.ranks[place[0]][place[1]]["op"] == "send"


def simulate(lists, durations, mode, transfers):
    """Returns the starts of all instructions, or None if the ranks wait for each other forever."""
    ranks = lists.ranks
    done, running, has = [0] * len(ranks), [False] * len(ranks), set()
    start = [[None] * len(rank) for rank in ranks]
    arrives = {}  # (receiver, thing) -> (sender, seconds), for transfers in parallel with computations
    blocking, unsent, unlanded = [], {}, {}
    for sender, receiver, thing, seconds in lists.messages(mode, transfers):
        if seconds is None:
            continue
        if mode == "rendezvous":
            blocking.append((sender, receiver, thing, seconds))
            unsent[sender] = unsent.get(sender, 0) + 1
            unlanded[receiver] = unlanded.get(receiver, 0) + 1
        else:
            arrives[receiver, thing] = (sender, seconds)
    landed, events, order, now = set(), [], 0, 0.0

    def push(when, *event):
        nonlocal order
        order += 1
        heapq.heappush(events, (when, order, event))

    def ready(rank):
        i = done[rank]
        if running[rank] or i == len(ranks[rank]) or (i > 0 and unsent.get((rank, i - 1), 0) > 0):
            return False
        here = (rank, i)
        needed = lists.needs(ranks[rank][i])
        travelling = {(here, t) for t in needed} & arrives.keys()
        return travelling <= landed and not unlanded.get(here) and has.issuperset(needed)

    def is_sending(place):
        return lists.is_send(place) and unsent.get(place, 0) > 0

    while True:
        moved = True
        while moved:
            moved = False
            for message in list(blocking):
                (a, i), (b, j), thing, seconds = message
                if done[a] > i and done[b] >= j and not is_sending((b, j - 1)):
                    blocking.remove(message)
                    push(now + seconds, "sent", (a, i), (b, j))
            for rank in range(len(ranks)):
                if ready(rank):
                    running[rank] = moved = True
                    start[rank][done[rank]] = now
                    push(now + durations[rank][done[rank]], "end", rank)
        if not events:
            break
        now, _, event = heapq.heappop(events)
        if event[0] == "end":
            rank = event[1]
            for thing in lists.gives(ranks[rank][done[rank]]):
                has.add(thing)
                for (receiver, wanted), (_, seconds) in arrives.items():
                    if wanted == thing:
                        push(now + seconds, "arrive", receiver, thing)
            done[rank] += 1
            running[rank] = False
        elif event[0] == "arrive":
            landed.add(event[1:])
        else:
            unsent[event[1]] -= 1
            unlanded[event[2]] -= 1
    return start if all(d == len(rank) for d, rank in zip(done, ranks)) else None


class Case:
    """One schedule with random costs."""

    def __init__(self, harpe, directory, name, schedule, options, whole_rows, mode, seed):
        self.harpe, self.directory, self.mode = harpe, directory, mode
        self.label = f"{name:22} {mode or 'no transfers':12} {'wholes' if whole_rows else 'parts':7} seed {seed}"
        self.schedule, self.options = schedule, options
        made = self.run("schedule", "convert", schedule, *options, "--to", "json")
        self.lists = Lists(json.loads(made.stdout))
        self.kinds = ["forward", "backward", "weight", "recompute"]
        if seed % 2 and not self.lists.weights:
            self.kinds.remove("weight")  # its backward rows are for the whole backward
        if whole_rows:
            self.kinds += ["recompute_backward", "forward_backward"]
        self.random = random.Random(seed)
        self.write_profile()
        boundaries = len(self.lists.placement) - 1
        self.transfers = None
        if mode:
            self.transfers = {
                way: [round(self.random.uniform(0, 0.02), 6) for _ in range(boundaries)] for way in ("forward", "backward")
            }
            if mode == "overlapped" and boundaries:
                self.transfers["backward"][0] = 0.0

    def run(self, *arguments, good=(0,)):
        done = subprocess.run([self.harpe, *map(str, arguments)], capture_output=True, text=True)
        assert done.returncode in good, f"{self.label}: harpe {arguments}: {done.stderr}"
        return done

    def write_profile(self):
        """Returns (stage, chunk, kind) -> [(clock, seconds, joules)], and writes it to a file."""
        self.costs = {}
        chunks = len(self.lists.placement) // len(self.lists.ranks)
        for stage in range(len(self.lists.ranks)):
            for chunk in range(chunks):
                for kind in self.kinds:
                    size = self.random.uniform(0.01, 0.05)
                    points = self.costs[stage, chunk, kind] = []
                    for clock in CLOCKS:
                        seconds = round(size * (0.3 + 0.7 * CLOCKS[-1] / clock), 9)
                        watts = 120 + 200 * (clock / CLOCKS[-1]) ** 2.5
                        points.append((clock, seconds, round(watts * seconds, 9)))
        self.profile = self.directory / "profile.csv"
        with open(self.profile, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("stage", "chunk", "instruction", "frequency", "time", "energy"))
            for key, points in self.costs.items():
                writer.writerows((key[0], key[1], key[2], *point) for point in points)

    def points(self, part):
        kind, k, _ = part
        return self.costs.get((self.lists.placement[k], self.lists.chunk(k), kind)) if k is not None else None

    def durations(self, seconds_of):
        return [[sum(seconds_of(p) for p in self.lists.parts(op, self.kinds)) for op in rank] for rank in self.lists.ranks]

    def plan(self):
        transfers = []
        if self.mode:
            transfers = ["--transfer-mode", self.mode]
            for way, times in self.transfers.items():
                if times:
                    transfers += [f"--transfer-{way}", ",".join(map(str, times))]
        out = self.directory / "out"
        return self.run("plan", "--profile", self.profile, "--schedule", self.schedule, *self.options,
                        "--blocking-power", POWER, *transfers, "--slowdown", 3, "--quick", "--points", 0,
                        "--certificate", "--json", "--out", out, good=(0, 2))  # fmt: skip

    def check(self):
        lists = self.lists
        at_all_max = self.durations(lambda part: self.points(part)[-1][1] if self.points(part) else 0)
        expected = simulate(lists, at_all_max, self.mode, self.transfers)
        done = self.plan()
        if expected is None or done.returncode:
            assert expected is None and "cycle" in done.stdout, f"{self.label}: {done.stdout}"
            return print(f"{self.label}: the ranks wait for each other")
        said = json.loads(done.stdout)["plans"]["all_max"]["iteration_time_s"]
        self.same(said, makespan(expected, at_all_max), "all-max")

        plan = json.loads((self.directory / "out/plan.json").read_text())
        parts = [[p for op in rank for p in lists.parts(op, self.kinds)] for rank in lists.ranks]
        assert [[(i["name"], i["microbatch"]) for i in rank] for rank in plan["instructions"]] == [
            [(kind, -1 if m is None else m) for kind, _, m in rank] for rank in parts
        ], f"{self.label}: other instructions"
        times = [[i["time_s"] for i in rank] for rank in plan["instructions"]]
        wholes = []
        for rank, seconds in zip(lists.ranks, times):
            left = iter(seconds)
            wholes.append([sum(next(left) for _ in lists.parts(op, self.kinds)) for op in rank])
        start = simulate(lists, wholes, self.mode, self.transfers)
        self.same(plan["iteration_time_s"], makespan(start, wholes), "plan")
        self.same_starts(plan, start)
        self.same_bound(plan, parts)

        given = () if self.options else ("--schedule", self.schedule)
        self.run("verify", self.directory / "out/plan.json", "--profile", self.profile, *given,
                 "--certificate", self.directory / "out/certificate.json")  # fmt: skip
        predicted = self.run("predict", self.directory / "out/plan.json", "--profile", self.profile, "--json")
        self.same(json.loads(predicted.stdout)["iteration_time_s"], plan["iteration_time_s"], "prediction")
        self.ask_the_independent_checker(plan)

    def same(self, found, expected, what):
        assert abs(found - expected) < SECONDS_OFF, f"{self.label}: {what} takes {found} s, not {expected} s"

    def same_starts(self, plan, start):
        for r, rank in enumerate(self.lists.ranks):
            entries = iter(plan["instructions"][r])
            for i, op in enumerate(rank):
                begin = start[r][i]
                for _ in self.lists.parts(op, self.kinds):
                    entry = next(entries)
                    self.same(entry["start_s"], begin, f"stage {r} {entry['name']} {entry['microbatch']} start")
                    begin += entry["time_s"]

    def same_bound(self, plan, parts):
        """Compares the lower bound with the linear program of the same rules."""
        lists, choices, pairs, first, last = self.lists, [], [], {}, {}
        for r, rank in enumerate(lists.ranks):
            for i, op in enumerate(rank):
                first[r, i] = len(choices)
                for part in lists.parts(op, self.kinds):
                    points = self.points(part) or [(0, 0.0, 0.0)]
                    choices.append([(t, e - POWER * t) for _, t, e in points])
                last[r, i] = len(choices) - 1
                pairs += [(n, n + 1, 0) for n in range(first[r, i], last[r, i])]
                if i > 0:
                    pairs.append((last[r, i - 1], first[r, i], 0))
        giver = {t: (r, i) for r, rank in enumerate(lists.ranks) for i, op in enumerate(rank) for t in lists.gives(op)}
        for r, rank in enumerate(lists.ranks):
            for i, op in enumerate(rank):
                pairs += [(last[giver[t]], first[r, i], 0) for t in lists.needs(op)]
        transfer_by, held_in = {}, []
        for sender, receiver, _, seconds in lists.messages(self.mode, self.transfers):
            if seconds is None:
                continue
            if self.mode == "overlapped":
                pairs.append((last[sender], first[receiver], seconds))
                continue
            x = len(choices)
            choices.append([(seconds, 0.0)])
            pairs += [(last[sender], x, 0), (x, first[receiver], 0)]
            transfer_by[sender] = x
            if receiver[1] > 0:
                before = (receiver[0], receiver[1] - 1)
                pairs.append((last[before], x, 0))
                held_in += [(before, x)] if lists.is_send(before) else []
            if (sender[0], sender[1] + 1) in first:
                pairs.append((x, first[sender[0], sender[1] + 1], 0))
        pairs += [(transfer_by[before], x, 0) for before, x in held_in if before in transfer_by]
        bound = optimum_test.least_energy(choices, pairs, POWER * len(lists.ranks), plan["iteration_time_s"], mixed=True)
        off = plan["lower_bound_j"] / bound - 1
        print(f"{self.label}: {len(choices):3} instructions, bound off by {off:8.1e}")
        assert abs(off) < BOUND_OFF, f"{self.label}: bound {plan['lower_bound_j']} J, but the optimum is {bound} J"

    def ask_the_independent_checker(self, plan):
        tool = SHARED / "tools" / "verify_plan.py"
        names = {i["name"] for rank in plan["instructions"] for i in rank}
        fused = any(i.get("fused_with_next") for rank in plan["instructions"] for i in rank)
        # The checker has only one model. With a fused recomputation it sends the gradient after the recompute, not
        # before the whole; blocking messages are sent between computations, not between a send and a recv.
        unknown = fused or names & {"send", "recv"}
        if not tool.exists() or plan.get("copies", 1) > 1 or (unknown and self.mode == "rendezvous"):
            return
        spec = importlib.util.spec_from_file_location("verify_plan", tool)
        checker = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(checker)
        # Of fused instructions the checker supports the recomputation of two schedules, without transfer times of
        # gradients. It does not support combined instructions, messages and blocks. If dependencies are missing in its
        # graph, its bound is not valid.
        knows_fusion = plan["schedule"].endswith("recompute-1f1b") and not self.mode
        knows_names = not names & {"recompute_backward", "forward_backward", "send", "recv"}
        sys.argv = [str(tool), str(self.directory / "out/plan.json"), str(self.profile)]
        sys.argv += [] if knows_names and (knows_fusion or not fused) else ["--no-bound"]
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            status = checker.main()
        assert status == 0, f"{self.label}: the independent checker: {said.getvalue()}"


def makespan(start, durations):
    return max(s + d for starts, times in zip(start, durations) for s, d in zip(starts, times))


def units(lists):
    """Returns the makespan when a forward takes 1, a recompute 1, a backward 2, or 1 and 1 if it is split."""
    seconds = {"forward": 1, "recompute": 1, "weight": 1, "backward": 1}
    known = ("forward", "backward", "weight", "recompute")
    times = [[sum(seconds.get(p[0], 0) for p in lists.parts(op, known)) for op in rank] for rank in lists.ranks]
    return makespan(simulate(lists, times, None, None), times)


def cases(harpe, directory):
    """Yields name, schedule, options that make it, and whether it has combined instructions that a profile may have."""
    listed = subprocess.run([harpe, "schedule", "show", "--list", "--json"], check=True, capture_output=True, text=True)
    for entry in json.loads(listed.stdout)["schedules"]:
        name = entry["name"]
        stages, micro_batches = (3, 6) if entry["uses_chunks"] or name == "dualpipev" else (4, 5)
        options = ("--stages", stages, "--micro-batches", micro_batches)
        yield name, name, options, "recompute" in name or name == "dualpipev"
    yield "1f1b, one stage", "1f1b", ("--stages", 1, "--micro-batches", 2), False
    yield "zb-h1, one micro-batch", "zb-h1", ("--stages", 4, "--micro-batches", 1), False
    for name, text in IMPORTED.items():
        file = directory / name
        file.write_text(text)
        yield name, file, (), True


def main():
    harpe = pathlib.Path(sys.argv[1])
    seed = 0
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        for label, schedule, options, has_wholes in cases(harpe, directory):
            for mode in (None, "overlapped", "rendezvous"):
                for whole_rows in (False, True) if has_wholes and mode != "rendezvous" else (False,):
                    seed += 1
                    case = Case(harpe, directory, label, schedule, options, whole_rows, mode, seed)
                    case.check()
            shown = json.loads(case.run("schedule", "show", schedule, *options, "--json").stdout)
            case.same(shown["unit_makespan"], units(case.lists), "schedule show")


if __name__ == "__main__":
    main()
