"""Light ranks: they speak the server's protocol and follow its assignments as Harpe's client does, all of them in one event
loop, with sockets of their own machines. What they compute is a model's."""

import asyncio
import collections
import json
import random
import time

from chaos.model import BLOCKING_W, CLOCKS, Model
from chaos.programs import PATIENCE_S, PORT
from rank_rules import RankRules

ANSWER_S = 3.0
RETRY_S, LONGEST_RETRY_S = 0.5, 3.0
MOST_REPORTS = 256
FAILURES = (OSError, EOFError, asyncio.LimitOverrunError, TimeoutError, ValueError)  # of a connection
NOISE = 0.001  # of times and energies, relative


def made_wrong(report, random):
    """Returns the faulty quantity ("energy", "time"), and the report with a value like that of an overflowing counter,
    a wrong unit or a broken clock, in the iteration or in one of its instructions."""
    instructions = [dict(one) for one in report["instructions"]]
    report = {**report, "instructions": instructions}
    part = random.choice([report, instructions[0]])
    what = random.choice(["energy", "time"])
    if what == "energy":
        part["energy_j"] *= random.choice([-1000, 1000, 1e6])
    else:
        part["time_s"] = random.choice([-1, 1e12, "1", None])
    return what, report


class Connection:
    """A connection from a machine to a server, with one request at a time. Failures end it."""

    def __init__(self, network, machine, address):
        self.network, self.machine, self.address = network, machine, address
        self.reader = self.writer = None

    async def open(self):
        socket = self.network.socket(self.machine) if self.machine else None
        if socket is None:
            self.reader, self.writer = await asyncio.open_connection(self.address, PORT)
            return
        try:
            socket.setblocking(False)
            await asyncio.get_running_loop().sock_connect(socket, (self.address, PORT))
            self.reader, self.writer = await asyncio.open_connection(sock=socket)
        except BaseException:
            socket.close()
            raise

    def close(self):
        if self.writer:
            self.writer.transport.abort()
        self.reader = self.writer = None

    async def send(self, method, path, token, body=None):
        """Sends a request. Returns the status, after reading the header."""
        if self.writer is None:
            await self.open()
        text = b"" if body is None else json.dumps(body).encode()
        self.writer.write(f"{method} {path} HTTP/1.1\r\nHost: {self.address}\r\nAuthorization: Bearer {token}\r\n"
                          f"Content-Length: {len(text)}\r\n\r\n".encode() + text)
        header = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        length = header.partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0]
        return int(header[9:12]), int(length) if length else None, b"\r\nconnection: close" in header

    async def ask(self, method, path, token, body=None, response_s=ANSWER_S):
        """Returns (status, document), or None without a response."""
        try:
            async with asyncio.timeout(response_s):
                status, length, closes = await self.send(method, path, token, body)
                text = await self.reader.readexactly(length or 0)
            if closes:
                self.close()
            return status, json.loads(text) if text.startswith((b"{", b"[")) else {}
        except FAILURES:
            self.close()
            return None


class Tokens:
    """Tokens of jobs in files, as ranks read them."""

    def __init__(self, folder):
        self.folder = folder

    def path(self, job):
        return self.folder / f"{job}.token"

    def read(self, job):
        return self.path(job).read_text().strip()


class Rank:
    def __init__(self, training, data, stage, machine):
        self.training, self.machine = training, machine
        self.rules = RankRules(data, stage, PATIENCE_S)
        self.job_known = False
        self.specification = ""
        self.reports = collections.deque(maxlen=MOST_REPORTS)
        self.news = asyncio.Event()
        self.runs = asyncio.Event()  # cleared while its process is stopped
        self.runs.set()
        self.failures = 0
        self.heard = 0.0
        self.server = training.first_server(self)
        self.tasks = [asyncio.create_task(self.talk()), asyncio.create_task(self.listen())]

    @property
    def name(self):
        return f"{self.rules.data}.{self.rules.stage}"

    def end(self):
        for task in self.tasks:
            task.cancel()

    def next_server(self):
        self.server = (self.server + 1) % len(self.training.world.servers)

    def connection(self):
        return Connection(self.training.world.network, self.machine,
                          self.training.world.servers[self.server].address)

    def take(self, document, asked):
        told = time.monotonic()
        taken = self.rules.take(document, told)
        if taken is None:
            return
        assignments = [[one["version"], one["from_iteration"], one["purpose"], one["clocks_mhz"]]
                  for one in document.get("assignments", [])]
        self.training.world.history.add(
            "command", told, job=self.training.job, rank=self.name, asked=asked, incarnation=document["incarnation"],
            epoch=document["epoch"], version=document.get("version"), assignments=assignments, via=self.server, taken=taken,
            life=self.training.life)

    async def talk(self):
        connection = self.connection()
        try:
            while True:
                await self.runs.wait()
                if not await self.step(connection):
                    connection.close()
                    connection = self.connection()
        finally:
            connection.close()

    async def step(self, connection):
        """Sends one request, and waits before the next. Returns False if another connection is needed."""
        rules, job = self.rules, self.training.job
        path = f"/v1/jobs/{job}"
        token, asked = self.training.world.tokens.read(job), time.monotonic()
        report = None
        if not self.job_known:
            response = await connection.ask("PUT", path, token, self.training.specification)
        elif not rules.registered or not self.reports:
            if rules.registered and await self.nothing_to_report():
                return True
            asked = time.monotonic()
            response = await connection.ask("POST", path + "/ranks", token,
                                          rules.registration(CLOCKS, self.specification, self.training.run))
        else:
            report = self.reports.popleft()
            sent = {name: value for name, value in report.items() if name != "wrong"}
            response = await connection.ask("POST", path + "/reports", token, rules.report(**sent))
            self.note_wrong(report, asked, response)
        await self.runs.wait()
        if response is None or response[0] == 421 or response[0] == 429 or response[0] >= 500:
            if report:
                self.reports.appendleft(report)
            self.failures += 1
            self.next_server()
            await self.pause(self.failures)
            return False
        return await self.answered(response, asked, report, token)

    def note_wrong(self, report, asked, response):
        if "wrong" not in report:
            return
        status, document = response or (None, {})
        self.training.world.history.add(
            "wrong", job=self.training.job, rank=self.name, what=report["wrong"], asked=asked, status=status,
            refused=document.get("energy_refused"), incarnation=self.rules.incarnation)

    async def nothing_to_report(self):
        """Waits for something to report. Returns False after a timeout."""
        try:
            async with asyncio.timeout(self.heard + PATIENCE_S * 2 / 3 - time.monotonic()):
                await self.news.wait()
            self.news.clear()
            return True
        except TimeoutError:
            return False

    async def answered(self, response, asked, report, token):
        status, document = response
        if 200 <= status < 300:
            self.failures, self.heard = 0, time.monotonic()
            if not self.job_known:
                self.job_known, self.specification = True, document["specification"]
            elif document:
                before = self.rules.incarnation
                self.take(document, asked)
                if self.rules.incarnation != before:
                    self.reports.clear()  # measured with assignments of another life
            return True
        if status in (404, 409):
            self.training.world.history.add(
                "refused", job=self.training.job, rank=self.name, asked=asked, status=status, report=report is not None,
                life=self.training.life, incarnation=self.rules.incarnation,
                why=document.get("error", {}).get("message", ""))
        self.rules.refused(status)
        self.job_known = self.job_known and status != 404
        if status in (401, 403):
            while self.training.world.tokens.read(self.training.job) == token:
                await asyncio.sleep(0.2)
            return True
        self.failures += 1
        await self.pause(self.failures if status != 409 else 1)
        return True

    async def pause(self, failures):
        seconds = min(RETRY_S * 2 ** (failures - 1), LONGEST_RETRY_S)
        await asyncio.sleep(seconds * random.uniform(0.75, 1.25))

    async def listen(self):
        failures = 0
        while True:
            await self.runs.wait()
            if not self.rules.registered:
                await asyncio.sleep(0.1)
                continue
            connection = self.connection()
            try:
                failures = 0 if await self.hear(connection) else failures + 1
            except FAILURES:
                failures += 1
            finally:
                connection.close()
            await self.pause(max(1, failures))

    async def hear(self, connection):
        job, rules = self.training.job, self.rules
        asked = time.monotonic()
        async with asyncio.timeout(ANSWER_S):
            status, _, _ = await connection.send(
                "GET", f"/v1/jobs/{job}/events?data={rules.data}&stage={rules.stage}&tensor=0&session={rules.session}",
                self.training.world.tokens.read(job))
        if status != 200:
            return False
        heard = False
        while rules.registered:
            line = await connection.reader.readline()
            await self.runs.wait()
            if not line:
                return heard
            heard = True
            if line.startswith(b'data: {"incarnation'):
                self.take(json.loads(line[6:]), asked)
            elif rules.registered:
                rules.confirmed = time.monotonic()
        return heard


class Training:
    """A job of simulated ranks in lock-step, and its machines."""

    def __init__(self, world, job, data, stages, micro_batches, iteration_s, machines):
        self.world, self.job, self.machines = world, job, machines
        self.model = Model(stages, micro_batches, iteration_s)
        self.random = random.Random(f"{world.seed} {job}")
        self.life, self.iteration = 0, 0
        self.data = data
        self.factor = {}  # (data, stage) -> slowdown factor
        self.broken = set()  # ranks that sometimes report impossible values
        self.ranks = []
        self.task = None

    def begin(self):
        """Begins a new start of training, with other processes."""
        self.life += 1
        self.run = f"run {self.life}"
        self.specification = self.model.specification(self.data)
        self.ranks = [Rank(self, data, stage, self.machines[(data + stage) % len(self.machines)])
                      for data in range(self.data) for stage in range(self.model.stages)]
        self.world.history.add("training", job=self.job, life=self.life, state="start", ranks=len(self.ranks))
        self.task = asyncio.create_task(self.train())

    def end(self):
        if self.task:
            self.task.cancel()
            self.world.history.add("training", job=self.job, life=self.life, state="end")
        for rank in self.ranks:
            rank.end()
        self.task, self.ranks, self.broken = None, [], set()

    def restart(self, data=None):
        """Restarts from the last checkpoint, perhaps with another number of pipelines."""
        self.end()
        self.data = data or self.data
        self.factor = {}  # other machines
        self.iteration -= self.iteration % 10
        self.begin()

    def first_server(self, rank):
        return (rank.rules.data + rank.rules.stage) % len(self.world.servers)

    def clocks(self, rank, assignment):
        if not assignment or assignment == (0, 0):
            return [CLOCKS[0]]
        clocks = rank.rules.assignments[assignment]["clocks_mhz"]
        return [clock or CLOCKS[0] for clock in clocks]

    async def train(self):
        while True:
            began = time.monotonic()
            assignments = {rank: rank.rules.in_force(self.iteration, began) for rank in self.ranks}
            took, reports = self.run_iteration(assignments, began)
            await asyncio.sleep(began + took - time.monotonic())
            for rank in self.ranks:
                await rank.runs.wait()  # the others wait for it at the gradient exchange
            for rank, report in reports.items():
                rank.reports.append(report)
                rank.news.set()
                rank.rules.forget_before(self.iteration)
            self.iteration += 1

    def run_iteration(self, assignments, began):
        stages = self.model.stages
        clocks = {rank: self.clocks(rank, assignment) for rank, assignment in assignments.items()}
        factors = {rank: self.factor.get((rank.rules.data, rank.rules.stage), 1.0) for rank in self.ranks}
        pipelines = [self.ranks[data * stages:(data + 1) * stages] for data in range(self.data)]
        took = max(self.model.pipeline_time([(clocks[rank], factors[rank]) for rank in ranks]) for ranks in pipelines)
        at_all_max = max(self.model.pipeline_time([([CLOCKS[0]], factors[rank]) for rank in ranks])
                         for ranks in pipelines)
        energy = all_max_energy = 0.0
        reports = {}
        for rank in self.ranks:
            stage = rank.rules.stage
            work = self.model.rank(stage, clocks[rank], factors[rank])
            used = sum(one[2] for one in work.values()) + BLOCKING_W * (took - sum(one[1] for one in work.values()))
            energy += used
            fastest = self.model.rank(stage, [CLOCKS[0]], factors[rank])
            all_max_energy += sum(one[2] for one in fastest.values()) + BLOCKING_W * (
                at_all_max - sum(one[1] for one in fastest.values()))
            reports[rank] = {"iteration": self.iteration, "assignment": assignments[rank], "time_s": took,
                             "energy_j": used * self.random.gauss(1, NOISE), "energy_error_j": used * NOISE,
                             "instructions": [self.instruction(backward, *one) for backward, one in work.items()]}
            if rank in self.broken and self.random.random() < 0.5:
                what, reports[rank] = made_wrong(reports[rank], self.random)
                reports[rank]["wrong"] = what
        self.world.history.add(
            "iteration", began, job=self.job, life=self.life, number=self.iteration, time_s=took, all_max_s=at_all_max,
            energy_j=energy, all_max_j=all_max_energy, slow=max(factors.values()),
            assignments={rank.name: assignment and [rank.rules.incarnation, *assignment]
                         for rank, assignment in assignments.items()})
        return took, reports

    def instruction(self, backward, count, seconds, joules):
        noise = self.random.gauss(1, NOISE)
        return {"name": "backward" if backward else "forward", "count": count, "time_s": seconds * noise,
                "energy_j": joules * noise, "energy_error_j": joules * NOISE}
