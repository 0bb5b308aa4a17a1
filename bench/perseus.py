"""Plans of Perseus's released solver, lowtime (PyPI), for a profile as Harpe reads it.

The graph and the fit of costs are those of lowtime's own example of Perseus: 1F1B, Pareto-optimal clocks by time and
energy, durations floored to a unit of time, an exponential cost fitted to effective energies. Its frontier goes by
those floored durations and fitted costs; what its clocks really take is for the caller to find out.
"""

import csv
import itertools
import sys
import time
import types


def import_lowtime():
    """Returns lowtime's modules, or raises ImportError. lowtime needs matplotlib only for drawing, which is not used
    here."""
    if "matplotlib" not in sys.modules:
        matplotlib = types.ModuleType("matplotlib")
        matplotlib.pyplot = types.ModuleType("matplotlib.pyplot")
        sys.modules["matplotlib"], sys.modules["matplotlib.pyplot"] = matplotlib, matplotlib.pyplot
    import networkx
    from lowtime import cost_model, graph_utils, operation, solver
    from lowtime.perseus import instruction, schedule

    return networkx, cost_model, graph_utils, operation, solver, instruction, schedule


def read_rows(profile):
    """Returns (stage, kind) -> [(MHz, seconds, joules)]."""
    rows = {}
    with open(profile, encoding="utf-8") as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            point = int(row["frequency"]), float(row["time"]), float(row["energy"])
            rows.setdefault((int(row["stage"]), row["instruction"]), []).append(point)
    return rows


def operation_spec(lowtime, points, blocking_power, unit):
    """Returns the possible operating points of a kind of instruction, and the curve fitted to them."""
    _, cost_model, _, operation, *_ = lowtime
    options = [operation.ExecutionOption(real_time=s, unit_time=unit, cost=j, knob=mhz) for mhz, s, j in points]
    candidates = operation.CandidateExecutionOptions(options=options)
    for option in candidates.options:
        option.cost -= blocking_power * option.quant_time * unit
    return operation.OperationSpec(options=candidates, cost_model=cost_model.ExponentialModel(candidates))


def frontier(profile, stages, micro_batches, blocking_power, unit=0.001):
    """Returns its plans, slowest first; the predicted seconds and joules of an iteration of each, by floored durations
    and fitted costs; and the total CPU seconds to find them.

    A plan is, per stage, the clock (MHz) of each instruction in list order. `unit` is in seconds."""
    lowtime = import_lowtime()
    networkx, _, graph_utils, _, solver, instruction, schedule = lowtime
    rows = read_rows(profile)
    start = time.process_time()
    kinds = {instruction.Forward: "forward", instruction.Backward: "backward"}
    dag, lists = networkx.DiGraph(), []
    for stage in range(stages):
        specs = {kind: operation_spec(lowtime, rows[stage, name], blocking_power, unit) for kind, name in kinds.items()}
        lists.append(list(schedule.Synchronous1F1B(stages, micro_batches, stage, specs)))
        first = 2 + dag.number_of_nodes()  # 0 and 1 become source and sink
        for i, one in enumerate(lists[-1]):
            dag.add_node(first + i, op=one)
        dag.add_edges_from((first + i, first + i + 1) for i in range(len(lists[-1]) - 1))
    rules = graph_utils.DependencyResolver([instruction.forward_dep, instruction.backward_dep], instruction.Instruction)
    nodes = list(dag.nodes(data="op"))
    dag.add_edges_from((a, b) for (a, one), (b, other) in itertools.product(nodes, nodes) if rules.is_dependent(one, other))
    graph_utils.add_source_node(dag, 0)
    graph_utils.add_sink_node(dag, 1)
    dag.graph.update(source_node=0, sink_node=1)
    plans, planned = [], []
    for step in solver.PhillipsDessouky(dag).run():
        plans.append([[one.assigned_knob for one in stage] for stage in lists])
        planned.append((step.real_time, step.cost + stages * blocking_power * step.real_time))
    return plans, planned, time.process_time() - start
