"""Holds a recorded history (history.py) to the invariants of docs/reliability.md, by their numbers there. Breaches of 1, 3,
4, 10, 11, and of 7 at the end, follow from the order of requests and responses alone: a response was made after its
question was sent, on one machine's clock. Delays count in 2, 5, 6, 7 and 8 only beyond SLACK_S, which leaves a loaded
machine its time."""

import bisect
from collections import defaultdict

from chaos.programs import IDLE_MHZ, PATIENCE_S

SLACK_S = 6.0
# Longest time in which a job may send nothing to its ranks. Faults are shorter, and another server takes over after 2.2
# s.
SILENT_S = 30.0
# While the machine runs the harness at all, something is recorded at least every half second.
STILL_S = 2.0
WINDOW = 100  # iterations
# Longest time from sending assignments to their begin, after earlier ones were often late (docs/jobs.md).
LEAD_S = 10.0
LOOK_BACK = 40  # commands of a rank that are searched
OBJECTIVE_WITHIN = 0.01  # relative to the time of a window: allowance for measuring and settling (docs/jobs.md)
MOST_MIB, MOST_THREADS, MOST_FILES = 256, 64, 2500  # per program, with 200 ranks and some hundred jobs


def origin(incarnation):
    """Returns an id that is the same for all specifications of a job during one life."""
    return incarnation.rpartition(".")[0] or incarnation


class Breach:
    def __init__(self, invariant, text, *records):
        self.invariant, self.text, self.records = invariant, text, records

    def __str__(self):
        evidence = "".join(f"\n      {record}" for record in self.records)
        return f"invariant {self.invariant}: {self.text}{evidence}"


class Kinds:
    """Records by kind, and by kind and job, in order."""

    def __init__(self, records):
        self.all = defaultdict(list)
        self.of_job = defaultdict(list)
        self.times = sorted(record["at"] for record in records)
        for record in records:
            self.all[record["kind"]].append(record)
            self.of_job[record["kind"], record.get("job")].append(record)

    def __call__(self, kind, **like):
        records = self.of_job[kind, like.pop("job")] if "job" in like else self.all[kind]
        return [record for record in records if all(record.get(name) == value for name, value in like.items())]

    def jobs(self):
        return sorted({job for kind, job in self.of_job if kind in ("command", "iteration", "ask")})


def check(records):
    kinds = Kinds(records)
    found = []
    for invariant in (one_commander, one_version, kept_promises, deleted, delivered, found_clocks, leased, objective,
                      bounded, rights, claimed, refused, alive):
        found += invariant(kinds)
    return found


# 1. At most one server commands a job at any time.

def by_life(commands):
    """Returns (job, incarnation) -> commands, in the order of sending."""
    lives = defaultdict(list)
    for command in commands:
        lives[command["job"], command["incarnation"]].append(command)
    return lives


def newest_version(command):
    versions = [assignment[0] for assignment in command["assignments"]]
    return max([command.get("version") or 0, *versions])


def one_commander(kinds):
    found = []
    for (job, _), commands in by_life(kinds("command")).items():
        said = {}  # (epoch, version) -> (first iteration, command)
        content = {}  # (epoch, version, life, rank) -> assignment
        heard = []  # commands with rising time, epoch and version
        for command in sorted(commands, key=lambda one: one["at"]):
            epoch, version = command["epoch"], newest_version(command)
            before = newest_before(heard, command["asked"])
            if before and epoch < before["epoch"]:
                found.append(Breach(1, f"{job}: epoch {epoch} was sent to one that asked after epoch "
                                       f"{before['epoch']} had been sent", before, command))
            elif before and epoch == before["epoch"] and version < newest_version(before) and version:
                found.append(Breach(1, f"{job}: version {version} was sent to one that asked after version "
                                       f"{newest_version(before)} of the same epoch had been sent", before, command))
            if not heard or (epoch, version) > (heard[-1]["epoch"], newest_version(heard[-1])):
                heard.append(command)
            for one, begin, purpose, clocks in command["assignments"]:
                of_rank = epoch, one, command["life"], command["rank"]
                same = content.setdefault(of_rank, (begin, purpose, clocks, command))
                first = said.setdefault((epoch, one), (begin, command))
                if same[:3] != (begin, purpose, clocks) or first[0] != begin:
                    found.append(Breach(1, f"{job}: version {one} of epoch {epoch} is two different ones", same[3],
                                        first[1], command))
    return found


def newest_before(heard, asked):
    """Returns the newest command sent before a request."""
    place = bisect.bisect_left(heard, asked, key=lambda one: one["at"])
    return heard[place - 1] if place else None


# 2. All ranks of an iteration run the same version (late ones are counted and bounded).

def is_mixed(iteration):
    return len({tuple(assignment) for assignment in iteration["assignments"].values() if assignment}) > 1


def one_version(kinds):
    """A rank that receives nothing new within its patience is released. Ranks can therefore run an iteration with
    different assignments only for that long after the newest of these was first sent."""
    found = []
    first = {}  # (job, incarnation, epoch, version) -> time of the first sending
    for command in kinds("command"):
        for assignment in command["assignments"]:
            key = command["job"], command["incarnation"], command["epoch"], assignment[0]
            first[key] = min(first.get(key, command["at"]), command["at"])
    for iteration in kinds("iteration"):
        if not is_mixed(iteration):
            continue
        told = [first.get((iteration["job"], *assignment), iteration["at"])
                for assignment in iteration["assignments"].values() if assignment]
        if iteration["at"] - max(told) > PATIENCE_S + SLACK_S:
            found.append(Breach(2, f"{iteration['job']}: ranks ran iteration {iteration['number']} by different assignments, "
                                   f"{iteration['at'] - max(told):.1f} s after the newest was sent", iteration))
    return found


# 3. Everything confirmed with a 200 survives any crash.

def kept_promises(kinds):
    found = []
    for job in kinds.jobs():
        asks = sorted(kinds("ask", job=job), key=lambda one: one["asked"])
        found += lost_jobs(job, asks)
        found += lost_objectives(job, asks)
    found += lost_places(kinds)
    return found


def may_have_happened(ask):
    """Returns whether a request may take effect at any later time: no response, a server error, or success."""
    return ask["status"] is None or ask["status"] >= 500 or 200 <= ask["status"] < 300


def succeeded(ask):
    return ask["status"] is not None and 200 <= ask["status"] < 300


def lost_jobs(job, asks):
    """Finds jobs that no longer exist although they were registered, with no delete request in the meantime."""
    found = []
    for ask in asks:
        if ask["status"] != 404 or ask["what"] == "delete":
            continue
        there = [one for one in asks if succeeded(one) and one["what"] != "delete" and one["at"] < ask["asked"]]
        if not there:
            continue
        last = max(there, key=lambda one: one["at"])
        if not any(one["what"] == "delete" and may_have_happened(one) and one["asked"] < ask["at"]
                   and (not succeeded(one) or one["at"] > last["asked"]) for one in asks):
            found.append(Breach(3, f"{job} was there, no user deleted it, and it is gone", last, ask))
    return found


def lost_objectives(job, asks):
    """Finds lost objectives. If the reads before and after an objective's request show the same life of the job, it
    must stay in force until another request may have replaced it."""
    found = []
    reads = [one for one in asks if one["what"] == "read" and succeeded(one)]
    objectives = [one for one in asks if one["what"] == "objective" and may_have_happened(one)]
    taken_in = defaultdict(list)  # life -> objectives certainly accepted in it, in order of their requests
    for one in objectives:
        if succeeded(one):
            taken_in[life_of(one, reads)].append(one)
    for read in reads:
        value = read["document"]["objective"].get("slowdown")
        taken = [one for one in taken_in[origin(read["document"]["incarnation"])] if one["at"] < read["asked"]]
        if not taken:
            continue
        last = taken[-1]
        possible = [last] + [one for one in objectives if one is not last and one["asked"] < read["at"]
                             and (not succeeded(one) or one["at"] > last["asked"])]
        if not any(value is not None and abs(value - one["value"]) < 1e-9 for one in possible):
            found.append(Breach(3, f"{job}: the objective {last['value']} was taken up and is {value}", last, read))
    return found


def life_of(ask, reads):
    """Returns the life of the job at the time of the request; None if it is not certain."""
    before = [one for one in reads if one["at"] <= ask["asked"]]
    after = [one for one in reads if one["asked"] >= ask["at"]]
    if not before or not after:
        return None
    lives = {origin(max(before, key=lambda one: one["at"])["document"]["incarnation"]),
             origin(min(after, key=lambda one: one["asked"])["document"]["incarnation"])}
    return lives.pop() if len(lives) == 1 else None


def lost_places(kinds):
    """Finds ranks that were registered and are then unknown, in the same life of a job that no user deleted."""
    found = []
    deletes = [one for one in kinds("ask", what="delete") if may_have_happened(one)]
    starts = defaultdict(list)
    for one in kinds("training", state="start"):
        starts[one["job"]].append(one)
    for refused in kinds("refused", report=True):
        job = refused["job"]
        if any(one["job"] == job and one["asked"] < refused["at"] for one in deletes):
            continue
        newer = [one for one in starts[job] if one["life"] != refused["life"] and one["at"] < refused["at"]]
        if refused["status"] == 404 or not newer:
            found.append(Breach(3, f"{job}: rank {refused['rank']} was registered and is refused", refused))
    return found


# 4. Deleted jobs stay deleted.

def deleted(kinds):
    found = []
    for job in kinds.jobs():
        seen = [(one["at"], one["asked"], origin(one["incarnation"]), one) for one in kinds("command", job=job)]
        asks = kinds("ask", job=job)
        seen += [(one["at"], one["asked"], origin(one["document"]["incarnation"]), one) for one in asks
                 if one["document"].get("incarnation")]
        first = {}
        for at, _, life, _ in seen:
            first[life] = min(first.get(life, at), at)
        for delete in asks:
            if delete["what"] != "delete" or not succeeded(delete):
                continue
            gone = {life for life, at in first.items() if at < delete["asked"]}
            back = [record for _, asked, life, record in seen if asked > delete["at"] and life in gone]
            if back:
                found.append(Breach(4, f"{job} was deleted and is back", delete, back[0]))
            found += risen(job, delete, asks)
    return found


def risen(job, delete, asks):
    """Finds a job that exists after its deletion although no user can have registered it."""
    if any(one["what"] == "put" and may_have_happened(one) and (not succeeded(one) or one["at"] > delete["asked"])
           for one in asks) or not any(one["what"] == "put" for one in asks):
        return []
    back = [one for one in asks if one["what"] == "read" and succeeded(one) and one["asked"] > delete["at"]]
    return [Breach(4, f"{job} was deleted and is there again", delete, back[0])] if back else []


# 5. Every declared change reaches every living rank or is reported as not delivered.

def changes(kinds):
    """Yields accepted changes, with the commands to each rank of that start of training."""
    known = defaultdict(lambda: defaultdict(list))  # (job, life) -> rank -> commands
    for command in kinds("command"):
        known[command["job"], command["life"]][command["rank"]].append(command)
    lives = defaultdict(dict)
    for one in kinds("training"):
        lives[one["job"]].setdefault(one["life"], {})[one["state"]] = one["at"]
    for ask in kinds("ask"):
        if ask["what"] not in ("straggler", "heal", "objective") or not succeeded(ask):
            continue
        for life, times in lives[ask["job"]].items():
            ended = times.get("end", float("inf"))
            if times["start"] < ask["asked"] < ended:
                yield ask, life, ended, known[ask["job"], life]


def learnt(ask, commands):
    """Returns the time at which a rank first knew of a change, or of another life of the job; None: never."""
    begin = bisect.bisect_left(commands, ask["asked"], key=lambda one: one["at"])
    life = commands[begin - 1]["incarnation"] if begin else None
    # If the rank knew the change earlier, one of its last commands contained it.
    for command in commands[max(0, begin - LOOK_BACK):]:
        if command["taken"] == "taken" and newest_version(command) >= ask["document"]["version"] or (
                life and origin(command["incarnation"]) != origin(life)):
            return max(command["at"], ask["asked"])
    return None


def delivered(kinds):
    found = []
    iterations = defaultdict(list)
    for one in kinds("iteration"):
        iterations[one["job"], one["life"]].append(one)
    for ask, life, ended, ranks in changes(kinds):
        due = ask["at"] + PATIENCE_S + SLACK_S
        later = next((one for one in iterations[ask["job"], life] if one["at"] >= due), None)
        if ended < due or later is None:
            continue
        lacking = [rank for rank, commands in ranks.items()
                   if later["assignments"].get(rank) and not known_by(ask, commands, later["at"])]
        if len(lacking) > ask["document"].get("ranks_unheard", 0):
            found.append(Breach(5, f"{ask['job']}: {ask['what']} was taken up; ranks {lacking[:5]} are governed and do not "
                                   f"know of it {later['at'] - ask['at']:.1f} s later", ask, later))
    return found


def known_by(ask, commands, at):
    when = learnt(ask, commands)
    return when is not None and when <= at


# 6. A rank without a server runs at the clocks found before.

def readings_while_away(kinds):
    """Yields readings of GPUs whose rank has certainly no server any more: the server was unreachable for longer than
    the patience, and the processes that release clocks (the rank, the agent) were not stopped recently."""
    away, moves = {}, {}
    for record in sorted(kinds("cut") + kinds("held") + kinds("gpu"), key=lambda one: one["at"]):
        node = record["node"]
        if record["kind"] == "cut":
            away[node] = record["at"] if record["on"] else None
        elif record["kind"] == "held":
            moves[node] = float("inf") if record["on"] else record["at"]
        elif record["locks"] and away.get(node) is not None and (
                record["begin"] > max(away[node] + PATIENCE_S, moves.get(node, 0)) + SLACK_S):
            yield record, record["begin"] - away[node]


def found_clocks(kinds):
    return [Breach(6, f"{record['node']}: GPU {gpu} is locked at {lock}, though its rank is not governed for "
                      f"{seconds:.1f} s; it was found at {before}", record)
            for record, seconds in readings_while_away(kinds)
            for gpu, (lock, before) in enumerate(zip(record["locks"], record["found"], strict=True)) if lock != before]


# 7. No GPU is left changed without a lease.

def leased(kinds):
    found = []
    since = {}  # (node, gpu) -> time of the first reading with an unleased lock
    for record in kinds("gpu"):
        for gpu, lock in enumerate(record["locks"] or []):
            key = record["node"], gpu
            if lock == record["found"][gpu] or gpu in record["leased"]:
                since.pop(key, None)
            elif record["at"] - since.setdefault(key, record["at"]) > SLACK_S:
                found.append(Breach(7, f"{key[0]}: GPU {gpu} is locked at {lock} without a lease", record))
        if not record["locks"]:
            since = {key: at for key, at in since.items() if key[0] != record["node"]}
    for record in kinds("last_gpu"):
        for gpu, (clock, before) in enumerate(zip(record["clocks"], record["found"], strict=True)):
            if record["orderly"] and clock != (before[0] if before else IDLE_MHZ):
                found.append(Breach(7, f"{record['node']}: GPU {gpu} idles at {clock} MHz after its agent ended; it "
                                       f"was found at {before}", record))
    return found


# 8. Over 100 iterations no job is slower than its objective, relative to all-max on its machines, with any stragglers.

def windows(kinds):
    """Yields windows of WINDOW iterations of each job: job, iterations, their time, and the time allowed. Excluded are
    iterations with different assignments (invariant 2 bounds them), and iterations after a machine became slower or
    recovered, until its ranks must have been informed and earlier assignments have ended."""
    for job in kinds.jobs():
        turned = [one["at"] for one in kinds("turned", job=job)]
        objectives = [one for one in kinds("ask", job=job, what="objective") if may_have_happened(one)]
        counted = [one for one in kinds("iteration", job=job) if not is_mixed(one)
                   and not any(at - one["time_s"] <= one["at"] < at + PATIENCE_S + SLACK_S + LEAD_S for at in turned)]
        for one in counted:
            one["may_s"] = one["all_max_s"] * (1 + loosest(objectives, one["at"] - PATIENCE_S - SLACK_S, one["at"]))
        for begin in range(0, len(counted) - WINDOW + 1, WINDOW // 10):
            window = counted[begin:begin + WINDOW]
            yield job, window, sum(one["time_s"] for one in window), sum(one["may_s"] for one in window)


def objective(kinds):
    return [Breach(8, f"{job}: {WINDOW} iterations from {window[0]['number']} took {took:.2f} s, "
                      f"{100 * (took / may - 1):.1f} % more than they may", window[0], window[-1])
            for job, window, took, may in windows(kinds) if took > may * (1 + OBJECTIVE_WITHIN)]


def loosest(objectives, begin, end):
    """Returns the largest slowdown that may have been the objective at any time between `begin` and `end`."""
    before = [one for one in objectives if succeeded(one) and one["at"] < begin]
    last = max(before, key=lambda one: one["asked"], default=None)
    return max((one["value"] for one in objectives if one["asked"] < end and (
        one is last or not succeeded(one) or one["at"] >= begin)), default=0)


# 9. Work and memory are bounded by the declared size.

def bounded(kinds):
    return [Breach(9, f"{record['program']} held {record['peak_mib']:.0f} MiB, {record['threads']} threads, "
                      f"{record['files']} files", record)
            for record in kinds("memory") if record["peak_mib"] > MOST_MIB or record["threads"] > MOST_THREADS
            or record["files"] > MOST_FILES]


# 10. A user without rights cannot slow another user's training.

def rights(kinds):
    return [Breach(10, f"{record['job']}: {record['what']} was answered {record['status']}", record)
            for record in kinds("intruder") if record["status"] is not None and record["status"] not in (401, 403)
            and record["status"] < 500]


# 11. Claimed savings are within their error bars.

def claims(kinds):
    """Yields for each job that was read: the least saving that it claims in this life, with its error bar, and the
    largest possible saving of all iterations so far. Iterations that the server did not count make this bound looser,
    but never wrong."""
    for job in sorted({one["job"] for one in kinds("iteration")}):  # the energy of other jobs is not known
        iterations = kinds("iteration", job=job)
        saved, place = 0.0, 0
        for read in sorted(kinds("ask", job=job, what="read"), key=lambda one: one["at"]):
            while place < len(iterations) and iterations[place]["at"] < read["at"]:
                saved += max(0.0, iterations[place]["all_max_j"] - iterations[place]["energy_j"])
                place += 1
            document = read["document"]
            if succeeded(read) and document.get("saved_j"):
                yield job, read, document["saved_j"] - document["saved_error_j"], saved


def claimed(kinds):
    return [Breach(11, f"{job}: at least {least:.1f} J are said to be saved, of {saved:.1f} J that can be", read)
            for job, read, least, saved in claims(kinds) if least > saved + 1e-6]


def refused(kinds):
    """Impossible reports are rejected. With an impossible time the whole report is rejected. With an impossible energy
    the report is accepted, and the job counts it once, as refused or as unused. Compares counts of consecutive reads
    with the same owner."""
    found = [Breach(11, f"{one['job']}: rank {one['rank']}: {one['what']} that cannot be counts", one)
             for one in kinds("wrong") if succeeded(one) and (one["what"] == "time" or not one["refused"])]
    for job in kinds.jobs():
        wrong = kinds("wrong", job=job, what="energy")
        reads = [one for one in kinds("ask", job=job, what="read") if succeeded(one)]
        for sooner, later in zip(reads, reads[1:]):
            before, after = sooner["document"], later["document"]
            if any(before.get(name) != after.get(name) for name in ("incarnation", "epoch")) or later["asked"] < sooner["at"]:
                continue
            counted, unused = (after.get(name, 0) - before.get(name, 0) for name in ("energies_refused", "reports_unused"))
            least = sum(one["at"] < later["asked"] for one in wrong if succeeded(one) and one["asked"] > sooner["at"])
            most = sum(may_have_happened(one) and one["asked"] < later["at"]
                       and (not succeeded(one) or one["at"] > sooner["asked"]) for one in wrong)
            if counted > most or counted + unused < least:
                found.append(Breach(11, f"{job}: {counted} energies were refused of {least} to {most} that cannot be", sooner,
                                    later))
    return found


# In addition: no program ends on its own, and everything continues after faults have ended.

def held_up(kinds, sooner, later):
    """Returns the seconds between two records in which the machine ran no part of the harness: no process wrote a
    record."""
    first = bisect.bisect_left(kinds.times, sooner["at"])
    last = bisect.bisect_right(kinds.times, later["at"])
    times = kinds.times[first:last]
    return sum(after - before for before, after in zip(times, times[1:]) if after - before > STILL_S)


def alive(kinds):
    found = [Breach("-", f"{record['program']} ended by itself with status {record.get('status')}", record)
             for record in kinds("program", by_itself=True) if record.get("status", 0) < 0]
    found += [Breach("-", f"{record['program']} was started without its database, and did not wait for it", record)
              for record in kinds("waits") if not record["disturbed"] and (not record["said"] or record["status"] is not None)]
    for job in {one["job"] for one in kinds("command")}:
        words = [one for one in kinds("command", job=job) if one["taken"] == "taken"]
        for sooner, later in zip(words, words[1:]):
            silent = later["at"] - sooner["at"]
            if silent > SILENT_S and silent - held_up(kinds, sooner, later) > SILENT_S:
                found.append(Breach("-", f"{job}: no rank was sent anything for {silent:.1f} s", sooner, later))
    return found + [Breach("-", record["why"], record) for record in kinds("stuck")]
