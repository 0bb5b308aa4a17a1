#!/usr/bin/env python3
"""The running agent, over plain sockets, as zeusd's clients and others meet it.
Usage: agent_conformance_test.py HARPE"""

import http.client
import json
import os
import pathlib
import pty
import signal
import shutil
import socket
import ssl
import subprocess
import sys
import time
import unittest

import agent_process
from agent_process import GPUS, POLICY, AgentTest, free_port, read_response

SET = "/gpu/set_power_limit?power_limit_mw={}&gpu_ids={}&block={}"


class Zeusd(AgentTest):
    """Tests zeusd's routes, status codes and bodies."""

    def setUp(self):
        super().setUp()
        self.start()
        self.connection = self.connect()  # its leases last as long as this process

    def post(self, target):
        return self.ask("POST", target, connection=self.connection)

    def get(self, target):
        return self.ask("GET", target, connection=self.connection)

    def test_discovery_and_time(self):
        found = self.get("/discover").json()
        self.assertEqual([gpu["id"] for gpu in found["gpus"]], [0, 1])
        self.assertEqual(set(found["gpus"][0]), {"id", "name", "pci_address", "cumulative_energy_available"})
        self.assertEqual(found["cpus"], [{"id": 0, "dram_available": True}])
        self.assertEqual(found["enabled_api_groups"], ["gpu-control", "gpu-read", "cpu-read"])
        self.assertFalse(found["auth_required"])
        self.assertAlmostEqual(self.get("/time").json()["timestamp_ms"] / 1000, time.time(), delta=5)
        whoami = self.get("/auth/whoami")
        self.assertEqual((whoami.status, whoami.json()["error"]),
                         (404, "Authentication is not enabled on this server."))

    def test_every_write(self):
        for target in ["/gpu/set_power_limit?power_limit_mw=200000", "/gpu/set_persistence_mode?enabled=true",
                       "/gpu/set_gpu_locked_clocks?min_clock_mhz=900&max_clock_mhz=1200",
                       "/gpu/set_mem_locked_clocks?min_clock_mhz=7251&max_clock_mhz=7251",
                       "/gpu/reset_gpu_locked_clocks?", "/gpu/reset_mem_locked_clocks?", "/gpu/reset_locked_clocks?"]:
            for block in ["true", "false"]:
                response = self.post(f"{target}&gpu_ids=1,0,1&block={block}")
                self.assertEqual((response.status, response.body), (200, ""), target)
        self.assertEqual(self.limits(), [200, 200])

    def test_a_write_without_waiting_happens(self):
        self.assertEqual(self.post(SET.format(150000, 1, "false")).status, 200)
        self.wait_for(lambda: self.limits() == [300, 150])

    def test_wrong_writes_change_nothing(self):
        for target in ["/gpu/set_power_limit", SET.format("x", 0, "true"), SET.format(-1, 0, "true"),
                       SET.format(200000, 0, "maybe"), SET.format(200000, 0, "true") + "&more=1",
                       "/gpu/set_power_limit?power_limit_mw=200000&gpu_ids=0"]:
            self.assertEqual(self.post(target).status, 400, target)
        for ids, error in [("", "gpu_ids must contain at least one GPU index"),
                           ("0,,1", "gpu_ids contains an empty GPU index"), ("x", "Invalid GPU index: x")]:
            response = self.post(SET.format(200000, ids, "true"))
            self.assertEqual((response.status, response.json()), (400, {"error": error}))
        response = self.post(SET.format(200000, "0,9", "true"))
        self.assertEqual((response.status, response.body), (400, "GPU index 9 does not exist."))
        self.assertEqual(self.limits(), [300, 300])

    def test_errors_of_devices(self):
        denied = self.post(SET.format(290000, "0,1", "true"))
        self.assertEqual(denied.status, 403)
        self.assertEqual(sorted(denied.json()["errors"]), ["0", "1"])
        backwards = self.post("/gpu/set_gpu_locked_clocks?min_clock_mhz=1200&max_clock_mhz=900&gpu_ids=0&block=true")
        self.assertIn(backwards.status, (400, 403))
        self.assertEqual(self.limits(), [300, 300])

    def test_every_read(self):
        # The counter steps every 100 ms.
        self.wait_for(lambda: self.get("/gpu/get_cumulative_energy?gpu_ids=0").json()["0"]["energy_mj"] > 0)
        power = self.get("/gpu/get_power").json()
        self.assertEqual(sorted(power["power_mw"]), ["0", "1"])
        self.assertGreater(power["power_mw"]["0"], 1000)
        self.assertEqual(self.get("/gpu/get_power_limit?gpu_ids=1").json(), {"1": {"power_limit_mw": 300000}})
        self.assertEqual(self.get("/gpu/get_power_limit_constraints?gpu_ids=0").json(),
                         {"0": {"min_power_limit_mw": 100000, "max_power_limit_mw": 300000}})
        self.assertIn(self.get("/gpu/get_persistence_mode?gpu_ids=0").json()["0"]["enabled"], (True, False))
        self.assertEqual(self.get("/gpu/get_power?what=1").status, 400)
        missing = self.get("/gpu/get_power?gpu_ids=9")
        self.assertEqual((missing.status, missing.json()), (400, {"error": "GPU 9 not found"}))

    def test_cpu_reads(self):
        energy = self.get("/cpu/get_cumulative_energy?cpu=true&dram=false").json()["0"]
        self.assertGreaterEqual(energy["cpu_energy_uj"], 0)
        self.assertIsNone(energy["dram_energy_uj"])
        self.assertEqual(self.get("/cpu/get_cumulative_energy").status, 400)
        power = self.get("/cpu/get_power?cpu_ids=0").json()["power_mw"]["0"]
        self.assertAlmostEqual(power["cpu_mw"], 90000, delta=20000)
        self.assertAlmostEqual(power["dram_mw"], 12000, delta=4000)

    def events(self, target, count):
        connection = self.connect()
        connection.sendall(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        with connection.makefile("rb") as file:
            response = read_response(file)
            self.assertEqual(response.headers["content-type"], "text/event-stream")
            self.assertEqual(response.headers["cache-control"], "no-cache")
            found = []
            while len(found) < count:
                line = file.readline()
                self.assertTrue(line, "the stream ended")
                if line.startswith(b"data: "):
                    found.append(json.loads(line[6:]))
        return found

    def test_streams(self):
        event = self.events("/gpu/stream_power?gpu_ids=1", 2)[0]
        self.assertEqual((set(event), event["gpu_id"]), ({"timestamp_ms", "gpu_id", "power_mw"}, 1))
        self.assertAlmostEqual(event["timestamp_ms"] / 1000, time.time(), delta=5)
        event = self.events("/cpu/stream_power", 1)[0]
        self.assertEqual(set(event), {"timestamp_ms", "cpu_id", "cpu_mw", "dram_mw"})
        self.assertIn("power_w", self.events("/v1/power/stream", 1)[0])
        for kind in ["gpu", "cpu"]:
            response = self.get(f"/{kind}/stream_power?{kind}_ids=9")
            available = "[0, 1]" if kind == "gpu" else "[0]"
            self.assertEqual((response.status, response.json()["error"]),
                             (400, f"Unknown {kind.upper()} indices: [9]. Available: {available}"))


class Tokens(AgentTest):
    def over_tcp(self, method, target, token=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request(method, target, headers={"Authorization": f"Bearer {token}"} if token else {})
        response = connection.getresponse()
        body = response.read().decode()
        connection.close()
        return response.status, body, response.headers

    def start_tcp(self, *options):
        self.port = free_port()
        self.start("--tcp", f"127.0.0.1:{self.port}", "--signing-key", self.key, *options)

    def test_checks_in_zeusds_order(self):
        self.start_tcp("--enable", "gpu-read,cpu-read")
        status, body, _ = self.over_tcp("POST", SET.format(200000, 0, "true"))
        self.assertEqual((status, json.loads(body)["error"]),
                         (404, "API group 'gpu-control' is not enabled on this server."))
        self.assertTrue(json.loads(self.over_tcp("GET", "/discover")[1])["auth_required"])
        self.assertEqual(self.over_tcp("GET", "/time")[0], 200)
        status, _, headers = self.over_tcp("GET", "/gpu/get_power")
        self.assertEqual((status, headers["WWW-Authenticate"]), (401, 'Bearer realm="zeusd"'))
        self.assertEqual(self.over_tcp("GET", "/gpu/get_power", "a.b.c")[0], 401)
        self.assertEqual(self.over_tcp("GET", "/gpu/get_power", self.token("cpu-read"))[0], 403)
        self.assertEqual(self.over_tcp("GET", "/gpu/get_power", self.token("gpu-read"))[0], 200)
        short = self.token("gpu-read", "1s")
        self.wait_for(lambda: self.over_tcp("GET", "/gpu/get_power", short)[0] == 401)
        self.assertEqual(json.loads(self.over_tcp("GET", "/gpu/get_power", short)[1]), {"error": "Token has expired."})
        who = json.loads(self.over_tcp("GET", "/auth/whoami", self.token("gpu-read,cpu-read", "never"))[1])
        self.assertEqual(who, {"sub": "alice", "scopes": ["gpu-read", "cpu-read"]})

    def test_a_token_sets_what_the_policy_allows(self):
        self.start_tcp()
        token = self.token("gpu-control,gpu-read")
        self.assertEqual(self.over_tcp("POST", SET.format(200000, 0, "true"), token)[0], 200)
        self.assertEqual(self.over_tcp("POST", SET.format(290000, 0, "true"), token)[0], 403)
        self.assertEqual(self.limits(), [200, 300])
        self.assertEqual(self.stop(), 0)

    def test_tls(self):
        certificate, key = self.folder / "cert.pem", self.folder / "key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate,
                        "-days", "1", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"],
                       check=True, capture_output=True)
        key.chmod(0o644)
        options = ["--tcp", f"127.0.0.1:{free_port()}", "--signing-key", self.key, "--tls-certificate", certificate,
                   "--tls-key", key]
        self.assertIn("chmod 600", self.refused_start(*options))
        key.chmod(0o600)
        self.start_tcp("--tls-certificate", certificate, "--tls-key", key)
        context = ssl.create_default_context(cafile=certificate)
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=20, context=context)
        for _ in range(3):
            connection.request("GET", "/gpu/get_power", headers={"Authorization": f"Bearer {self.token('gpu-read')}"})
            response = connection.getresponse()
            self.assertEqual(response.status, 200)
            response.read()
        self.assertGreaterEqual(connection.sock.version(), "TLSv1.2")
        connection.close()
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as plain:
            plain.sendall(b"GET /time HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertNotIn(b"timestamp_ms", plain.recv(4096))

    def test_what_would_be_unsafe_is_refused(self):
        self.assertIn("--signing-key", self.refused_start("--tcp", "127.0.0.1:1"))
        self.assertIn("--tls-certificate", self.refused_start("--tcp", "0.0.0.0:1", "--signing-key", self.key))
        self.key.chmod(0o644)
        self.assertIn("chmod 600", self.refused_start("--tcp", "127.0.0.1:1", "--signing-key", self.key))
        self.policy.chmod(0o666)
        self.assertIn("policy.toml", self.refused_start())


class Leases(AgentTest):
    def test_one_holder_a_gpu_and_everything_back_at_the_end(self):
        self.start()
        taken = self.ask("POST", "/v1/leases", {"gpus": [0], "duration_s": 600, "ends_with_process": False})
        self.assertEqual(taken.status, 201, taken.body)
        lease = f"/v1/leases/{taken.json()['id']}"
        self.assertEqual(self.ask("POST", "/v1/leases", {"gpus": [0, 1]}).status, 409)
        self.assertEqual(self.ask("POST", SET.format(200000, 0, "true")).status, 409)
        applied = self.ask("POST", f"{lease}/settings", {"gpus": [0], "power_limit_w": 220})
        self.assertEqual((applied.status, applied.json()["applied"]["0"]["power_limit_w"]), (200, 220))
        self.assertEqual(self.limits(), [220, 300])
        self.assertEqual(self.ask("POST", f"{lease}/renew", {"duration_s": 900}).status, 200)
        self.assertEqual(self.ask("DELETE", lease).status, 200)
        self.assertEqual(self.limits(), [300, 300])

    def test_a_killed_client_leaves_nothing_behind(self):
        self.start()
        code = ("import http.client, socket, sys, time\n"
                "c = http.client.HTTPConnection('x'); c.sock = socket.socket(socket.AF_UNIX)\n"
                "c.sock.connect(sys.argv[1])\n"
                f"c.request('POST', '{SET.format(200000, 0, 'true')}'); print(c.getresponse().status, flush=True)\n"
                "time.sleep(600)\n")
        client = subprocess.Popen([sys.executable, "-c", code, self.socket], stdout=subprocess.PIPE, text=True)
        self.assertEqual(client.stdout.readline().strip(), "200")
        self.assertEqual(self.limits(), [200, 300])
        client.kill()
        client.wait()
        client.stdout.close()
        self.wait_for(lambda: self.limits() == [300, 300])

    def test_a_stopped_agent_puts_everything_back(self):
        self.start()
        lease = self.ask("POST", "/v1/leases", {"gpus": [1], "duration_s": 600, "ends_with_process": False}).json()
        self.ask("POST", f"/v1/leases/{lease['id']}/settings", {"gpus": [1], "power_limit_w": 220})
        self.assertEqual(self.limits(), [300, 220])
        self.assertEqual(self.stop(), 0)
        self.assertFalse(self.socket.exists())
        self.start()
        self.assertEqual(self.limits(), [300, 300])

    def test_a_dry_run_changes_nothing(self):
        self.start("--dry-run")
        connection = self.connect()
        self.assertEqual(self.ask("POST", SET.format(200000, 0, "true"), connection=connection).status, 200)
        self.assertEqual(self.limits(), [300, 300])
        self.assertTrue(self.ask("GET", "/health").json()["dry_run"])
        lease = self.ask("POST", "/v1/leases", {"gpus": [1], "duration_s": 600, "ends_with_process": False}).json()
        applied = self.ask("POST", f"/v1/leases/{lease['id']}/settings", {"gpus": [1], "power_limit_w": 250}).json()
        self.assertTrue(applied["applied"]["1"]["dry_run"])
        self.assertEqual(self.limits(), [300, 300])


class Crashes(AgentTest):
    """A killed agent leaves a GPU changed. The next one restores it, even if it then cannot serve."""

    def crash(self):
        self.start()
        lease = self.ask("POST", "/v1/leases", {"gpus": [1], "duration_s": 600, "ends_with_process": False}).json()
        self.ask("POST", f"/v1/leases/{lease['id']}/settings", {"gpus": [1], "power_limit_w": 220})
        self.assertEqual(self.limits(), [300, 220])
        self.agent.kill()
        self.agent.wait(30)
        self.agent.stderr.close()
        self.assertEqual(self.left(), 1)

    def left(self):
        """Returns the number of GPUs to restore according to the state file."""
        return len(json.loads((self.folder / "agent-state.json").read_text())["gpus"])

    def test_a_start_that_fails_puts_back_first(self):
        for what in [self.break_policy, self.break_audit_log, self.break_log, self.break_socket, self.break_key]:
            with self.subTest(what.__name__):
                self.crash()
                options, mend = what()
                self.refused_start(*options)
                self.assertEqual(self.left(), 0)
                mend()
                self.start()
                self.assertEqual(self.limits(), [300, 300])
                self.stop()

    def break_policy(self):
        whole = self.policy.read_text()
        self.policy.write_text("[[allow")
        return [], lambda: self.policy.write_text(whole)

    def break_audit_log(self):
        log = self.folder / "agent-audit.jsonl"
        log.unlink()
        os.mkfifo(log, 0o600)  # opening it blocks until there is a reader
        return [], log.unlink

    def break_log(self):
        (self.folder / "log").unlink()
        os.mkfifo(self.folder / "log", 0o600)
        return [], (self.folder / "log").unlink

    def break_socket(self):
        self.socket.unlink()  # the socket of the killed agent
        self.socket.write_text("")
        return [], self.socket.unlink

    def break_key(self):
        return ["--signing-key", self.folder / "none"], lambda: None


@unittest.skipIf(os.geteuid() != 0, "only root can make cgroups and devices")
class Requirements(AgentTest):
    """A policy that gives users only their own GPUs."""

    def setUp(self):
        super().setUp()
        for number, minor in enumerate([3, 5]):  # /dev/null and /dev/zero represent GPUs
            os.mknod(self.folder / f"nvidia{number}", 0o20666, os.makedev(1, minor))
        self.simulation.write_text(f'state_file = "{self.folder}/state"\n' + GPUS.replace(
            "count = 2", f'count = 2\ndevice_file_prefix = "{self.folder}/nvidia"'))
        self.policy.write_text('[[allow]]\nusers = ["*"]\ngpus = ["*"]\npower_limit_w = [100, 280]\n'
                               'requires = ["device"]\n[[allow]]\nusers = ["*"]\ngpus = ["*"]\nread = true\n')
        self.cgroup = pathlib.Path(f"/sys/fs/cgroup/devices/harpe-test-{os.getpid()}")
        try:
            self.cgroup.mkdir()
        except OSError:
            self.skipTest("there are no device cgroups (v1)")
        self.addCleanup(lambda: self.cgroup.exists() and self.cgroup.rmdir())
        (self.cgroup / "devices.deny").write_text("a")
        (self.cgroup / "devices.allow").write_text("c 1:3 rwm")

    def in_cgroup(self, gpu):
        code = ("import http.client, json, os, socket, sys\n"
                "open(sys.argv[2], 'w').write(str(os.getpid()))\n"
                "def ask(path, body):\n"
                "    c = http.client.HTTPConnection('x'); c.sock = socket.socket(socket.AF_UNIX)\n"
                "    c.sock.connect(sys.argv[1]); c.request('POST', path, json.dumps(body))\n"
                "    a = c.getresponse(); return a.status, json.loads(a.read())\n"
                "status, lease = ask('/v1/leases', {'gpus': [int(sys.argv[3])], 'duration_s': 600,\n"
                "                                   'ends_with_process': False})\n"
                "if status == 201:\n"
                "    ask(f'/v1/leases/{lease[\"id\"]}/settings', {'gpus': [0], 'power_limit_w': 200})\n"
                "print(status)\n")
        run = subprocess.run([sys.executable, "-c", code, self.socket, self.cgroup / "cgroup.procs", str(gpu)],
                             capture_output=True, text=True, check=True)
        return int(run.stdout)

    def test_a_client_gets_the_gpus_of_its_cgroup_while_that_lasts(self):
        self.start()
        refused = self.ask("POST", "/v1/leases", {"gpus": [0]})
        self.assertEqual(refused.status, 403)
        self.assertIn("requires = device", refused.body)
        self.assertEqual(self.in_cgroup(1), 403)
        self.assertEqual(self.in_cgroup(0), 201)
        self.assertEqual(self.limits(), [200, 300])
        self.cgroup.rmdir()  # as a batch system does at the end of a job
        self.wait_for(lambda: self.limits() == [300, 300])
        self.assertIn('"right_lost"', (self.folder / "agent-audit.jsonl").read_text())


class Auditing(AgentTest):
    def lines(self):
        return [json.loads(line) for line in (self.folder / "agent-audit.jsonl").read_text().splitlines()]

    @unittest.skipIf(os.geteuid() != 0, "only root can become another user")
    def test_a_user_without_rights_does_not_fill_the_log(self):
        self.policy.write_text(POLICY.replace('"*"]\ntokens', '"root"]\ntokens'))
        self.folder.chmod(0o755)
        self.start()
        body = b'{"gpus": [0]}'
        request = b"POST /v1/leases HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        child = os.fork()
        if child == 0:
            os.setgid(12345)
            os.setuid(12345)
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(self.socket))
                with connection.makefile("rb") as file:
                    for _ in range(3000):
                        connection.sendall(request)
                        if read_response(file).status != 403:
                            os._exit(1)
            os._exit(0)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertLessEqual(len(self.lines()), 3)
        self.assertIn("harpe_agent_refusals_total 3000\n", self.ask("GET", "/metrics").body)
        self.stop()
        mine = [line for line in self.lines() if line["uid"] == 12345]
        self.assertEqual(sum(line.get("count", 1) for line in mine), 3000)

    def test_it_goes_on_in_a_new_file_after_a_rotation(self):
        self.start()
        self.ask("POST", SET.format(200000, 0, "true"))
        log, old = self.folder / "agent-audit.jsonl", self.folder / "agent-audit.jsonl.1"
        log.rename(old)
        self.agent.send_signal(signal.SIGHUP)
        self.wait_for(log.exists)
        self.assertEqual(log.stat().st_mode & 0o777, 0o640)
        before = len(old.read_text().splitlines())
        self.ask("POST", SET.format(210000, 0, "true"))
        self.assertGreater(len(self.lines()), 0)
        self.assertEqual(len(old.read_text().splitlines()), before)

    def test_a_log_that_cannot_be_written_is_told_and_the_policy_says_what_it_means(self):
        self.start()  # creates the simulated GPUs, which are also a file
        self.stop()
        for when_full, status in [("deny", 503), ("allow", 201)]:
            with self.subTest(when_full):
                self.policy.write_text(f'{POLICY}[audit]\nwhen_full = "{when_full}"\n')
                self.write("agent-audit.jsonl", "{}\n" * (LARGEST // 3))
                self.start(preexec_fn=short_files)
                taken = self.ask("POST", "/v1/leases", {"gpus": [0], "ends_with_process": False})
                self.assertEqual(taken.status, status, taken.body)
                health = self.ask("GET", "/health").json()
                self.assertEqual(health["status"], "degraded")
                self.assertIn("the audit log cannot be written", health["troubles"][0])
                self.assertIn("harpe_agent_degraded 1\n", self.ask("GET", "/metrics").body)
                self.assertIn("the audit log cannot be written", (self.folder / "log").read_text())
                self.stop()
                (self.folder / "log").unlink()


LARGEST = 16384  # the state file fits within this


def short_files():
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST, LARGEST))


class Service(AgentTest):
    """Tests the interfaces to systemd and monitoring."""

    def test_it_tells_when_it_is_ready_alive_and_stopping(self):
        notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(notify.close)
        notify.settimeout(20)
        notify.bind(str(self.folder / "notify"))
        self.start(env={**os.environ, "NOTIFY_SOCKET": str(self.folder / "notify"), "WATCHDOG_USEC": "200000"})
        self.assertEqual(notify.recv(100), b"READY=1")
        self.assertEqual(notify.recv(100), b"WATCHDOG=1")
        self.assertEqual(notify.recv(100), b"WATCHDOG=1")
        self.agent.terminate()
        while (word := notify.recv(100)) == b"WATCHDOG=1":
            pass
        self.assertEqual(word, b"STOPPING=1")

    def test_it_serves_a_socket_that_was_opened_for_it(self):
        listening = socket.socket(socket.AF_UNIX)
        self.addCleanup(listening.close)
        listening.bind(str(self.socket))
        listening.listen()

        # The shell keeps its process id through exec, like systemd's child.
        command = ["/bin/sh", "-c", 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"', "sh", *map(str, self.command())]
        duplicate = os.dup(listening.fileno())
        self.addCleanup(os.close, duplicate)

        def pass_socket():
            os.dup2(duplicate, 3)
            os.set_inheritable(3, True)

        self.agent = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=pass_socket,
                                      close_fds=False)
        self.addCleanup(self.stop)
        while "listening on" not in self.agent.stderr.readline():
            pass
        self.assertEqual(self.ask("GET", "/time").status, 200)
        self.agent.terminate()
        self.agent.wait(30)
        self.assertTrue(self.socket.exists())

    def test_it_ends_in_order_when_its_terminal_closes(self):
        child, terminal = pty.fork()
        if child == 0:
            try:
                os.execv(self.command()[0], [str(part) for part in self.command()])
            finally:
                os._exit(127)
        printed = b""
        while b"listening on" not in printed:
            printed += os.read(terminal, 4096)
        os.close(terminal)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        self.assertFalse(self.socket.exists())

    def test_its_log_is_reopened(self):
        self.start()
        log = self.folder / "log"
        log.touch()
        log.rename(self.folder / "log.1")
        self.agent.send_signal(signal.SIGHUP)
        self.wait_for(lambda: log.exists() and "reopened" in log.read_text())
        self.assertEqual(self.ask("GET", "/time").status, 200)

    def another_simulation(self):
        """Replaces the GPUs for agents started from here on."""
        self.simulation = self.write("sim2.toml", f'state_file = "{self.folder}/sim2.state"\n{GPUS}')

    def test_a_start_that_fails_leaves_no_socket(self):
        self.start()
        first, self.socket = self.socket, self.folder / "agent2.sock"
        state = ["--state-file", self.folder / "agent-state.json"]
        self.assertIn(f"another agent (process {self.agent.pid}) is running with the state file",
                      self.refused_start(*state))
        self.assertFalse(self.socket.exists())
        self.assertTrue(first.exists())
        own = ["--state-file", self.folder / "state2.json"]
        self.assertRegex(self.refused_start(*own), rf"another agent \(process {self.agent.pid}\) is running with GPU 0")
        self.another_simulation()
        self.refused_start(*own, "--clock-socket", self.folder / "nodir" / "c")
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            self.refused_start(*own, "--tcp", f"127.0.0.1:{taken.getsockname()[1]}", "--signing-key", self.key)
        tls = ["--tls-certificate", self.key, "--tls-key", self.key]
        self.refused_start(*own, "--tcp", "127.0.0.1:0", "--signing-key", self.key, *tls)
        if os.geteuid() != 0:
            self.refused_start(*own, "--socket-owner", "0")
        self.assertEqual(list(self.folder.glob("*.sock")).count(self.socket), 0)

    def test_gpus_of_the_policy_that_are_not_there_are_said(self):
        self.policy.write_text(self.policy.read_text() + '[[allow]]\nusers = ["*"]\ngpus = ["9", "GPU-zz"]\nread = true\n')
        self.start()
        self.assertIn("the policy names GPUs that this node does not have (harpe devices): 9, gpu-zz",
                      (self.folder / "log").read_text())

    def test_directories_are_not_made(self):
        nowhere = self.folder / "none"
        self.assertIn("the directory does not exist: create it first",
                      self.refused_start("--audit-log", nowhere / "audit.jsonl"))
        self.socket = nowhere / "agent.sock"
        self.assertIn("the directory does not exist: create it first", self.refused_start())
        self.assertFalse(nowhere.exists())

    def test_a_simulation_does_not_take_the_place_of_the_real_agent(self):
        command = [self.harpe, "agent", "--policy", self.policy]
        for how in [{"args": ["--simulate", self.simulation]}, {"env": {"HARPE_SIMULATION": str(self.simulation)}}]:
            run = subprocess.run([*command, *how.get("args", [])], capture_output=True, text=True, timeout=60,
                                 env={**os.environ, **how.get("env", {})})
            self.assertEqual(run.returncode, 2)
            self.assertIn("needs its own --socket", run.stderr)

    def test_its_lines_have_one_form(self):
        for environment, stamp in [({}, r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ "), ({"JOURNAL_STREAM": "here"}, "")]:
            read, write = os.pipe()
            self.addCleanup(os.close, read)
            status = os.fstat(write)
            stream = {name: f"{status.st_dev}:{status.st_ino}" for name in environment}
            command = [part for part in self.command() if part not in ("--log", self.folder / "log")]
            agent = subprocess.Popen(command, stderr=write, env={**os.environ, **stream})
            os.close(write)
            with os.fdopen(os.dup(read)) as lines:
                said = []
                while not said or "listening on" not in said[-1]:
                    said.append(lines.readline())
                agent.terminate()
                said += lines.readlines()
            self.assertEqual(agent.wait(30), 0)
            self.assertIn("stopped", said[-1])
            for line in said:
                self.assertRegex(line, f"^{stamp}harpe agent: ")

    def test_stale_sockets_are_replaced_and_others_left_alone(self):
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(str(self.socket))
        self.start()
        self.another_simulation()
        self.assertIn("another agent listens", self.refused_start("--state-file", self.folder / "state2.json"))
        self.assertEqual(self.ask("GET", "/time").status, 200)
        self.stop()
        self.socket.write_text("not a socket")
        self.assertIn("is not a socket", self.refused_start())
        self.assertEqual(self.socket.read_text(), "not a socket")

    def test_metrics_pass_the_checker(self):
        self.start()
        metrics = self.ask("GET", "/metrics")
        self.assertEqual(metrics.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8")
        self.assertIn("harpe_gpu_power_watts{", metrics.body)
        self.assertEqual(self.ask("GET", "/health").json()["status"], "ok")
        if shutil.which("promtool") is None:
            self.skipTest("promtool is missing (package prometheus)")
        subprocess.run(["promtool", "check", "metrics"], input=metrics.body, text=True, check=True)


class BadClients(AgentTest):
    def setUp(self):
        super().setUp()
        self.start()

    def tearDown(self):
        self.assertEqual(self.ask("GET", "/time").status, 200)
        self.assertIsNone(self.agent.poll())

    def test_requests_may_come_together_and_in_pieces(self):
        connection = self.connect()
        connection.sendall(b"GET /time HTTP/1.1\r\nHost: x\r\n\r\nGET /health HTTP/1.1\r\nHost: x\r\n\r\nGET /ti")
        with connection.makefile("rb") as file:
            self.assertIn("timestamp_ms", read_response(file).body)
            self.assertIn("uptime_s", read_response(file).body)
            connection.sendall(b"me HTTP/1.0\r\n\r\n")
            self.assertIn("timestamp_ms", read_response(file).body)
            self.assertIsNone(read_response(file))

    def test_clients_that_leave_in_the_middle_hurt_nobody(self):
        for data in [b"", b"GET /ti", b"POST /v1/leases HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{",
                     b"GET /cpu/get_power HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /gpu/stream_power HTTP/1.1\r\nHost: x\r\n\r\n"]:
            for _ in range(20):
                connection = self.connect()
                connection.sendall(data)
                connection.close()
        self.wait_for(lambda: "harpe_agent_http_connections 1\n" in self.ask("GET", "/metrics").body)
        self.assertIn("harpe_agent_power_listeners 0\n", self.ask("GET", "/metrics").body)

    def test_a_slow_request_is_cut_off(self):
        connection = self.connect(30)
        began = time.monotonic()
        connection.sendall(b"GET /time")
        while time.monotonic() - began < 9:
            connection.sendall(b"x")
            time.sleep(1)
        self.assertTrue(connection.recv(100).startswith(b"HTTP/1.1 408 "))
        self.assertLess(time.monotonic() - began, 15)


class Crowds(AgentTest):
    def open_many(self, count):
        connections = []
        for _ in range(count):
            connection = socket.socket(socket.AF_UNIX)
            self.addCleanup(connection.close)
            connection.connect(str(self.socket))  # blocks while the backlog is full
            connection.settimeout(30)
            connections.append(connection)
        return connections

    def raise_limit(self, wanted):
        import resource
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard < wanted:
            self.skipTest(f"at most {hard} open files are allowed here")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))

    def test_ten_thousand_idle_connections_leave_it_responsive(self):
        self.raise_limit(10_500)
        self.start("--connections-per-user", "12000")
        idle = self.open_many(10_000)
        took = []
        for _ in range(21):
            began = time.monotonic()
            self.assertEqual(self.ask("GET", "/gpu/get_power_limit").status, 200)
            took.append(time.monotonic() - began)
        took.sort()
        print(f"beside 10,000 idle connections: {took[10] * 1e3:.1f} ms, slowest {took[-1] * 1e3:.1f} ms")
        self.assertLess(took[10], 0.5)
        self.assertLess(took[-1], 5)  # the first one waits until the earlier ones are accepted
        idle[5000].sendall(b"GET /time HTTP/1.1\r\nHost: x\r\n\r\n")
        self.assertTrue(idle[5000].recv(4096).startswith(b"HTTP/1.1 200 "))

    def test_one_user_cannot_take_all_connections(self):
        self.start("--connections-per-user", "50")
        # In addition, root has half of the reserve; connections above the limit get an error.
        kept = self.open_many(50 + (32 if os.geteuid() == 0 else 0))
        refused = self.ask("GET", "/time")
        self.assertEqual((refused.status, refused.headers["retry-after"]), (503, "5"))
        self.assertIn("the limit of connections is reached, of this agent or of one user or address", refused.body)
        self.assertEqual(self.ask("GET", "/health").status, 200)
        kept[-1].close()
        self.wait_for(lambda: self.ask("GET", "/time").status == 200)

    # The undefined behaviour sanitizer needs a pipe to check memory, and reports a false positive without one.
    @unittest.skipIf(os.environ.get("HARPE_SANITIZE"), "sanitizers need files of their own")
    def test_connections_leave_files_for_the_rest(self):
        self.start(preexec_fn=few_files)
        crowd = self.open_many(100)
        refused = sum(connection.recv(4096).startswith(b"HTTP/1.1 503 ") for connection in crowd[60:])
        self.assertEqual(refused, 40)
        self.assertLess(len(os.listdir(f"/proc/{self.agent.pid}/fd")), 60)
        for connection in crowd:
            connection.close()
        self.wait_for(lambda: self.ask("GET", "/time").status == 200)
        self.assertRegex((self.folder / "log").read_text(), "have to wait|refused a connection")


def few_files():
    import resource
    drop_capability(CAP_SYS_RESOURCE)  # otherwise the agent would raise the limit again
    resource.setrlimit(resource.RLIMIT_NOFILE, (80, 80))


CAP_SYS_RESOURCE = 24


def drop_capability(number):
    import ctypes
    PR_CAPBSET_DROP = 24
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, number, 0, 0, 0)


if __name__ == "__main__":
    agent_process.run(sys.argv[1])
