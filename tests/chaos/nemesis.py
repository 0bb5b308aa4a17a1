"""What goes wrong: a deck of faults, shuffled by the seed, of which one begins every few seconds, so that they overlap.
Each undoes itself."""

import asyncio
import os
import pathlib
import random
import signal

from chaos.checker import SLACK_S
from chaos.programs import LEASE_S, PATIENCE_S

# A node that is cut off for this long must return to the clocks found before, and stay there for some time.
LONG_CUT_S = PATIENCE_S + SLACK_S + 5


class Nemesis:
    def __init__(self, world):
        self.world, self.random = world, random.Random(f"{world.seed} nemesis")
        self.running = set()
        self.deck = []

    def faults(self):
        """Returns the faults of one round: those that found most bugs twice."""
        return [self.kill_server, self.kill_server, self.stop_server, self.stop_server, self.restart_server,
                self.cut_server_from_database, self.cut_server_from_database, self.cut_servers, self.isolate_server,
                self.cut_ranks, self.cut_ranks, self.restart_database, self.crash_database,
                self.fill_database, self.fill_agent, self.kill_agent, self.stop_agent, self.restart_agent,
                self.kill_trainer, self.stop_trainer, self.late_token, self.delete_job, self.restart_training,
                self.change_pipelines, self.stop_rank, self.declare_straggler, self.declare_straggler, self.slow_gpu,
                self.slow_real_gpus, self.report_wrong, self.report_wrong, self.start_without_database, self.intrude]

    async def run(self, seconds, pause_s):
        end = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < end:
            if not self.deck:
                self.deck = self.faults()
                self.random.shuffle(self.deck)
                self.deck.append(self.cut_node)  # popped first, since it takes longest
            fault = self.deck.pop()
            task = asyncio.create_task(self.one(fault))
            self.running.add(task)
            task.add_done_callback(self.running.discard)
            await asyncio.sleep(self.random.uniform(0.5, 1.5) * pause_s)

    async def one(self, fault):
        try:
            await fault()
        except asyncio.CancelledError:
            raise
        except Exception as error:  # a failed fault is reported, but does not end the run
            self.world.troubles.append(f"{fault.__name__}: {error!r}")

    async def settle(self):
        """Waits until all faults have ended."""
        while self.running:
            await asyncio.wait(set(self.running), timeout=60)

    def tell(self, fault, on, **where):
        self.world.history.add("fault", fault=fault, on=on, **where)

    def some(self, least, most):
        return self.random.uniform(least, most)

    # Servers.

    async def a_server(self):
        """Returns a server: mostly one that owns a job with training ranks."""
        if self.random.random() < 0.75:
            try:
                owners = await asyncio.to_thread(
                    self.world.database.execute, "SELECT s.url FROM harpe_owner o JOIN harpe_server s USING (server) "
                    "WHERE o.job IN ('large', 'medium', 'small', 'tiny') ORDER BY o.job")
            except RuntimeError:
                owners = ""  # the database is unavailable
            found = [server for server in self.world.servers for url in owners.splitlines() if server.address in url]
            if found:
                return self.random.choice(found)
        return self.random.choice(self.world.servers)

    async def kill_server(self):
        server = await self.a_server()
        self.tell("server killed", True, server=server.name)
        await asyncio.to_thread(server.end)
        await asyncio.sleep(self.some(0, 1.5 * LEASE_S))
        self.world.keep(server)

    async def restart_server(self):
        server = await self.a_server()
        self.tell("server restarted", True, server=server.name)
        await asyncio.to_thread(server.end, signal.SIGTERM, 20)
        self.world.keep(server)

    async def stop_server(self):
        server = await self.a_server()
        if not server.runs() or server.stopped:
            return
        self.tell("server stopped", True, server=server.name)
        server.stop()
        await asyncio.sleep(self.some(0.2, 2.5) * LEASE_S)
        server.go_on()
        self.tell("server stopped", False, server=server.name)

    # The network.

    async def cut(self, name, pairs, seconds, **where):
        """Cuts both directions, or one."""
        ways = [way for one, other in pairs for way in ((one, other), (other, one))]
        if self.random.random() < 0.3 and name != "node cut off":
            ways = ways[::2]
        self.tell(name, True, ways=ways, **where)
        for way in ways:
            self.world.network.cut(*way)
        await asyncio.sleep(seconds)
        for way in ways:
            self.world.network.heal(*way)
        self.tell(name, False, **where)

    async def cut_server_from_database(self):
        server = await self.a_server()
        await self.cut("server cut off from the database", [(server.name, "db")], self.some(0.3, 3) * LEASE_S)

    async def cut_servers(self):
        one = await self.a_server()
        other = self.random.choice([server for server in self.world.servers if server is not one])
        await self.cut("servers cut off from each other", [(one.name, other.name)], self.some(1, 6))

    async def isolate_server(self):
        server = await self.a_server()
        others = [name for name in self.world.network.number if name != server.name]
        pairs = [(server.name, other) for other in others]
        await self.cut("server cut off from all", pairs, self.some(0.5, 3) * LEASE_S)

    async def cut_ranks(self):
        machine = self.random.choice(self.world.machines)
        servers = self.random.sample(self.world.servers, self.random.choice([1, 1, 2, 3]))
        await self.cut("ranks cut off from servers", [(machine, server.name) for server in servers], self.some(1, 8))

    async def cut_node(self):
        agent = self.random.choice(self.world.agents)
        await self.cut("node cut off", [(agent.machine, server.name) for server in self.world.servers], LONG_CUT_S)

    # The database.

    async def restart_database(self):
        await self.database("database restarted", signal.SIGINT)

    async def crash_database(self):
        await self.database("database crashed", signal.SIGQUIT)

    async def database(self, name, how):
        async with self.world.database_lock:
            self.tell(name, True)
            await asyncio.to_thread(self.world.database.stop, how)
            await asyncio.sleep(self.some(0, 1.5 * LEASE_S))
            await asyncio.to_thread(self.world.database.start)
            self.tell(name, False)

    async def start_without_database(self):
        """Starts a server while the database is unavailable. It waits, logs that, and serves once the database is
        available."""
        server = await self.a_server()
        name = "server started without the database"
        async with self.world.database_lock:
            self.tell(name, True, server=server.name)
            await asyncio.to_thread(server.end, self.random.choice([signal.SIGKILL, signal.SIGTERM]), 20)
            await asyncio.to_thread(self.world.database.stop, signal.SIGINT)
            said = server.count_in_log("waits for its database")
            self.world.keep(server)
            process = server.process
            try:
                await self.world.until(lambda: process.poll() is not None
                                       or server.count_in_log("waits for its database") > said, 10, "")
            except RuntimeError:
                pass  # the checker finds it
            # Another fault may have ended or stopped the server in the meantime.
            is_disturbed = server.process is not process or server.ended_on_purpose or server.stopped
            self.world.history.add("waits", program=server.name, disturbed=is_disturbed, status=process.poll(),
                                   said=server.count_in_log("waits for its database") > said)
            await asyncio.sleep(self.some(0, 1.5 * LEASE_S))
            await asyncio.to_thread(self.world.database.start)
            self.tell(name, False, server=server.name)
        await self.world.answers(server)

    async def fill_database(self):
        """Fills PostgreSQL's disk. It ends if its log has no space, and is then started again."""
        async with self.world.database_lock:
            self.tell("disk of the database full", True)
            await asyncio.to_thread(self.world.database.disk.fill)
            await asyncio.sleep(self.some(1, 2.5 * LEASE_S))
            self.world.database.disk.free()
            await asyncio.sleep(0.2)
            if not self.world.database.runs():
                await asyncio.to_thread(self.world.database.stop, signal.SIGQUIT)
                await asyncio.to_thread(self.world.database.start)
            self.tell("disk of the database full", False)

    # Nodes.

    async def fill_agent(self):
        agent = self.random.choice(self.world.agents)
        self.tell("disk of an agent full", True, agent=agent.name)
        agent.disk.fill()
        await asyncio.sleep(self.some(1, 6))
        agent.disk.free()
        self.tell("disk of an agent full", False, agent=agent.name)

    async def kill_agent(self):
        agent = self.random.choice(self.world.agents)
        self.tell("agent killed", True, agent=agent.name)
        await asyncio.to_thread(agent.end)
        await asyncio.sleep(self.some(0, 3))
        self.world.keep(agent)

    async def restart_agent(self):
        agent = self.random.choice(self.world.agents)
        self.tell("agent restarted", True, agent=agent.name)
        await asyncio.to_thread(agent.end, signal.SIGTERM, 20)
        self.world.keep(agent)

    async def stop_agent(self):
        agent = self.random.choice(self.world.agents)
        if not agent.runs() or agent.stopped:
            return
        self.tell("agent stopped", True, agent=agent.name)
        agent.stop()
        await asyncio.sleep(self.some(0.5, 6))
        agent.go_on()
        self.tell("agent stopped", False, agent=agent.name)

    async def kill_trainer(self):
        trainer = self.random.choice(self.world.trainers)
        self.tell("trainer killed", True, trainer=trainer.name)
        await asyncio.to_thread(trainer.end)
        await asyncio.sleep(self.some(0, 2))
        self.world.keep(trainer)

    async def stop_trainer(self):
        """Stops one rank of a trainer; the others wait for it."""
        trainer = self.random.choice(self.world.trainers)
        if not trainer.runs():
            return
        ranks = pathlib.Path(f"/proc/{trainer.process.pid}/task/{trainer.process.pid}/children").read_text().split()
        if not ranks:
            return
        rank = int(self.random.choice(ranks))
        self.tell("real rank stopped", True, trainer=trainer.name)
        trainer.rank_stopped += 1
        os.kill(rank, signal.SIGSTOP)
        await asyncio.sleep(self.some(0.5, 1.5 * PATIENCE_S))
        trainer.rank_stopped -= 1
        try:
            os.kill(rank, signal.SIGCONT)
        except ProcessLookupError:
            pass  # it was killed in the meantime
        self.tell("real rank stopped", False, trainer=trainer.name)

    # Jobs.

    async def late_token(self):
        job = self.random.choice(self.world.jobs())
        self.tell("token late", True, job=job)
        self.world.late.add(job)
        await self.world.token_expired(job)
        await asyncio.sleep(self.some(1, PATIENCE_S + 2))
        self.world.late.discard(job)
        self.tell("token late", False, job=job)

    async def delete_job(self):
        job = self.random.choice(self.world.jobs())
        self.tell("job deleted", True, job=job)
        await self.world.user.delete(job)

    async def restart_training(self):
        training = self.random.choice(self.world.trainings)
        self.tell("training restarted", True, job=training.job)
        training.end()
        await asyncio.sleep(self.some(0, 2))
        training.restart()

    async def change_pipelines(self):
        training = self.random.choice(self.world.trainings)
        self.tell("training restarted with fewer or more pipelines", True, job=training.job)
        training.restart(training.whole - self.random.randrange(2))

    async def stop_rank(self):
        training = self.random.choice(self.world.trainings)
        if not training.ranks:
            return
        rank = self.random.choice(training.ranks)
        self.tell("rank stopped", True, job=training.job, rank=rank.name)
        rank.runs.clear()
        await asyncio.sleep(self.some(0.5, 1.5 * PATIENCE_S))
        rank.runs.set()
        self.tell("rank stopped", False, job=training.job, rank=rank.name)

    async def declare_straggler(self):
        training = self.random.choice(self.world.trainings)
        self.tell("straggler declared", True, job=training.job)
        await self.world.user.straggle(training, self.some(3, 12), True)

    async def slow_gpu(self):
        training = self.random.choice(self.world.trainings)
        self.tell("GPU slowed", True, job=training.job)
        await self.world.user.straggle(training, self.some(5, 15), False)

    async def slow_real_gpus(self):
        """Slows down the GPUs of one pipeline of a trainer, which the server has to detect."""
        trainer = self.random.choice(self.world.trainers)
        self.tell("real GPUs slowed", True, trainer=trainer.name)
        pipeline, factor = self.random.randrange(2), self.some(1.1, 1.5)
        trainer.control.write_text(f"slow {pipeline} {factor:.2f}\n")
        await asyncio.sleep(self.some(5, 15))
        trainer.control.write_text(f"slow {pipeline} 1\n")
        self.tell("real GPUs slowed", False, trainer=trainer.name)

    async def report_wrong(self):
        """Makes some ranks report impossible energies and times from time to time."""
        training = self.random.choice(self.world.trainings)
        if not training.ranks:
            return
        ranks = self.random.sample(training.ranks, self.random.randint(1, 4))
        self.tell("wrong reports", True, job=training.job, ranks=[rank.name for rank in ranks])
        training.broken.update(ranks)
        await asyncio.sleep(self.some(5, 15))
        training.broken.difference_update(ranks)
        self.tell("wrong reports", False, job=training.job)

    async def intrude(self):
        self.tell("attempts without rights", True)
        await self.world.user.intrude()
