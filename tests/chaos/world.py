"""All that takes part in a run, and what keeps it going: programs are started again as a service manager would, tokens are
renewed, and what GPUs and programs hold is looked at all the time."""

import asyncio
import json
import signal
import subprocess
import time

from chaos.history import History
from chaos.network import Network
from chaos.nemesis import Nemesis
from chaos.programs import Agent, Database, Server, Trainer
from chaos.ranks import Tokens, Training
from chaos.user import User

SERVERS, NODES, MACHINES = ("s0", "s1", "s2"), ("n0", "n1"), ("r0", "r1", "r2", "r3")
# Job, pipelines, stages, micro-batches, seconds of an iteration: 192 light ranks, in addition to 8 real ones.
JOBS = (("large", 16, 6, 4, 1.2), ("medium", 12, 4, 4, 0.8), ("small", 8, 4, 4, 0.5), ("tiny", 8, 2, 4, 0.35))
GPUS = 4
USERS = 3
PAUSE_S = 1.3  # mean time between faults
TOKEN_S = 12
RESTART_S = 1.0  # delay after which a service manager restarts a program


class World:
    def __init__(self, harpe, trainer, seed, folder):
        self.harpe, self.seed, self.folder = harpe, seed, folder
        self.troubles = []
        self.history = History(folder / "history.jsonl")
        self.network = Network([*SERVERS, "db", *NODES, *MACHINES])
        self.machines = MACHINES
        self.database = Database(self.network, folder)
        self.database_lock = asyncio.Lock()
        self.servers = [Server(name, self.network, self.history, folder / name, harpe, self.database.url)
                        for name in SERVERS]
        self.agents = [Agent(name, self.network, self.history, folder / name, harpe, GPUS) for name in NODES]
        self.tokens, self.late = Tokens(folder), set()
        self.expires = {}
        self.trainers = [
            Trainer(f"real{number}", agent, self.network, self.history, agent.folder, trainer, self.servers[number],
                    self.tokens.path(f"real{number}")) for number, agent in enumerate(self.agents)]
        self.trainings = [Training(self, job, data, stages, batches, seconds, self.machines)
                          for job, data, stages, batches, seconds in JOBS]
        for training in self.trainings:
            training.whole = training.data
        self.user, self.nemesis = User(self), Nemesis(self)
        self.kept_up = set()
        self.nodes = {}

    def jobs(self):
        return [training.job for training in self.trainings] + [trainer.name for trainer in self.trainers]

    # Tokens.

    async def issue(self, *options):
        made = await asyncio.create_subprocess_exec(
            self.harpe, "serve", "token", "issue", "--signing-key", self.servers[0].key, "--user", "chaos", *options,
            stdout=subprocess.PIPE)
        return (await made.communicate())[0].decode().strip()

    async def issue_for(self, job, name=None, seconds=TOKEN_S):
        began = time.time()
        token = await self.issue("--scope", "job-read,job-write", "--job", job, "--expires", f"{seconds}s")
        path = self.tokens.path(name or job)
        new = path.with_suffix(".new")
        new.write_text(token + "\n")
        new.rename(path)
        self.expires[name or job] = began + seconds

    async def token_expired(self, job):
        await asyncio.sleep(max(0.0, self.expires[job] - time.time()))

    async def renew_tokens(self):
        while True:
            for job in self.jobs():
                if job not in self.late and self.expires.get(job, 0) - time.time() < TOKEN_S / 2:
                    await self.issue_for(job)
            await asyncio.sleep(0.3)

    # Programs.

    def keep(self, program):
        """Keeps the program running from now on."""
        if not program.runs():
            program.start()
        self.kept_up.add(program)

    async def watch_programs(self):
        ended = {}
        while True:
            now = time.monotonic()
            for program in self.kept_up:
                program.look()
                if program.runs() or program.expected:
                    ended.pop(program, None)
                elif not program.ended_on_purpose and now - ended.setdefault(program, now) > RESTART_S:
                    program.start()
            self.watch_nodes()
            if self.database.process and not self.database.runs() and not self.database_lock.locked():
                async with self.database_lock:
                    self.history.add("program", program="database", state="down", by_itself=True)
                    await asyncio.to_thread(self.database.stop, signal.SIGQUIT)
                    await asyncio.to_thread(self.database.start)
            await asyncio.sleep(0.1)

    def watch_nodes(self):
        """Records whether a node's trainer certainly cannot reach its server, and whether a process that would then
        release clocks is stopped."""
        for trainer in self.trainers:
            server, agent = trainer.server, trainer.agent
            now = {"cut": not self.network.reaches(trainer.machine, server.name) or not server.runs() or server.stopped,
                   "held": trainer.rank_stopped > 0 or agent.stopped or not agent.runs()}
            for kind, on in now.items():
                if on != self.nodes.get((kind, trainer.machine), False):
                    self.nodes[kind, trainer.machine] = on
                    self.history.add(kind, node=trainer.machine, on=on)

    # Observations.

    async def agent_says(self, agent, path):
        reader, writer = await asyncio.open_unix_connection(str(agent.socket))
        try:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            return json.loads((await reader.read()).partition(b"\r\n\r\n")[2])
        finally:
            writer.close()

    async def look_at_gpus(self):
        while True:
            for agent in self.agents:
                begin = time.monotonic()
                try:
                    async with asyncio.timeout(2):
                        before = await self.agent_says(agent, "/v1/leases")
                        locks = [(await self.agent_says(agent, f"/v1/gpus/{gpu}")).get("locked_clocks_mhz")
                                 for gpu in range(agent.gpus)]
                        after = await self.agent_says(agent, "/v1/leases")
                except (OSError, TimeoutError, ValueError, AttributeError):
                    self.history.add("gpu", node=agent.name, begin=begin, locks=None)
                    continue
                leased = {gpu for response in (before, after) for lease in response["leases"] for gpu in lease["gpus"]}
                self.history.add("gpu", node=agent.name, begin=begin, locks=locks, leased=sorted(leased),
                                 found=[agent.found(gpu) for gpu in range(agent.gpus)])
            await asyncio.sleep(0.5)

    async def look_at_memory(self):
        while True:
            await asyncio.sleep(2)
            for program in [*self.servers, *self.agents]:
                if program.runs():
                    try:
                        program.memory()
                    except (OSError, KeyError):
                        pass  # it has just ended

    # A run.

    async def begin(self):
        async with self.database_lock:
            await asyncio.to_thread(self.database.start)
        for program in [*self.servers, *self.agents]:
            self.keep(program)
        await self.renew_once()
        for server in self.servers:
            await self.answers(server)
        for training in self.trainings:
            training.begin()
        for trainer in self.trainers:
            self.keep(trainer)
        await self.until(lambda: all(training.iteration >= 3 and all(rank.rules.assignments for rank in training.ranks)
                                     for training in self.trainings), 60, "all ranks have assignments")

    async def renew_once(self):
        self.user_token = await self.issue("--scope", "job-read,job-write", "--expires", "7d")
        self.reader_token = await self.issue("--scope", "job-read", "--expires", "7d")
        self.expired_token = await self.issue("--scope", "job-read,job-write", "--expires", "1s")
        await self.issue_for("another", "other", 7 * 24 * 3600)
        for job in self.jobs():
            await self.issue_for(job)

    async def answers(self, server):
        end = time.monotonic() + 30
        while True:
            response = await self.user.ask("none", "health", "GET", "/health", kind="health",
                                         server=self.servers.index(server))
            if response and response[0] == 200:
                return
            if time.monotonic() > end:
                raise RuntimeError(f"{server.name} does not respond: see {server.folder}")
            await asyncio.sleep(0.1)

    async def until(self, holds, seconds, what):
        end = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > end:
                raise RuntimeError(f"within {seconds} s it did not come that {what}")
            await asyncio.sleep(0.05)

    async def run(self, seconds):
        tasks = [asyncio.create_task(one()) for one in
                 (self.renew_tokens, self.watch_programs, self.look_at_gpus, self.look_at_memory)]
        try:
            await self.begin()
            users = [asyncio.create_task(self.user.look()) for _ in range(USERS)]
            began = time.monotonic()
            self.history.add("fault", fault="begin", on=True)
            await self.nemesis.run(seconds, PAUSE_S)
            await self.nemesis.settle()
            self.history.add("fault", fault="end", on=False)
            self.user.looks = False
            await asyncio.gather(*users)  # waits until each request is in the history with its response
            await self.recovers()
            await self.user.look_at_all()
            self.history.add("end", seconds=time.monotonic() - began)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for training in self.trainings:
                training.end()
            await asyncio.to_thread(self.end)

    @staticmethod
    def free(training, now):
        """Returns the ranks without a server."""
        return [rank.name for rank in training.ranks
                if rank.rules.in_force(training.iteration, now) in (None, (0, 0))]

    async def recovers(self):
        """Waits until, without faults, every light rank has a server again, and every real one reports."""
        marks = {training: training.iteration for training in self.trainings}

        def well():
            now = time.monotonic()
            return all(training.iteration > marks[training] + 2 and not self.free(training, now)
                       for training in self.trainings)

        begin = time.monotonic()
        try:
            await self.until(well, 60, "all ranks are governed again")
        except RuntimeError as error:
            free = {training.job: self.free(training, time.monotonic()) for training in self.trainings}
            self.history.add("stuck", why=f"{error}: {free}")
        self.history.add("recovered", seconds=time.monotonic() - begin)
        before = {}
        for trainer in self.trainers:
            while True:
                response = await self.user.read(trainer.name)
                if response and response[0] == 200 and response[1]["ranks_registered"] == GPUS:
                    reports = response[1]["reports"]
                    if reports >= before.setdefault(trainer.name, reports) + 2 * GPUS:
                        break
                if time.monotonic() > begin + 90:
                    self.history.add("stuck", why=f"real ranks of {trainer.name} do not report: {response}")
                    break
                await asyncio.sleep(0.2)
        self.history.add("real ranks recovered", seconds=time.monotonic() - begin)

    def end(self):
        for trainer in self.trainers:
            trainer.control.write_text("stop\n")
        end = time.monotonic() + 8
        for trainer in self.trainers:
            while trainer.runs() and time.monotonic() < end:
                time.sleep(0.05)
            trainer.end()
        for agent in self.agents:
            orderly = agent.end(signal.SIGTERM, 20)
            time.sleep(0.1)
            self.history.add("last_gpu", node=agent.name, orderly=orderly, clocks=agent.idle_clocks(),
                             found=[agent.found(gpu) for gpu in range(agent.gpus)])
        for server in self.servers:
            server.end(signal.SIGTERM, 20)
        self.database.stop(signal.SIGQUIT)
        self.history.close()
