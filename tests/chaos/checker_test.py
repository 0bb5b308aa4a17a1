#!/usr/bin/env python3
"""The checker of the chaos finds every invariant broken: in a history that is good, one thing is changed by hand."""

import copy
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from chaos import checker  # noqa: E402
from chaos.figures import figures  # noqa: E402
from chaos.model import Model  # noqa: E402

RANKS = ("0.0", "0.1")
LATE = checker.PATIENCE_S + checker.SLACK_S + 1


def command(at, rank, epoch, version, asked=None, incarnation="life", begin=0, clocks=(1740,)):
    return {"kind": "command", "at": at, "asked": at - 0.01 if asked is None else asked, "job": "j", "rank": rank,
            "via": 0, "incarnation": incarnation, "epoch": epoch, "version": version, "taken": "taken", "life": 1,
            "assignments": [[version, begin, "plan", list(clocks)]]}


def iteration(at, number, assignments, time_s=1.0):
    return {"kind": "iteration", "at": at, "job": "j", "life": 1, "number": number, "time_s": time_s, "all_max_s": 1.0,
            "energy_j": 90.0, "all_max_j": 100.0, "assignments": dict(zip(RANKS, assignments, strict=True))}


def ask(at, what, status=200, value=None, job="j", **document):
    if what == "read" and status == 200:
        document = {"incarnation": "life", "epoch": 1, "objective": {"slowdown": 0}, "saved_j": 0, "saved_error_j": 0,
                    "energies_refused": int(at > 10.5), "reports_unused": 0, **document}
    return {"kind": "ask", "at": at, "asked": at - 0.01, "job": job, "what": what, "status": status, "value": value,
            "via": 0, "message": None, "document": document}


def gpu(at, lock, lease=False, begin=None):
    return {"kind": "gpu", "at": at, "begin": at if begin is None else begin, "node": "n0", "locks": [lock],
            "leased": [0] if lease else [], "found": [[1200, 1200]]}


def good():
    """Returns a correct history: one job of two ranks loses its server, another server takes over; an objective is set,
    and a straggler declared."""
    history = [{"kind": "training", "at": 0.0, "job": "j", "life": 1, "state": "start", "ranks": 2},
               ask(0.1, "put", 201), ask(0.2, "read")]
    history += [command(0.3, rank, 1, 1) for rank in RANKS]
    history += [ask(1.0, "read"), ask(1.1, "objective", value=0.1, version=2, ranks_unheard=0),
                ask(1.2, "read", objective={"slowdown": 0.1})]
    history += [command(1.3, rank, 1, 2, begin=3) for rank in RANKS]
    history += [ask(40.0, "straggler", value=[0, 1.3], version=1002, ranks_unheard=0)]
    history += [command(40.1, rank, 2, 1002, begin=43) for rank in RANKS]
    for at in (20.0, *range(50, 131, 20)):
        history.append({**command(at, "0.0", 2 if at > 40 else 1, 1002 if at > 40 else 2), "assignments": []})
    for number in range(130):
        version = [1, 1] if number < 3 else [1, 2] if number < 43 else [2, 1002]
        history.append(iteration(0.5 + number, number, [["life", *version]] * 2))
    history += [ask(130.0, "read", objective={"slowdown": 0.1}, saved_j=1000.0, saved_error_j=20.0),
                ask(2.0, "put", 201, job="kept"), ask(3.0, "delete", job="kept"), ask(4.0, "read", 404, job="kept")]
    history += [gpu(1.0, [1200, 1200]), gpu(2.0, [900, 900], lease=True), gpu(3.0, [1200, 1200])]
    history += [{"kind": "cut", "at": 10.0, "node": "n0", "on": True}, gpu(11.0, [900, 900], lease=True),
                gpu(10.0 + LATE, [1200, 1200], lease=True), {"kind": "cut", "at": 30.0, "node": "n0", "on": False},
                gpu(31.0, [900, 900], lease=True), gpu(45.0, [900, 900], lease=True),
                {"kind": "last_gpu", "at": 131.0, "node": "n0", "orderly": True, "clocks": [1200, 210],
                 "found": [[1200, 1200], []]},
                {"kind": "memory", "at": 5.0, "program": "s0", "peak_mib": 20, "threads": 8, "files": 300},
                {"kind": "wrong", "at": 10.0, "asked": 9.9, "job": "j", "rank": "0.0", "what": "energy", "status": 200,
                 "refused": "too much", "incarnation": "life"},
                {"kind": "wrong", "at": 10.2, "asked": 10.1, "job": "j", "rank": "0.0", "what": "time", "status": 400,
                 "refused": None, "incarnation": "life"},
                ask(9.0, "read", objective={"slowdown": 0.1}),
                ask(11.0, "read", objective={"slowdown": 0.1}),
                {"kind": "waits", "at": 12.0, "program": "s1", "disturbed": False, "status": None, "said": True},
                {"kind": "intruder", "at": 6.0, "asked": 5.9, "job": "j", "what": "DELETE /v1/jobs/j", "status": 401},
                {"kind": "program", "at": 7.0, "program": "s0", "state": "down"}]
    return sorted(history, key=lambda record: record["at"])


class Checker(unittest.TestCase):
    def setUp(self):
        self.history = copy.deepcopy(good())

    def broken(self, *more):
        """Returns the invariants that the checker reports as broken."""
        self.history = sorted([*self.history, *more], key=lambda record: record["at"])
        return sorted({str(one.invariant) for one in checker.check(self.history)})

    def record(self, kind, **like):
        return next(one for one in self.history if one["kind"] == kind and
                    all(one.get(name) == value for name, value in like.items()))

    def test_a_good_history_breaks_none(self):
        self.assertEqual(self.broken(), [])
        self.assertIn("no invariant broke", figures(self.history, []))

    # 1

    def test_a_server_that_commands_after_the_next_one(self):
        self.assertEqual(self.broken(command(41.0, "0.0", 1, 2)), ["1"])

    def test_a_word_on_its_way_while_the_next_server_begins(self):
        self.assertEqual(self.broken(command(41.0, "0.0", 1, 2, asked=39.0, begin=3)), [])

    def test_two_servers_of_the_same_epoch_with_versions_of_their_own(self):
        self.assertEqual(self.broken(command(41.0, "0.0", 2, 1001)), ["1"])

    def test_two_servers_of_the_same_epoch_and_version(self):
        self.assertEqual(self.broken(command(41.0, "0.0", 2, 1002, begin=43, clocks=(1005,))), ["1"])

    def test_ranks_that_are_to_change_at_different_iterations(self):
        self.record("command", rank="0.1", version=2)["assignments"][0][1] = 4
        self.assertEqual(self.broken(), ["1"])

    # 2

    def test_ranks_that_run_different_versions_for_too_long(self):
        self.record("iteration", number=30)["assignments"]["0.1"] = ["life", 1, 1]
        self.assertEqual(self.broken(), ["2"])

    def test_ranks_that_are_late(self):
        self.record("iteration", number=4)["assignments"]["0.1"] = ["life", 1, 1]
        self.assertEqual(self.broken(), [])
        self.assertIn("1 of them mixed", figures(self.history, []))

    # 3

    def test_a_job_that_is_lost(self):
        self.assertEqual(self.broken(ask(50.0, "read", 404)), ["3"])

    def test_a_job_that_may_have_been_deleted(self):
        self.assertEqual(self.broken(ask(49.0, "delete", None), ask(50.0, "read", 404)), [])

    def test_an_objective_that_is_lost(self):
        self.assertEqual(self.broken(ask(50.0, "read", objective={"slowdown": 0})), ["3"])

    def test_an_objective_that_comes_back(self):
        self.assertEqual(self.broken(
            ask(60.0, "read", objective={"slowdown": 0.1}), ask(61.0, "objective", value=0.2, version=1002, ranks_unheard=0),
            ask(62.0, "read", objective={"slowdown": 0.2}), ask(63.0, "read", objective={"slowdown": 0.1}),
            ask(129.0, "objective", None, value=0.1)), ["3"])

    def test_an_objective_of_which_nothing_was_answered(self):
        self.assertEqual(self.broken(ask(49.0, "objective", None, value=0.3), ask(50.0, "read", objective={"slowdown": 0.3}),
                                     ask(51.0, "read", objective={"slowdown": 0.1})), [])

    def test_a_rank_that_is_forgotten(self):
        refused = {"kind": "refused", "at": 50.0, "asked": 49.9, "job": "j", "rank": "0.0", "report": True, "life": 1,
                   "incarnation": "life", "why": ""}
        for status in (404, 409):
            with self.subTest(status=status):
                self.setUp()
                self.assertEqual(self.broken({**refused, "status": status}), ["3"])
        self.setUp()
        self.assertEqual(self.broken({**refused, "status": 404}, ask(49.0, "delete", None)), [])

    # 4

    def test_a_job_that_rises_again(self):
        self.assertEqual(self.broken(ask(50.0, "read", job="kept", incarnation="first")), ["4"])

    def test_a_life_of_a_job_that_comes_back(self):
        self.assertEqual(self.broken(ask(50.0, "delete"), command(51.0, "0.0", 2, 1002, begin=43)), ["4"])

    def test_a_deleted_job_that_is_registered_anew(self):
        self.history = [one for one in self.history if one["at"] < 50]
        self.assertEqual(self.broken(ask(50.0, "delete"), ask(50.5, "put", 201),
                                     command(51.0, "0.0", 1, 1, incarnation="second")), [])

    # 5

    def test_a_change_that_does_not_reach_a_rank(self):
        self.history.remove(self.record("command", rank="0.1", version=1002))
        for one in self.history:
            if one["kind"] == "iteration" and one["number"] >= 43:
                one["assignments"]["0.1"] = ["life", 1, 2]
        self.assertEqual(self.broken(), ["2", "5"])

    def test_a_change_that_is_said_not_to_reach_a_rank(self):
        self.history.remove(self.record("command", rank="0.1", version=1002))
        self.record("ask", what="straggler")["document"]["ranks_unheard"] = 1
        self.assertEqual(self.broken(), [])

    # 6

    def test_a_rank_without_a_server_that_keeps_its_clocks(self):
        self.assertEqual(self.broken(gpu(10.5 + LATE, [900, 900], lease=True)), ["6"])

    def test_a_rank_without_a_server_that_stands_still(self):
        self.assertEqual(self.broken({"kind": "held", "at": 11.0, "node": "n0", "on": True},
                                     gpu(10.5 + LATE, [900, 900], lease=True)), [])

    # 7

    def test_a_gpu_that_stays_changed(self):
        self.assertEqual(self.broken(*(gpu(50.0 + i, [900, 900]) for i in range(10))), ["7"])

    def test_a_gpu_that_is_changed_after_all_have_ended(self):
        for clocks in ([210, 210], [1200, 900]):
            with self.subTest(clocks=clocks):
                self.setUp()
                self.record("last_gpu")["clocks"] = clocks
                self.assertEqual(self.broken(), ["7"])

    # 8

    def test_a_job_that_is_too_slow(self):
        for one in self.history:
            if one["kind"] == "iteration":
                one["time_s"] = 1.12
        self.assertEqual(self.broken(), ["8"])

    def test_a_job_whose_straggler_is_well_again(self):
        for one in self.history:
            if one["kind"] == "iteration" and 50 <= one["number"] < 65:
                one["time_s"] = 2
        self.assertEqual(self.broken({"kind": "turned", "at": 50.5, "job": "j", "slower": False}), [])
        self.history.remove(self.record("turned"))
        self.assertEqual(self.broken(), ["8"])

    def test_a_job_that_is_as_slow_as_it_may_be(self):
        for one in self.history:
            if one["kind"] == "iteration":
                one["time_s"] = 1.1
        self.assertEqual(self.broken(), [])

    # 9 to 11, and additional checks

    def test_a_server_that_takes_too_much(self):
        for what, value in (("peak_mib", 300), ("threads", 100), ("files", 3000)):
            with self.subTest(what=what):
                self.setUp()
                self.record("memory")[what] = value
                self.assertEqual(self.broken(), ["9"])

    def test_a_client_without_rights_that_is_served(self):
        self.record("intruder")["status"] = 200
        self.assertEqual(self.broken(), ["10"])

    def test_joules_that_were_not_saved(self):
        self.assertEqual(self.broken(ask(20.0, "read", objective={"slowdown": 0.1}, saved_j=500.0, saved_error_j=20.0)), ["11"])

    def test_reports_of_what_cannot_be_that_count(self):
        for what, changed in (("energy", {"refused": None}), ("time", {"status": 200})):
            with self.subTest(what=what):
                self.setUp()
                self.record("wrong", what=what).update(changed)
                self.assertEqual(self.broken(), ["11"])

    def test_energies_that_are_refused_and_not_counted_or_counted_and_not_wrong(self):
        for counted, unused, broken in ((0, 0, ["11"]), (2, 0, ["11"]), (0, 1, [])):
            with self.subTest(counted=counted, unused=unused):
                self.setUp()
                for at in (11.0, 130.0):
                    self.record("ask", at=at)["document"].update(energies_refused=counted, reports_unused=unused)
                self.assertEqual(self.broken(), broken)

    def test_joules_of_a_job_whose_iterations_are_not_known(self):
        self.assertEqual(self.broken(ask(20.0, "read", job="real", saved_j=500.0, saved_error_j=20.0)), [])

    def test_a_program_that_crashes(self):
        self.assertEqual(self.broken({"kind": "program", "at": 8.0, "program": "s1", "state": "down", "by_itself": True,
                                      "status": -11}), ["-"])

    def test_a_server_that_does_not_wait_for_its_database(self):
        for changed in ({"status": 1}, {"said": False}):
            with self.subTest(changed=changed):
                self.setUp()
                self.record("waits").update(changed)
                self.assertEqual(self.broken(), ["-"])
                self.setUp()
                self.record("waits").update(changed, disturbed=True)
                self.assertEqual(self.broken(), [])

    def test_a_job_without_an_owner(self):
        self.history.remove(self.record("command", at=90))
        self.assertEqual(self.broken(), ["-"])

    def test_a_machine_that_stands_still(self):
        self.history = [one for one in self.history if one["at"] < 91 or one["at"] > 109]
        self.assertEqual(self.broken(), [])

    def test_training_that_does_not_go_on(self):
        self.assertEqual(self.broken({"kind": "stuck", "at": 140.0, "why": "not all ranks are governed again"}), ["-"])


class TheModel(unittest.TestCase):
    def test_one_forward_one_backward(self):
        model = Model(4, 4, 1.0)
        at_all_max = model.pipeline_time([([1740], 1.0)] * 4)
        self.assertAlmostEqual(at_all_max, 1.0)
        # Without bubbles the critical stage computes all the time; with bubbles the makespan is at most the sum of all
        # stages.
        own = sum(one[1] for one in model.rank(3, [1740], 1.0).values())
        self.assertLess(own, at_all_max)
        self.assertLess(at_all_max, 4 * own)
        self.assertAlmostEqual(model.pipeline_time([([1740], 1.3)] * 4), 1.3)


if __name__ == "__main__":
    unittest.main()
