"""What happened in a run, as the checker reads it: records in the order in which they were written, each a JSON object
with `kind` and `at` (seconds of the monotonic clock, which all processes of a machine share).

| kind | says |
| --- | --- |
| command | a rank got assignments: `asked` is when its request was sent, or its stream was opened |
| iteration | training ran one: what each rank ran by, its time, and that of the same machines at all-max |
| refused | a server responded 404 or 409 to a rank |
| training | a job's processes: `start` of a new life of them, `end` |
| ask | a user asked something of a job: `asked`, `at` of the response, its status and document; null: none came |
| wrong | a rank reported an energy or a time that cannot be (`what`), and the response: `refused` is its `energy_refused` |
| intruder | a client without rights asked something |
| fault | the nemesis did something |
| cut | the real ranks of a node cannot reach their server, or (`on` false) can again |
| held | they cannot let clocks go, since a rank or the agent stands still, or (`on` false) can again |
| turned | a machine of the job has become slower, or (`slower` false) is so no more |
| gpu | what the agent of a node said of its GPUs and leases; null: it did not respond |
| last_gpu | what clocks GPUs had after the last agent ended in order |
| program | a server or an agent: `up`, `down`, `stopped`; `by_itself`: the nemesis did not do that |
| waits | a server was started without its database: whether its log has `said` so, the `status` with which it ended (null: it runs), `disturbed` by another fault |
| memory | what a program held |
| recovered, real ranks recovered | after so many seconds without faults; stuck: that they were not |
"""

import json
import time


class History:
    def __init__(self, path=None):
        self.records = []
        self.file = open(path, "w") if path else None

    def add(self, kind, at=None, **what):
        record = {"kind": kind, "at": time.monotonic() if at is None else at, **what}
        self.records.append(record)
        if self.file:
            self.file.write(json.dumps(record) + "\n")

    def close(self):
        if self.file:
            self.file.close()


def read(path):
    with open(path) as file:
        return [json.loads(line) for line in file]
