#!/usr/bin/env python3
"""Requests that docs/openapi.yaml makes Schemathesis think of, right and wrong ones, to a real `harpe serve`:
no response is one that the document does not promise, what the document rules out is refused, and what it allows is
taken, unless it does not fit the job. Usage: server_contract_test.py HARPE"""

import pathlib
import subprocess
import sys

import contract
import server_process
from server_process import ServerTest

SEED = 20260501
PROGRAM = pathlib.Path(sys.executable).with_name("schemathesis")
CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance",
          "response_schema_conformance", "unsupported_method", "allow_header_conformance", "use_after_free",
          "ensure_resource_availability")
# Responses to these arrive only when an event happens.
WAITING = ("getEvents", "zeusSchedule")
# Zeus's status code for a job that does not exist.
ZEUS_400 = ("zeusBatchSize", "zeusReportTrial")

# 422: the form is valid, but it does not fit the job.
RUNNING_JOB = """
[parameters]
"path.job" = "j"
[checks.positive_data_acceptance]
expected-statuses = ["2xx", 401, 403, 404, 409, 422, 429, "5xx"]
"""


class Promises(ServerTest):
    def ask_everything(self, configuration, *options, examples=20, more_checks=()):
        file = self.folder / "schemathesis.toml"
        file.write_text(configuration)
        command = [PROGRAM, "--config-file", file, "--no-color", "run", contract.FILE, "--url", f"http://{self.address}",
                   "--checks", ",".join((*CHECKS, *more_checks)), "--max-examples", str(examples), "--seed", str(SEED), "--no-shrink",
                   "--generation-database", "none", "--request-timeout", "20", "--warnings", "off", *options]
        done = subprocess.run(list(map(str, command)), cwd=self.folder, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.good("GET", "/health")["status"], "ok")

    def without(self, *operations):
        return [part for one in (*WAITING, *operations) for part in ("--exclude-operation-id", one)]

    def test_whatever_is_asked(self):
        self.start()
        self.ask_everything("", *self.without(), "--phases", "examples,coverage,fuzzing,stateful",
                            more_checks=["negative_data_rejection"])

    def test_whatever_is_asked_of_a_running_job(self):
        self.start()
        self.begin()
        self.wait_for_phase("running")
        # Where a parameter is given, wrong values are not tested.
        self.ask_everything(RUNNING_JOB, *self.without("deleteJob", "putJob", "putRecurringJob", *ZEUS_400), "--phases", "examples,coverage,fuzzing",
                            more_checks=["positive_data_acceptance"])
        # Other sessions, which have proved to be a newer run, may have its ranks' places by now; it continues.
        self.assertEqual(self.good("GET", "/v1/jobs/j")["activity"], "active")

    def test_a_specification_is_refused_where_the_document_rules_it_out(self):
        """Tests also rules that a schema cannot express."""
        self.start()
        specification = server_process.CONTRACT.validator({"$ref": "#/components/schemas/Specification"})
        good = server_process.specification()
        late = {**good, "switch_latency_s": "frequency,latency\n900,0.13\n1410,0.01\n"}
        for spec in (good, late, {**good, "schedule": {"ranks": [[{"op": "forward", "stage": 0, "mb": 0}]]}}):
            self.assertTrue(specification.is_valid(spec), spec)
        self.assertEqual(self.ask("PUT", "/v1/jobs/good", good).status, 201)
        self.assertEqual(self.ask("PUT", "/v1/jobs/late", late).status, 201)
        self.assertEqual(self.good("GET", "/v1/jobs/late")["spec"]["switch_latency_s"], late["switch_latency_s"])
        for wrong in ({"micro_batches": None}, {"profile": ""}, {"objective": {"power_cap_w": 2e12}}, {"stages": 4097},
                      {"objective": {"slowdown": 0, "deadline_s": 1}}, {"data": 0}, {"no": "such"},
                      {"switch_latency_s": ""}):
            spec = {name: value for name, value in {**good, **wrong}.items() if value is not None}
            self.assertFalse(specification.is_valid(spec), wrong)
            self.assertEqual(self.ask("PUT", "/v1/jobs/wrong", spec).status, 400, wrong)


if __name__ == "__main__":
    if not PROGRAM.exists():
        print("Schemathesis is missing: run scripts/install-dependencies.sh")
        sys.exit(77)
    server_process.run(sys.argv[1])
