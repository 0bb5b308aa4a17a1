#!/usr/bin/env python3
"""`harpe clock` and `harpe limit`, through a running agent and directly.
Usage: agent_command_test.py HARPE"""

import json
import os
import pwd
import subprocess
import sys

import agent_process
from agent_process import AgentTest


class Commands(AgentTest):
    def harpe_run(self, *words, **environment):
        return subprocess.run([self.harpe, *words], capture_output=True, text=True, timeout=60,
                              env={**os.environ, **environment})

    def through_agent(self, *words, **environment):
        return self.harpe_run(*words, "--socket", self.socket, **environment)

    def simulate(self, faults):
        """Simulates three GPUs with these faults."""
        self.simulation.write_text(f'state_file = "{self.folder}/state"\n[[gpu]]\nmodel = "a40"\ncount = 3\n{faults}')

    def leases(self):
        """Returns the leases of the command line: {(GPU, control): seconds left}."""
        return {(lease["gpus"][0], lease["controls"][0]): lease["expires_in_s"]
                for lease in self.ask("GET", "/v1/leases").json()["leases"]}

    def test_they_go_through_the_agent(self):
        self.start()
        said = self.through_agent("limit", "set", "250", "--gpus", "1", "--for", "10min")
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn("300 W -> 250 W", said.stdout)
        self.assertIn("restored in 10 min", said.stdout)
        self.assertIn(f"restore sooner with: harpe limit reset --gpus 1 --socket {self.socket}", said.stdout)
        self.assertEqual(self.limits(), [300, 250])
        said = self.through_agent("limit", "reset", "--gpus", "all")
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn("GPU 0: no setting that you made", said.stdout)
        self.assertEqual(self.limits(), [300, 300])
        said = self.through_agent("limit", "set", "50", "--gpus", "0")
        self.assertEqual(said.returncode, 77)
        self.assertIn("100 W to 280 W", said.stderr)
        self.assertEqual(self.leases(), {})

    def test_what_is_wrong_in_its_file_of_options_is_named_by_its_place(self):
        config = self.folder / "options.toml"
        config.write_text('socket-mode = "rw"\ndry-rum = true\n')
        said = self.harpe_run("agent", "--config", str(config))
        self.assertEqual(said.returncode, 2, said.stderr)
        self.assertIn(f"{config}:2:1: unknown option 'dry-rum'; did you mean 'dry-run'?", said.stderr)
        config.write_text('socket-mode = "rw"\nminimum-dwell = "soon"\n')
        said = self.harpe_run("agent", "--config", str(config), "--minimum-dwell", "later")
        self.assertEqual(said.returncode, 2, said.stderr)
        self.assertIn(f"{config}:1:15: socket-mode: expected an octal mode", said.stderr)
        self.assertIn("--minimum-dwell: expected a time such as 20ms, got 'later'", said.stderr)  # before the file

    def test_no_token_is_issued_that_its_agent_would_refuse(self):
        key = self.folder / "key"
        key.write_text("0123456789abcdef0123456789abcdef")
        key.chmod(0o600)
        issue = ["agent", "token", "issue", "--signing-key", str(key), "--scope", "gpu-read", "--user"]
        self.assertEqual(self.harpe_run(*issue, "grafana").returncode, 0)
        said = self.harpe_run(*issue, "a" * 7000)
        self.assertEqual((said.returncode, said.stdout), (2, ""))
        self.assertIn("too long", said.stderr)

    def test_each_setting_has_its_own_time(self):
        self.start()
        self.through_agent("limit", "set", "250", "--gpus", "1", "--for", "10min")
        said = self.through_agent("clock", "set", "900-1200", "--gpus", "1", "--json")
        self.assertEqual(json.loads(said.stdout)["gpus"][0]["restored_in_s"], 3600)
        left = self.leases()
        self.assertAlmostEqual(left[1, "power_limit"], 600, delta=30)
        self.assertAlmostEqual(left[1, "clocks"], 3600, delta=30)
        # A rejected setting does not extend the existing one.
        self.assertEqual(self.through_agent("limit", "set", "50", "--gpus", "1", "--for", "1h").returncode, 77)
        self.assertLess(self.leases()[1, "power_limit"], 601)
        self.through_agent("clock", "reset", "--gpus", "1")
        self.assertEqual(list(self.leases()), [(1, "power_limit")])
        self.assertEqual(self.limits(), [300, 250])
        self.through_agent("limit", "reset", "--gpus", "1")
        self.assertEqual((self.leases(), self.limits()), ({}, [300, 300]))

    def test_they_show_the_lock_before_and_wait_until_it_is_in_force(self):
        self.simulation.write_text(f'state_file = "{self.folder}/state"\n[[gpu]]\nmodel = "a40"\ncount = 1\n'
                                   "switch_ms = 200\nslow_target_share = 0.0\nslow_pair_share = 0.0\n")
        self.start()
        first = json.loads(self.through_agent("clock", "set", "1200", "--json").stdout)["gpus"][0]
        self.assertEqual(first["before"]["locked_clocks_mhz"], [])
        self.assertEqual((first["now"]["locked_clocks_mhz"], first["now"]["graphics_clock_mhz"], first["in_force"]),
                         ([1200, 1200], 1200, True))
        second = self.through_agent("clock", "set", "900-1005")
        self.assertIn("before: power limit 300 W; graphics clocks locked to 1200 MHz, running at 1200 MHz",
                      second.stdout)
        back = self.through_agent("clock", "reset")
        self.assertIn("now:    power limit 300 W; graphics clocks not locked, running at 210 MHz", back.stdout)
        simulated = ["--direct", "--simulate", self.simulation]
        direct = json.loads(self.harpe_run("clock", "set", "1305", *simulated, "--json").stdout)["gpus"][0]
        self.assertEqual((direct["before"]["locked_clocks_mhz"], direct["now"]["graphics_clock_mhz"]), ([], 1305))

    def test_a_dry_run_of_the_agent_is_said(self):
        self.start("--dry-run")
        said = self.through_agent("clock", "set", "1200", "--gpus", "0")
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn("would lock graphics clocks to 1200 MHz; dry run of the agent: nothing is set", said.stdout)
        self.assertNotIn("restored", said.stdout)
        self.assertEqual(self.leases(), {})
        self.assertEqual(self.stop(), 0)
        self.assertIn("would restore all settings (dry run", (self.folder / "log").read_text())
        lines = [json.loads(line) for line in (self.folder / "agent-audit.jsonl").read_text().splitlines()]
        self.assertEqual({line["result"] for line in lines}, {"would apply"})
        self.assertEqual([(line["action"], line["to"]) for line in lines if "gpu" in line],
                         [("graphics_clocks", "graphics clocks 1200 MHz")])

    def test_a_clock_that_does_not_come_is_said(self):
        self.simulate("switch_ms = 5000\n")
        self.start()
        said = self.through_agent("clock", "set", "1740", "--gpus", "0")
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn("1740 MHz was requested, but the GPU still runs at 210 MHz", said.stdout)

    def test_one_gpu_that_fails_does_not_hide_the_others(self):
        self.simulate('[[fault]]\nkind = "gpu_lost"\ngpu = 1\nafter_calls = 200\n')
        self.start()
        for control, value in [("clock", "1200"), ("limit", "250")]:
            said = self.through_agent(control, "set", value, "--gpus", "all")
            self.assertEqual(said.returncode, 0, said.stdout + said.stderr)
        self.wait_for(lambda: self.ask("GET", "/v1/gpus/1").status == 503)
        self.assertEqual(self.ask("GET", "/v1/gpus/1").json()["error"]["code"], "unavailable")
        said = self.through_agent("limit", "set", "240", "--gpus", "all", "--json")
        self.assertEqual(said.returncode, 69)
        gpus = json.loads(said.stdout)["gpus"]
        self.assertEqual(["error" in gpu for gpu in gpus], [False, True, False])
        self.assertIn("lost", gpus[1]["error"]["message"])
        self.assertEqual(gpus[2]["now"]["power_limit_w"], 240)
        for again in [False, True]:
            said = self.through_agent("clock", "reset", "--gpus", "all")
            self.assertEqual(said.returncode, 69)
            self.assertIn("1 of 3 GPUs failed", said.stdout)
            self.assertIn("the agent restores: graphics clocks not locked" if again else
                          "the agent tries again to restore: graphics clocks not locked", said.stdout)
        self.assertEqual(self.stop(), 0)
        log = (self.folder / "log").read_text()
        self.assertRegex(log, r"\dZ harpe agent: GPU 1 stays changed; .* graphics clocks not locked, power limit 300 W")
        self.assertNotIn("GPU 0", log)
        self.start()
        log = (self.folder / "log").read_text()
        self.assertIn("restoring settings that the last agent could not restore before it stopped", log)
        self.assertNotIn("crashed", log)

    def test_a_reset_of_what_somebody_else_holds_names_the_holder(self):
        self.start()
        self.ask("POST", "/v1/leases", {"gpus": [0], "duration_s": 600, "ends_with_process": False, "name": "train.py"})
        said = self.through_agent("clock", "reset", "--gpus", "0")
        self.assertEqual(said.returncode, 75)
        user = pwd.getpwuid(os.geteuid()).pw_name
        who = f"GPU 0: {user} (uid {os.geteuid()}), pid {os.getpid()} ('train.py') holds it for another 10 min"
        self.assertIn(who + "; this is your user: end it with: curl --unix-socket", said.stderr)
        said = self.through_agent("limit", "set", "250", "--gpus", "0")
        self.assertEqual((said.returncode, said.stderr.count("GPU 0")), (75, 1))
        self.assertIn(who, said.stderr)
        lease = self.ask("GET", "/v1/leases").json()["leases"][0]["id"]
        self.assertIn(f"end it with: curl --unix-socket {self.socket} -X DELETE "
                      f"http://localhost/v1/leases/{lease}", said.stderr)

    def test_a_holder_that_has_ended_is_said(self):
        self.start()
        take = ("import http.client, json, socket, sys\n"
                "c = http.client.HTTPConnection('x'); c.sock = socket.socket(socket.AF_UNIX)\n"
                "c.sock.connect(sys.argv[1])\n"
                "c.request('POST', '/v1/leases', json.dumps({'gpus': [0], 'duration_s': 600,"
                " 'ends_with_process': False, 'controls': ['power_limit']}))\n"
                "print(c.getresponse().status)\n")
        took = subprocess.run([sys.executable, "-c", take, self.socket], capture_output=True, text=True, timeout=60)
        self.assertEqual(took.stdout.strip(), "201")
        said = self.through_agent("limit", "reset", "--gpus", "0")
        self.assertEqual(said.returncode, 75)
        self.assertRegex(said.stderr, r"pid \d+, which has ended holds its power limit for another 10 min")
        if os.geteuid() != 0:
            return
        said = subprocess.run([self.harpe, "limit", "reset", "--gpus", "0", "--socket", self.open_to_all()],
                              capture_output=True, text=True, timeout=60, user=65534, group=65534, extra_groups=[])
        self.assertEqual(said.returncode, 75)
        self.assertIn("root (uid 0), pid", said.stderr)
        self.assertIn("wait, or ask the holder or root to end it", said.stderr)
        self.assertNotIn("/v1/leases/", said.stderr)

    def open_to_all(self):
        self.folder.chmod(0o755)
        return self.socket

    def test_clocks_and_times_are_read_with_their_units(self):
        self.start()
        for clock in ["1200MHz", "1200 MHz", "1200mhz", "900MHz-1200MHz", "900-1200 MHz"]:
            said = self.through_agent("clock", "set", clock, "--gpus", "0", "--for", "0.5s")
            self.assertEqual(said.returncode, 0, said.stderr)
            self.assertIn("1200 MHz", said.stdout)
            self.assertIn("restored in 500 ms", said.stdout)
        for clock in ["MHz", "1200GHz", "1200 M", "-1200MHz"]:
            self.assertEqual(self.through_agent("clock", "set", "--", clock).returncode, 2, clock)
        said = self.through_agent("clock", "set", "1200", "--for", "soon")
        self.assertIn("250ms, 5min or 8h", said.stderr)

    def test_a_limit_that_is_not_the_enforced_one_is_named(self):
        self.simulate("other_power_limit_w = 240\n")
        self.start()
        said = self.through_agent("limit", "set", "250", "--gpus", "0")
        self.assertIn("GPU 0: power limit 300 W -> 250 W", said.stdout)
        self.assertIn("before: power limit 300 W (240 W enforced); ", said.stdout)
        said = self.through_agent("limit", "set", "230", "--gpus", "0", "--json")
        gpu = json.loads(said.stdout)["gpus"][0]
        limits = [(gpu[when]["power_limit_w"], gpu[when]["enforced_power_limit_w"]) for when in ("before", "now")]
        self.assertEqual(limits, [(250, 240), (230, 230)])

    def test_a_simulation_named_for_nothing_is_said(self):
        self.start()
        said = self.through_agent("limit", "set", "250", "--gpus", "0", HARPE_SIMULATION=str(self.simulation))
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn("HARPE_SIMULATION has no effect here", said.stdout)
        said = self.through_agent("limit", "set", "250", "--simulate", self.simulation)
        self.assertEqual(said.returncode, 2)
        self.assertIn("--simulate needs --direct", said.stderr)

    def test_without_an_agent_they_say_what_helps(self):
        said = self.through_agent("clock", "set", "1200")
        self.assertEqual(said.returncode, 69)
        self.assertIn("no agent listens", said.stderr)
        self.assertIn("--direct", said.stderr)

    def test_directly_they_warn(self):
        simulated = ["--direct", "--simulate", self.simulation, "--gpus", "0"]
        said = self.harpe_run("limit", "set", "200", *simulated)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn("this is not restored automatically; undo it with: harpe limit reset --direct --gpus 0 --simulate "
                      f"{self.simulation}\n", said.stdout)
        self.assertIn("now:    power limit 300 W", self.harpe_run("limit", "reset", *simulated).stdout)


if __name__ == "__main__":
    agent_process.run(sys.argv[1])
