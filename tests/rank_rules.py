"""What a training rank keeps to when it talks to the server (docs/openapi.yaml), as Harpe's client does: which assignments it
follows, and until when it is governed. No connections and no threads."""

import random


class RankRules:
    """The rules that one rank follows. All times are from one clock, which the caller chooses."""

    def __init__(self, data, stage, patience_s):
        self.data, self.stage, self.patience_s = data, stage, patience_s
        self.session = f"{random.randrange(1 << 64):016x}"
        self.incarnation, self.start = "", 0
        self.assignments = {}  # (epoch, version) -> the assignments
        self.registered = False
        self.confirmed = float("-inf")  # time of the server's last confirmation that it has this rank

    @property
    def place(self):
        return {"data": self.data, "stage": self.stage, "session": self.session}

    def take(self, document, told):
        """Handles a successful response or an event. Returns "other life" of the job, "older" epoch than a known one,
        "taken", or None without assignments."""
        if "epoch" not in document:
            return None
        if document["incarnation"] != self.incarnation:
            if "start" not in document:
                self.registered = False  # it has to register again
                return "other life"
            self.incarnation, self.assignments = document["incarnation"], {}
        if document["epoch"] < self.known()[0]:
            return "older"
        self.confirmed = told
        if "start" in document:
            self.start, self.registered = document["start"], True
        for one in document.get("assignments", []):
            self.assignments[document["epoch"], one["version"]] = one
        return "taken"

    def refused(self, status):
        """Handles a response that says that the rank's place, or the job, is unknown."""
        if status in (401, 403, 404, 409):
            self.registered = False

    def in_force(self, iteration, now):
        """Returns (epoch, version), or zeros without assignments. None: no server has this rank, and its clocks are
        free."""
        if now - self.confirmed > self.patience_s:
            return None
        return max((key for key, one in self.assignments.items() if one["from_iteration"] <= iteration), default=(0, 0))

    def known(self):
        return max(self.assignments, default=(0, 0))

    def forget_before(self, iteration):
        """Removes assignments that newer ones have replaced by then."""
        holds = max((key for key, one in self.assignments.items() if one["from_iteration"] <= iteration), default=(0, 0))
        for key in [key for key in self.assignments if key < holds]:
            del self.assignments[key]

    def registration(self, clocks, specification, run):
        return {**self.place, "clocks_mhz": clocks, "specification": specification, "incarnation": self.incarnation,
                "start": self.start, "run": run}

    def report(self, iteration, assignment, **measured):
        epoch, version = self.known()
        return {**self.place, "incarnation": self.incarnation, "epoch": epoch, "known": version, "iteration": iteration,
                "version": assignment[1] if assignment else 0, **measured}
