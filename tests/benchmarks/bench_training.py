"""Training graphs of networks: the order of the file, the best order, and steps that run again.

    python -m tests.benchmarks.bench_training [NAME ...]

Needs the graphs of the shared data. Prints a Markdown table of peaks: forward steps in the order of
the file and backward steps in reverse; the best order; and the best order where a quarter of the
forward steps, or half of them, may run again. Weights are not counted.
"""

import json
import sys
from pathlib import Path

from csdf.time_limit import Stop
from planners.formats.tensor_graphs import parse_tensor_graph
from planners.order.search import plan_order
from planners.order.training import training_graph

INSTANCES = Path(__file__).parents[2].parent / "shared" / "order" / "instances"
NETWORKS = ("swiftnet_hpd_cell_c", "inception_v3_e_8", "densenet_multiscale_32")
# Operators whose backward step reads no activation, or the result of the forward step.
LINEAR = ("Add", "Sub", "Concat", "Slice", "Resize", "AveragePool", "GlobalAveragePool")
FROM_RESULT = ("Relu", "Sigmoid", "Tanh", "Softmax")
EFFORT = 10.0  # seconds of each search


def main():
    """Print the table."""
    print("| graph | forward steps | file's order | best order | n/4 repeated | n/2 repeated |")
    print("|---|" + "---:|" * 5)
    for name in sys.argv[1:] or NETWORKS:
        text = (INSTANCES / f"{name}.json").read_text()
        saved = {}
        for node in json.loads(text)["nodes"]:
            if node["op"] in (*LINEAR, *FROM_RESULT):
                saved[node["name"]] = (node["name"],) if node["op"] in FROM_RESULT else ()
        graph = parse_tensor_graph(text, name)
        steps, cells = len(graph.steps), []
        training = training_graph(graph, saved=saved)
        for limit in (0, steps // 4, steps // 2):
            plan = plan_order(training, price_limit=limit, budget=Stop(effort=EFFORT))
            cells += [] if limit else [f"{plan.file_peak:,}"]
            bound = f" ({plan.lower_bound:,})" if plan.gap else ""
            cells.append(f"{plan.peak:,}{bound}")
        print(f"| {name} | {steps} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
