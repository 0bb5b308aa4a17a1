"""Section 4: Harpe's hook on a pipeline of two processes on the one GPU: times against CUDA events, overhead, energies; and
harpe profile measure at the clock that is there."""

import json
import os
import re
import socket
import statistics
import subprocess
import sys
import threading
import time

from . import loads

SECONDS = 14  # of iterations
PROFILE_SECONDS = 8
LONGEST_PIPELINE = 50
MICRO_BATCHES = 4


class Tee:
    """A TCP server that forwards to another, and records the clients' data: the reports of ranks."""

    def __init__(self, target):
        self._target, self._taken, self._lock = target, [], threading.Lock()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            client, _ = self._server.accept()
            try:
                upstream = socket.create_connection(self._target)
            except OSError:
                client.close()
                continue
            taken = bytearray()
            with self._lock:
                self._taken.append(taken)
            threading.Thread(target=self._pump, args=(client, upstream, taken), daemon=True).start()
            threading.Thread(target=self._pump, args=(upstream, client, None), daemon=True).start()

    def _pump(self, source, sink, taken):
        try:
            while data := source.recv(65536):
                if taken is not None:
                    with self._lock:
                        taken += data
                sink.sendall(data)
        except OSError:
            pass
        for one in (source, sink):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def bodies(self, ending):
        """Returns the bodies (JSON) of the requests whose path has this ending."""
        with self._lock:
            streams = [bytes(taken) for taken in self._taken]
        found = []
        for stream in streams:
            while b"\r\n\r\n" in stream:
                head, _, rest = stream.partition(b"\r\n\r\n")
                length = re.search(rb"(?i)^content-length: *(\d+)", head, re.M)
                size = int(length.group(1)) if length else 0
                path = head.split(b" ", 2)[1].partition(b"?")[0].decode() if head.count(b" ") >= 2 else ""
                if path.endswith(ending) and len(rest) >= size:
                    try:
                        found.append(json.loads(rest[:size]))
                    except ValueError:
                        pass
                stream = rest[size:]
        return found


class Server:
    """harpe serve, behind a tee."""

    def __init__(self, context):
        self.process = subprocess.Popen([context["harpe"], "serve", "--tcp", "127.0.0.1:0", "--store", "none"],
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in self.process.stdout:
            if found := re.search(r"listening on http://([\d.]+):(\d+)", line):
                break
        else:
            raise RuntimeError("harpe serve did not start")
        threading.Thread(target=self.process.stdout.read, daemon=True).start()
        self.tee = Tee((found.group(1), int(found.group(2))))
        self.url = "http://" + self.tee.address

    def close(self):
        self.process.terminate()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def rank_command(rank, port, device, seconds, result):
    return [sys.executable, "-m", "gpu_check.pipeline_rank", str(rank), str(port), device, str(seconds), result]


def environment(**variables):
    # Both processes use the same GPU.
    return {**os.environ, "LOCAL_RANK": "0", "HARPE_CLOCK_SOCKET": "", **variables}


def run_pipeline(context, server, device, seconds):
    """Returns the results of the two ranks, and the reason if they are incomplete."""
    port, results, ranks = free_port(), [], []
    for rank in range(2):
        result = os.path.join(context["folder"], f"rank{rank}.json")
        results.append(result)
        ranks.append(subprocess.Popen(rank_command(rank, port, device, seconds, result),
                                      env=environment(HARPE_SERVER=server.url, HARPE_JOB="gpu-check")))
    until, failure = time.monotonic() + LONGEST_PIPELINE, None
    while failure is None and any(process.poll() is None for process in ranks):
        ended = [process.returncode for process in ranks if process.poll() not in (None, 0)]
        if ended:
            failure = f"a stage ended with status {ended[0]}"
        elif time.monotonic() > until:
            failure = f"the pipeline did not end within {LONGEST_PIPELINE} s"
        time.sleep(0.05)
    for process in ranks:
        if process.poll() is None:
            process.kill()
    found = []
    for result in results:
        if not os.path.exists(result):
            raise RuntimeError(failure or "a stage wrote nothing")
        with open(result, encoding="utf-8") as file:
            found.append(json.load(file))
    return found, failure


def times_beside_events(rank, reports):
    """Compares reported times of instructions with CUDA events around the same ones: medians over iterations."""
    first, last = rank["iterations"]
    by_iteration = {report["iteration"]: report for report in reports}
    table = {}
    for kind in ("forward", "backward"):
        pairs = []
        for number, events in zip(range(first, last), rank["by_events"]):
            report = by_iteration.get(number)
            totals = next((one for one in report["instructions"] if one["name"] == kind), None) if report else None
            if totals and kind in events:
                pairs.append((totals["time_s"], events[kind], totals["count"]))
        if pairs:
            offs = sorted((reported - events) / count for reported, events, count in pairs)
            table[kind] = {"iterations": len(pairs), "instruction_s": statistics.median(e / c for _, e, c in pairs),
                           "harpe_minus_events_s": statistics.median(offs), "worst_s": max(offs, key=abs)}
    return table


def energies(rank, reports):
    """Compares the energy in reports of one rank, over the iterations of its window, with the window."""
    first, last = rank["iterations"]
    inside = [report for report in reports if first <= report["iteration"] < last]
    sums = {"iterations_reported": len(inside), "iterations": last - first, "window_j": rank["window"]["joules"],
            "window_error_j": rank["window"]["error"], "window_s": rank["window"]["seconds"]}
    # An iteration lasts until the begin of the next one: the last one ends after the window.
    measured = [report for report in inside if report.get("energy_j") is not None and report["iteration"] < last - 1]
    if measured:
        # Missing iterations count with the mean of these.
        sums["iterations_j"] = sum(report["energy_j"] for report in measured) / len(measured) * (last - first)
        sums["iterations_error_j"] = sum(report.get("energy_error_j") or 0 for report in measured)
        sums["iterations_s"] = sum(report["time_s"] for report in measured) / len(measured) * (last - first)
        kinds = {}
        for report in measured:
            for one in report["instructions"]:
                if one.get("energy_j") is not None:
                    kind = kinds.setdefault(one["name"], {"count": 0, "time_s": 0.0, "energy_j": 0.0})
                    kind["count"] += one["count"]
                    kind["time_s"] += one["time_s"]
                    kind["energy_j"] += one["energy_j"]
        sums["instructions"] = {name: {"count": one["count"], "mean_s": one["time_s"] / one["count"],
                                       "mean_j": one["energy_j"] / one["count"]} for name, one in kinds.items()}
    return sums


def overhead(rank):
    """Returns the cost of the hook, per iteration and per instruction."""
    if not rank.get("with_hook_s"):
        return None
    with_hook, without = statistics.median(rank["with_hook_s"]), statistics.median(rank["without_hook_s"])
    return {"iterations": len(rank["with_hook_s"]), "with_hook_s": with_hook, "without_hook_s": without,
            "per_instruction_s": (with_hook - without) / (2 * MICRO_BATCHES), "share": with_hook / without - 1,
            "calls": rank.get("calls", {})}


def run_profile_measure(context, device, seconds):
    """Runs `harpe profile measure` on the same pipeline at the GPU's current clock: no clock is set, and no agent is
    used."""
    out, port = os.path.join(context["folder"], "profile.csv"), free_port()
    words = [rank_command(rank, port, device, seconds, os.path.join(context["folder"], f"profiled{rank}.json")) for rank in range(2)]
    # The command sends SIGTERM once the profile is measured.
    code = ("import json, signal, subprocess, sys; ranks = [subprocess.Popen(words) for words in json.loads(sys.argv[1])]; "
            "signal.signal(signal.SIGTERM, lambda *_: [rank.terminate() for rank in ranks]); "
            "sys.exit(max(abs(rank.wait()) for rank in ranks))")
    command = [context["harpe"], "profile", "measure", "--as-is", "--stop", "--out", out, "--",
               sys.executable, "-c", code, json.dumps(words)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment())
    lines = []
    reader = threading.Thread(target=lambda: lines.extend(process.stderr), daemon=True)
    reader.start()
    until = time.monotonic() + seconds + 22
    while process.poll() is None and time.monotonic() < until:
        time.sleep(0.2)
    status = process.poll()
    if status is None:
        process.terminate()
        lines.append("(ended by this check)")
    result = {"status": status, "text": "".join(line if line.endswith("\n") else line + "\n" for line in lines[-12:]).strip()}
    for name in ("profile.csv", "profile.partial.csv"):
        path = os.path.join(context["folder"], name)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                result["profile"] = [line.strip() for line in file if not line.startswith("#")][:20]
    return result


def run(context, emit):
    # A test runs the pipeline on the CPU, with the energies of a simulated GPU.
    device = os.environ.get("GPU_CHECK_PIPELINE_DEVICE", "cuda")
    if device == "cuda":
        loads.cuda()
    try:
        from torch.distributed import pipelining  # noqa: F401
    except ImportError as error:
        raise RuntimeError(f"skipped: this PyTorch has no torch.distributed.pipelining: {error}") from error
    scale = max(context["scale"], 0.3)
    server = Server(context)
    try:
        ranks, failure = run_pipeline(context, server, device, SECONDS * scale)
        reports = server.tee.bodies("/reports")
    finally:
        server.close()
    result = {"device": device, "torch": ranks[0]["torch"], "error": failure, "stages": [], "reports": len(reports)}
    for number, rank in enumerate(ranks):
        own = [report for report in reports if report.get("stage", 0) == number]
        result["stages"].append({"registered": rank["registered"], "counts": rank["counts"], "events": rank["events"],
                                 "times": times_beside_events(rank, own), "energy": energies(rank, own),
                                 "overhead": overhead(rank)})
    result["profile_measure"] = {"status": None, "text": "it did not end in time"}
    emit(result)
    result["profile_measure"] = run_profile_measure(context, device, PROFILE_SECONDS * scale)
    emit(result)
