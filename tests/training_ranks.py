"""Ranks of a training as the server sees them, in lock-step, and what a checker needs to know of every iteration. They
keep to docs/openapi.yaml as Harpe's client does, and write down what they got when and from which server."""

import http.client
import json
import queue
import threading
import time
from collections import Counter

from rank_rules import RankRules
from server_process import CLOCKS


class Rank:
    """One rank: sends requests to its server, reads its events, and follows its assignments."""

    def __init__(self, training, data, stage, address):
        self.training, self.data, self.stage, self.address = training, data, stage, address
        self.lock = threading.Lock()
        self.rules = RankRules(data, stage, training.patience_s)
        self.reports = queue.Queue()
        self.refused_old = 0

    def ask(self, method, path, body):
        """Returns (status, document), or None without a response."""
        asked = time.monotonic()
        connection = http.client.HTTPConnection(self.address, timeout=2)
        try:
            connection.request(method, path, json.dumps(body))
            response = connection.getresponse()
            document = json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError):
            return None
        finally:
            connection.close()
        if response.status < 300:
            self.take(document, asked)
        return response.status, document

    def take(self, document, asked):
        """Handles the content of any response or event."""
        told = time.monotonic()
        with self.lock:
            taken = self.rules.take(document, told)
            self.refused_old += taken == "older"
            if taken == "taken":
                self.training.told(self, asked, told, document)

    def register(self):
        job = self.training.job
        put = self.ask("PUT", f"/v1/jobs/{job}", self.training.specification)
        if put is None or put[0] >= 300:
            return False
        body = self.rules.registration(CLOCKS, put[1]["specification"], self.training.run)
        response = self.ask("POST", f"/v1/jobs/{job}/ranks", body)
        return response is not None and response[0] == 200

    def in_force(self, iteration):
        """Returns None if no server has this rank, and its clocks are free."""
        with self.lock:
            return self.rules.in_force(iteration, time.monotonic())

    def known(self):
        with self.lock:
            return self.rules.known()

    def report(self, iteration, assignment):
        if not self.rules.registered and not self.register():
            return False
        with self.lock:
            body = self.rules.report(iteration, assignment, time_s=0.05, energy_j=10.0)
        response = self.ask("POST", f"/v1/jobs/{self.training.job}/reports", body)
        if response is not None:
            self.rules.refused(response[0])
        return response is not None and response[0] == 200

    def send_reports(self):
        """Sends reports in parallel with training, which does not wait for them."""
        while not self.training.over.is_set():
            try:
                self.report(*self.reports.get(timeout=0.2))
            except queue.Empty:
                pass

    def listen(self):
        """Reads events until training ends, from any server."""
        while not self.training.over.is_set():
            connection = http.client.HTTPConnection(self.address, timeout=1)
            try:
                asked = time.monotonic()
                connection.request("GET", f"/v1/jobs/{self.training.job}/events?data={self.data}&stage={self.stage}"
                                          f"&tensor=0&session={self.rules.session}")
                response = connection.getresponse()
                while response.status == 200 and not self.training.over.is_set():
                    line = response.readline()
                    if not line:
                        break
                    if line.startswith(b"data: {\"incarnation"):
                        self.take(json.loads(line[6:]), None)
                    asked = None
            except (OSError, http.client.HTTPException, ValueError):
                pass
            finally:
                connection.close()
            self.training.over.wait(0.05)


class Training:
    """All ranks of two stages, iteration by iteration; one thread each."""

    def __init__(self, job, specification, addresses, pipelines=2, run="r", iteration_s=0.03, patience_s=0.5):
        self.job, self.specification, self.run = job, specification, run
        self.iteration_s, self.patience_s = iteration_s, patience_s
        self.over = threading.Event()
        self.record_lock = threading.Lock()
        self.commands = []  # (asked, told, epoch, rank); asked is None for events
        self.iterations = []  # {rank: (incarnation, epoch, version), or None with free clocks}
        self.errors = []
        self.ranks = [Rank(self, data, stage, addresses[(2 * data + stage) % len(addresses)])
                      for data in range(pipelines) for stage in range(2)]
        self.barrier = threading.Barrier(len(self.ranks), action=self.next_iteration)
        self.threads = [threading.Thread(target=self.train, args=(rank,)) for rank in self.ranks]
        for rank in self.ranks:
            self.threads += [threading.Thread(target=rank.send_reports), threading.Thread(target=rank.listen)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.barrier.abort()
        for thread in self.threads:
            thread.join(30)

    def told(self, rank, asked, told, document):
        with self.record_lock:
            self.commands.append((asked, told, document["epoch"], rank))

    def next_iteration(self):
        with self.record_lock:
            self.iterations.append({})

    def train(self, rank):
        try:
            while not self.over.is_set():
                self.barrier.wait(60)
                iteration = len(self.iterations) - 1
                assignment = rank.in_force(iteration)
                with self.record_lock:
                    self.iterations[iteration][rank.data, rank.stage] = assignment and (rank.rules.incarnation, *assignment)
                time.sleep(self.iteration_s)
                rank.reports.put((iteration, assignment))
        except threading.BrokenBarrierError:
            pass

    def now(self):
        return len(self.iterations)

    # Checks.

    def commanders(self):
        """Returns epochs in the order of their first arrival."""
        first = {}
        for _, told, epoch, _ in sorted(self.commands, key=lambda one: one[1]):
            first.setdefault(epoch, told)
        return sorted(first, key=first.get)

    def two_commanders(self, delivery_s=0.3):
        """Returns errors for commands of a server that another one had replaced: requested, or on their way for longer
        than `delivery_s`, after the first command of the newer one."""
        errors, newest, since = [], 0, 0
        for asked, told, epoch, rank in sorted(self.commands, key=lambda one: one[1]):
            if epoch > newest:
                newest, since = epoch, told
            elif epoch < newest and (asked if asked is not None else told - delivery_s) > since:
                errors.append(f"epoch {epoch} told rank {rank.data}.{rank.stage} {told - since:.2f} s after {newest}")
        return errors

    def mixed(self):
        """Returns iterations whose ranks ran by different assignments, except ranks with free clocks."""
        return [number for number, of in enumerate(self.iterations) if len(set(of.values()) - {None}) > 1]

    def changes(self):
        """Returns the number of changes of rank 0.0's assignments."""
        seen = [of[0, 0] for of in self.iterations if of.get((0, 0))]
        return sum(one != other for one, other in zip(seen, seen[1:]))

    def free(self):
        """Returns the number of iterations of ranks with free clocks."""
        return sum(assignment is None for of in self.iterations for assignment in of.values())

    def summary(self):
        epochs = Counter(epoch for _, _, epoch, _ in self.commands)
        return (f"{len(self.iterations)} iterations, {len(self.mixed())} mixed, {self.changes()} changes, "
                f"{self.free()} at free clocks; commands by epoch {dict(epochs)}, "
                f"{sum(rank.refused_old for rank in self.ranks)} of older epochs refused")
