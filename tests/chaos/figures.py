"""A run in one line."""

from collections import Counter

from chaos import checker


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def longest_without_word(kinds):
    """Returns the longest time in seconds in which no rank of a training job was sent anything, and the job."""
    longest = 0.0, "none"
    for job in {one["job"] for one in kinds("command")}:
        times = sorted(one["at"] for one in kinds("command", job=job) if one["taken"] == "taken")
        longest = max([longest, *((later - sooner, job) for sooner, later in zip(times, times[1:]))])
    return longest


def figures(records, found):
    kinds = checker.Kinds(records)
    iterations, faults = kinds("iteration"), kinds("fault", on=True)
    counted = Counter(one["fault"] for one in faults if one["fault"] != "begin")
    learnt = [(ask, checker.learnt(ask, commands)) for ask, _, _, ranks in checker.changes(kinds)
              for commands in ranks.values()]
    late = [when - ask["asked"] for ask, when in learnt if when and when > ask["asked"]]  # else known before
    free = sum(assignment is None for one in iterations for assignment in one["assignments"].values())
    versions = {(one["job"], one["incarnation"], one["epoch"], assignment[0])
                for one in kinds("command") for assignment in one["assignments"]}
    epochs = {(one["job"], one["incarnation"], one["epoch"]) for one in kinds("command")}
    readings = [one for one in kinds("gpu") if one["locks"]]
    locked = sum(lock != before for one in readings for lock, before in zip(one["locks"], one["found"], strict=True))
    without, silent = longest_without_word(kinds)
    judged = [took / may for _, _, took, may in checker.windows(kinds)]
    highest = max((least / saved for _, _, least, saved in checker.claims(kinds) if saved), default=0)
    reads = [one for one in kinds("ask", what="read") if checker.succeeded(one)]
    wrong = kinds("wrong")
    tardy = {(one["job"], one["document"]["incarnation"]): one["document"].get("assignments_late", 0) for one in reads}
    parts = [
        "no invariant broke" if not found else
        "BROKEN: " + ", ".join(sorted({str(one.invariant) for one in found})),
        f"{len({one['job'] for one in iterations})} jobs of {sum(last_size(kinds))} light ranks, "
        f"{len({one['node'] for one in kinds('gpu')})} of 4 real ones each",
        f"{len(iterations)} iterations of light ranks, {sum(map(checker.is_mixed, iterations))} of them mixed",
        f"{free} times a rank at free clocks",
        f"{len(versions)} versions by {len(epochs)} owners, {sum(tardy.values())} late to some rank",
        f"{len(late)} deliveries of declared changes, p50 {percentile(late, 0.5):.2f} s, "
        f"p99 {percentile(late, 0.99):.2f} s",
        f"longest without an owner's word {without:.1f} s ({silent})",
        f"all governed {sum(one['seconds'] for one in kinds('recovered')):.1f} s after the last fault, real ones reporting "
        f"{sum(one['seconds'] for one in kinds('real ranks recovered')):.1f} s",
        f"{len(judged)} windows of {checker.WINDOW} iterations, the slowest at {100 * max(judged, default=0):.1f} % of what "
        "it may take",
        f"at most {100 * highest:.0f} % of the joules saved were claimed",
        f"{len(wrong)} reports of what cannot be, {sum(one['status'] == 400 for one in wrong)} of them refused, "
        f"{sum(bool(one['refused']) for one in wrong)} without their energies",
        f"{len(kinds('ask'))} questions of users, {len(kinds('intruder'))} without rights",
        f"{sum(len(one['locks']) for one in readings)} GPU readings, {locked} of them changed, "
        f"{sum(len(one['locks']) for one, _ in checker.readings_while_away(kinds))} of ranks surely not governed",
        f"programs at most {max((one['peak_mib'] for one in kinds('memory')), default=0):.0f} MiB",
        f"{sum(counted.values())} faults ({', '.join(f'{name} {count}' for name, count in sorted(counted.items()))})",
    ]
    return "; ".join(parts)


def last_size(kinds):
    """Returns the number of ranks of each job at its first start."""
    first = {}
    for one in kinds("training", state="start"):
        first.setdefault(one["job"], one["ranks"])
    return first.values()
