"""Latencies of the models of Model-Based-Design-Lab/cmlib, with its own answers, beside the checkout.

Its latency matrix bounds outputs minus inputs where the inputs of iteration n all come at n * period,
and all else is there at time 0: an actor in front of the inputs, released once an iteration.
"""

import re
from fractions import Fraction

from csdf.analysis.consistency import repetition_vector
from csdf.mapping.latency import source_latency
from csdf.model.builder import GraphBuilder
from tests.shared_data import SHARED, each

MODELS = SHARED / "research" / "latency" / "cmlib"
ACTOR = r"(\w+)(?:\s*\[([\d/]+)\])?"
ARROW = re.compile(rf"{ACTOR}\s+-+(?:\s+([^>]*?)\s*-+)?>\s+{ACTOR}")
ASKED = re.compile(
    r"(\S+) -op latency -p 4\nInputs:\n(.*)\nOutputs:\n(.*)\n\[(.*?)\]\]", flags=re.DOTALL
)
ENVIRONMENT = "environment"


def questions():
    """Each model with inputs and outputs, and the matrix: a row for each firing of an output."""
    path = MODELS / "answers.txt"
    if not path.exists():
        return []
    found = []
    for part in path.read_text().split("== dataflow ")[1:]:
        match = ASKED.match(part)
        if match and match[2].strip() and "deadlock" not in match[4]:
            rows = re.findall(r"[^\[\]]+", match[4])
            matrix = [[Fraction(one) for one in row.split()] for row in rows if row.split()]
            found.append((match[1], match[2].split(", "), match[3].split(", "), matrix))
    return found


def model(name, inputs, outputs):
    """The graph of a file, its inputs behind one actor that is released once an iteration.

    Actors take one time unit unless the file says otherwise, inputs and outputs none.
    """
    arrows, times = [], {}
    for line in (MODELS / name).read_text().splitlines():
        for source, first, middle, target, second in ARROW.findall(line.split("//")[0]):
            for actor, time in ((source, first), (target, second)):
                times[actor] = time or times.get(actor, "")
            arrows.append((source, middle, target))
    builder = GraphBuilder(name)
    for actor, time in times.items():
        builder.actor(actor, time or ("0" if actor in (*inputs, *outputs) else "1"))
    for source, middle, target in arrows:
        rates = dict(re.findall(r"(\w+)(?: rate| tokens): (\d+)", middle))
        tokens = middle if middle.isdigit() else rates.get("initial", 0)
        builder.channel(
            source,
            int(rates.get("production", 1)),
            target,
            int(rates.get("consumption", 1)),
            initial_tokens=int(tokens),
        )
    firings = repetition_vector(builder.graph())
    builder.actor(ENVIRONMENT, 0)
    for one in inputs:
        builder.channel(ENVIRONMENT, firings[one], one, 1)
    return builder.graph()


@each("case", questions())
def test_latencies_of_cmlib(case):
    name, inputs, outputs, matrix = case
    graph = model(name, inputs, outputs)
    firings = repetition_vector(graph)
    rows = iter(matrix)
    for output in outputs:
        worst = max(max(next(rows)) for _ in range(firings[output]))
        assert source_latency(graph, ENVIRONMENT, output, 4).latency == worst
