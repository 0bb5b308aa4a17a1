"""One stage of a pipeline of two processes on one GPU, with PyTorch's pipelining and Harpe's hook.

    python3 -m gpu_check.pipeline_rank RANK PORT DEVICE SECONDS RESULT

Activations and gradients travel over gloo by way of the host, because NCCL refuses two processes on one GPU.
HARPE_SERVER and HARPE_JOB say where the hook reports to; no clock socket is given, so that no clock is asked for.
"""

import json
import os
import statistics
import sys
import time

MICRO_BATCHES, STAGES = 4, 2
WARM_UP = 3
ROUNDS = 4  # of iterations with and without the hook, alternating
CALLS = 2000
MOST_HELD = 64  # sends


def stage_through_host(torch, dist):
    """Makes dist send and receive tensors through copies on the host."""
    send, receive = dist.isend, dist.irecv
    send_objects, receive_objects = dist.send_object_list, dist.recv_object_list
    held = []

    class Received:
        def __init__(self, work, tensor, copy):
            self._work, self._tensor, self._copy = work, tensor, copy

        def wait(self, *arguments):
            done = self._work.wait(*arguments)
            # Also valid for a leaf that requires a gradient, like the buffers of some versions.
            self._tensor.data.copy_(self._copy)
            return done

        def is_completed(self):
            return self._work.is_completed()

    # CPU tensors use the same path, so that tests cover it.
    def isend(tensor, *arguments, **keywords):
        copy = tensor.detach().cpu()
        work = send(copy, *arguments, **keywords)
        # Some versions drop the handles of sends, and gloo cancels dropped sends.
        held.append((copy, work))
        del held[:-MOST_HELD]
        return work

    def irecv(tensor, *arguments, **keywords):
        copy = torch.empty_like(tensor, device="cpu")
        return Received(receive(copy, *arguments, **keywords), tensor, copy)

    class All:
        """Several works combined."""

        def __init__(self, works):
            self._works = works

        def wait(self, *arguments):
            return all([work.wait(*arguments) for work in self._works])

        def is_completed(self):
            return all(work.is_completed() for work in self._works)

    def batch(operations):
        # PyTorch before 2.7 would coalesce GPU tensors, which gloo does not support.
        return [All([one.op(one.tensor, one.peer, group=one.group, tag=one.tag) for one in operations])]

    def on_host(function):
        return lambda *arguments, **keywords: function(*arguments, **{**keywords, "device": torch.device("cpu")})

    for module in (dist, dist.distributed_c10d):
        module.isend, module.irecv, module.batch_isend_irecv = isend, irecv, batch
        module.send_object_list, module.recv_object_list = on_host(send_objects), on_host(receive_objects)


class Events:
    """CUDA events of this check around the computations of a stage; on a CPU, times of the calls."""

    def __init__(self, torch, device, schedule, stage):
        self._torch, self._device, self.on = torch, device, False
        self._open, self.spans = None, []
        for name, kind in (("forward_one_chunk", "forward"), ("backward_one_chunk", "backward")):
            setattr(stage, name, self._around(getattr(stage, name), kind))
        loss = getattr(schedule, "_maybe_compute_loss", None)
        if stage.is_last and loss is not None:
            schedule._maybe_compute_loss = self._extending(loss)

    def _now(self):
        if self._device.type != "cuda":
            return time.perf_counter()
        event = self._torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _around(self, function, kind):
        def call(*arguments, **keywords):
            if not self.on:
                return function(*arguments, **keywords)
            begin = self._now()
            result = function(*arguments, **keywords)
            self.spans.append([kind, begin, self._now()])
            return result
        return call

    def _extending(self, function):
        def call(*arguments, **keywords):
            result = function(*arguments, **keywords)
            if self.on and self.spans:
                self.spans[-1][2] = self._now()
            return result
        return call

    def taken(self):
        """Returns {kind: s} of the spans since the last call."""
        sums = {}
        for kind, begin, end in self.spans:
            seconds = end - begin if isinstance(begin, float) else begin.elapsed_time(end) / 1000
            sums[kind] = sums.get(kind, 0.0) + seconds
        self.spans = []
        return sums


def call_times(torch, client, device):
    """Returns the s of one call around an instruction, with the stream followed: medians and the 99th percentile."""
    from harpe.hooks import FORWARD
    from harpe.streams import recorder_for
    if device.type == "cuda":
        small = torch.zeros(1024, device=device)
    recorder = recorder_for(client, device)
    begins, ends = [], []
    recorder.iteration_begin(100_000)
    for number in range(CALLS):
        start = time.perf_counter()
        recorder.begin(FORWARD, 0, number % MICRO_BATCHES)
        middle = time.perf_counter()
        if device.type == "cuda":
            small.add_(1)
        after = time.perf_counter()
        recorder.end()
        ends.append(time.perf_counter() - after)
        begins.append(middle - start)
        if number % 200 == 199 and device.type == "cuda":
            torch.cuda.synchronize()
    found = {}
    for name, times in (("begin", begins), ("end", ends)):
        times.sort()
        found[name] = {"median_s": times[len(times) // 2], "p99_s": times[int(len(times) * 0.99)]}
    return found


def main():
    rank, port, device_name, seconds, result_file = sys.argv[1:]
    rank, seconds = int(rank), float(seconds)
    import torch
    import torch.distributed as dist
    from torch.distributed import pipelining

    import harpe
    import harpe.torch_pipelining
    from .transformer import stack
    device = torch.device(device_name)
    if device.type == "cuda":
        torch.cuda.set_device(0)
        device = torch.device("cuda", 0)
    torch.manual_seed(rank)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=STAGES)
    stage_through_host(torch, dist)
    large = device.type == "cuda"
    width, length, batch, kind = (2048, 512, 4, torch.bfloat16) if large else (64, 16, 2, torch.float32)
    # The second stage has more work, so that the first one waits.
    module = stack(torch, 2 + rank if large else 1 + rank, width, 8, device, kind)
    try:
        stage = pipelining.PipelineStage(module, rank, STAGES, device)
    except TypeError:
        # PyTorch before 2.6 does not infer shapes.
        stage = pipelining.PipelineStage(module, rank, STAGES, device,
                                         input_args=(torch.empty(batch, length, width, device=device, dtype=kind),))
    schedule = pipelining.Schedule1F1B(stage, MICRO_BATCHES, loss_fn=lambda out, target: (out - target).float().square().mean())
    events = Events(torch, device, schedule, stage)
    data = torch.randn(batch * MICRO_BATCHES, length, width, device=device, dtype=kind)

    def iterate(count):
        """Returns the seconds of each of `count` iterations on the host, which waits for the device after each."""
        times = []
        for _ in range(count):
            begin = time.perf_counter()
            if rank == 0:
                schedule.step(data)
            else:
                schedule.step(target=data)
            if device.type == "cuda":
                torch.cuda.synchronize()
            dist.barrier()
            times.append(time.perf_counter() - begin)
        return times

    def together(value):
        """Returns the first rank's number on both ranks."""
        number = torch.tensor([value], dtype=torch.float64)
        dist.broadcast(number, 0)
        return float(number.item())

    iterate(WARM_UP)
    one = together(statistics.median(iterate(3)))
    count = max(4, int(seconds / 2 / one / (ROUNDS + 1)))
    # The client registers before the iterations that are compared.
    attached = harpe.torch_pipelining.attach(schedule, clock_socket="")
    client = attached.client
    iterate(2)
    until = time.monotonic() + 5
    while together(float(not client.registered and time.monotonic() < until)):
        time.sleep(0.05)
    registered = client.registered
    by_events, result = [], {"torch": torch.__version__, "registered": registered}

    def save(**known):
        """Saves partial results, so that they are kept if the other stage fails or time runs out."""
        result.update(known, events=client.events(), counts=client.counts()._asdict())
        with open(result_file + ".new", "w", encoding="utf-8") as file:
            json.dump(result, file)
        os.replace(result_file + ".new", result_file)

    events.on = True
    with harpe.measure("iterations", settle=True, synchronize=device.type == "cuda") as window:
        first = client.counts().iterations
        for _ in range(2 * count):
            iterate(1)
            by_events.append(events.taken())
    events.on = False
    save(iterations=[first, client.counts().iterations], by_events=by_events, window={
        "joules": window.joules, "error": window.joules_error, "seconds": window.seconds, "source": window.source,
        "simulated": window.simulated})
    with_hook, without_hook = [], []
    for _ in range(ROUNDS):
        with_hook += iterate(count)
        # The client stays alive; only the hook is removed and added again.
        attached.detach()
        without_hook += iterate(count)
        attached = harpe.torch_pipelining.attach(schedule, client)
    save(with_hook_s=with_hook, without_hook_s=without_hook)
    save(calls=call_times(torch, client, device))
    attached.detach()
    client.close()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    # Two processes share the machine with the reader of the GPU.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
