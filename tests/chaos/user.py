"""Users of the jobs: they declare stragglers, set objectives, look, delete and register, and one without rights tries to.
What each asked, and what was answered, stands in the history."""

import asyncio
import random
import subprocess
import time

from chaos.programs import INTRUDER_USER, as_another
from chaos.ranks import Connection

KEPT = ("incarnation", "epoch", "objective", "stragglers", "phase", "version", "ranks_unheard", "ranks_registered", "saved_j",
        "saved_error_j", "energies_refused", "reports_unused", "assignments_late", "factor", "specification", "deleted")

# Slowdowns for jobs with long iterations. Jobs with short ones complete windows of 100 iterations within a minute, and
# are compared with all-max: a looser objective in between would hide violations.
WISHES = (0.0, 0.02, 0.1, 0.3)


class User:
    def __init__(self, world):
        self.world = world
        self.random = random.Random(f"{world.seed} user")
        self.looks, self.lookers, self.kept = True, 0, {}
        self.value = 0  # makes every objective unique

    async def ask(self, job, what, method, path, body=None, token=None, value=None, kind="ask", server=None):
        via = self.random.randrange(len(self.world.servers)) if server is None else server
        connection = Connection(self.world.network, None, self.world.servers[via].address)
        asked = time.monotonic()
        response = await connection.ask(method, path, self.world.user_token if token is None else token, body)
        connection.close()
        status, document = response or (None, {})
        message = document.get("error", {}).get("message")
        self.world.history.add(kind, job=job, what=what, value=value, asked=asked, via=via, status=status,
                               message=message, document={name: document[name] for name in KEPT if name in document})
        return response

    def read(self, job, server=None):
        return self.ask(job, "read", "GET", f"/v1/jobs/{job}", server=server)

    def put(self, job, specification):
        return self.ask(job, "put", "PUT", f"/v1/jobs/{job}", specification)

    def delete(self, job):
        return self.ask(job, "delete", "DELETE", f"/v1/jobs/{job}")

    async def set_objective(self, job):
        """Sets an objective. Reads the incarnation before and after, to know the life that the objective belongs to."""
        self.value += 1
        slowdown = (self.random.choice(WISHES) if job in ("large", "medium") else 0) + self.value * 1e-6
        await self.read(job)
        response = await self.ask(job, "objective", "PUT", f"/v1/jobs/{job}/objective", {"slowdown": slowdown}, value=slowdown)
        await self.read(job)
        return response

    async def declare(self, training, pipeline, factor):
        return await self.ask(training.job, "straggler", "PUT", f"/v1/jobs/{training.job}/stragglers/{pipeline}",
                              {"factor": factor}, value=[pipeline, factor])

    async def heal(self, training, pipeline):
        return await self.ask(training.job, "heal", "DELETE", f"/v1/jobs/{training.job}/stragglers/{pipeline}",
                              value=[pipeline])

    async def straggle(self, training, hold_s, declared):
        """Slows down a pipeline of the model for a while: in all of its stages, or in one."""
        life, pipeline = training.life, self.random.randrange(training.data)
        factor = round(self.random.uniform(1.1, 1.5), 3)
        stages = range(training.model.stages) if declared else [self.random.randrange(training.model.stages)]
        training.factor.update({(pipeline, stage): factor for stage in stages})
        self.world.history.add("turned", job=training.job, slower=True)
        if declared:
            await self.declare(training, pipeline, factor)
        await asyncio.sleep(hold_s)
        if training.life != life:
            return  # after a restart on other machines
        for stage in stages:
            training.factor.pop((pipeline, stage), None)
        self.world.history.add("turned", job=training.job, slower=False)
        while declared and training.life == life:
            response = await self.heal(training, pipeline)
            if response is not None and response[0] < 500:
                return
            await asyncio.sleep(0.5)

    async def look(self):
        """Reads jobs until the end of the run: training ones, and some that are only registered and deleted."""
        self.lookers += 1
        # Jobs of this user only, with one request per job at a time.
        prefix, kept, number = f"kept{self.lookers}.", {}, 0
        while self.looks:
            await asyncio.sleep(0.15)
            training = self.random.choice(self.world.trainings)
            choice = self.random.random()
            if choice < 0.35:
                await self.read(training.job)
            elif choice < 0.45:
                await self.set_objective(training.job)
            elif choice < 0.6 or not kept:
                number += 1
                job = f"{prefix}{number}"
                kept[job] = training.model.specification(1)
                await self.put(job, kept[job])
            elif choice < 0.7:
                await self.delete(self.random.choice(list(kept)))
            elif choice < 0.8:
                await self.set_objective(self.random.choice(list(kept)))
            elif choice < 0.85:
                job = self.random.choice(list(kept))
                await self.put(job, kept[job])
            else:
                await self.read(self.random.choice(list(kept)))
            self.kept.update(kept)

    async def look_at_all(self):
        """Reads every job from every server, at the end."""
        jobs = [training.job for training in self.world.trainings]
        jobs += self.random.sample(list(self.kept), min(30, len(self.kept)))
        for job in jobs:
            for server in range(len(self.world.servers)):
                await self.read(job, server)

    async def intrude(self):
        """Sends requests that a client without rights may try, to jobs of others and to a node's agent."""
        training = self.random.choice(self.world.trainings)
        tokens = {"none": "", "of another job": self.world.tokens.read("other"), "to read": self.world.reader_token,
                  "that has expired": self.world.expired_token}
        path = f"/v1/jobs/{training.job}"
        rank = {"data": 0, "stage": 0, "session": "intruder", "clocks_mhz": [1005]}
        tries = [("PUT", path + "/objective", {"least_energy": True}), ("PUT", path + "/stragglers/0", {"factor": 3}),
                 ("DELETE", path, None), ("POST", path + "/ranks", {**rank, "run": "intruder", "take_over": True}),
                 ("PUT", path, training.model.specification(1)),
                 ("POST", path + "/reports", {"data": 0, "stage": 0, "session": training.ranks[0].rules.session
                                              if training.ranks else "s", "iteration": 10**6, "time_s": 1e6})]
        for name, token in tokens.items():
            method, where, body = self.random.choice(tries)
            await self.ask(training.job, f"{method} {where} with token {name}", method, where, body, token=token,
                           kind="intruder")
        agent = self.random.choice(self.world.agents)
        if not agent.runs() or agent.stopped:
            return
        tried = await asyncio.create_subprocess_exec(
            *as_another(INTRUDER_USER), agent.harpe, "clock", "set", "300", "--gpus", "0", "--socket", agent.socket,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            status = await asyncio.wait_for(tried.wait(), 10)
        except TimeoutError:
            tried.kill()
            return
        status = 200 if status == 0 else 403
        self.world.history.add("intruder", job=agent.name, what="harpe clock set 300", status=status)
