"""Families of graphs for growth experiments: each a function of the number of actors.

    python -m tests.benchmarks.growth_families [FAMILY ACTORS FILE]

Without words it prints the names of the families; else it writes the graph into the file.
"""

import random
import sys
from math import gcd, isqrt

from csdf.generation import GraphShape, random_graph
from csdf.io.graph_files import write_graph
from csdf.model.builder import GraphBuilder

SHORT = 8  # actors that a short channel of a ring passes, at most


class Drawn:
    """A builder of graphs with random repetitions; channels get the rates that balance them."""

    def __init__(self, name, actors, repetitions, longest=100, seed=1):
        """Add the actors, one firing at a time each."""
        self.draw = random.Random(seed)
        self.firings = [self.draw.randint(1, repetitions) for _ in range(actors)]
        self.builder = GraphBuilder(name)
        for number in range(actors):
            self.builder.actor(f"a{number}", self.draw.randint(1, longest), overlap=False)

    def channel(self, producer, consumer, firings=0):
        """Add a channel with tokens for so many firings of its consumer."""
        shared = gcd(self.firings[producer], self.firings[consumer])
        consumed = self.firings[producer] // shared
        self.builder.channel(
            f"a{producer}", self.firings[consumer] // shared, f"a{consumer}", consumed,
            initial_tokens=firings * consumed,
        )  # fmt: skip

    def forth_and_back(self, first, second):
        """Add a channel, and one back with the tokens of two iterations."""
        self.channel(first, second)
        self.channel(second, first, 2 * self.firings[first])


def chain(actors):
    """A chain; each channel has one back."""
    drawn = Drawn("chain", actors, 4)
    for number in range(actors - 1):
        drawn.forth_and_back(number, number + 1)
    return drawn.builder.graph()


def ring(actors, repetitions=4, filled=0.5, short=0):
    """A ring with short channels; across its end there are the tokens of 1 to 3 iterations."""
    drawn = Drawn("ring", actors, repetitions)
    draw = drawn.draw
    lengths = [1] * actors + [draw.randint(2, SHORT) for _ in range(short)]
    for number, length in enumerate(lengths):
        here = number if number < actors else draw.randrange(actors)
        to = (here + length) % actors
        has_tokens = length == 1 and draw.random() < filled
        firings = drawn.firings[to] if to < here else has_tokens
        drawn.channel(here, to, firings * draw.randint(1, 3))
    return drawn.builder.graph()


def tree(actors):
    """A binary tree; each channel has one back."""
    drawn = Drawn("tree", actors, 4)
    for number in range(1, actors):
        drawn.forth_and_back((number - 1) // 2, number)
    return drawn.builder.graph()


def mesh(actors, *, is_torus=False):
    """A square grid, to the right and down; a torus has channels with tokens round its ends."""
    side = isqrt(actors)
    drawn = Drawn("torus" if is_torus else "mesh", side * side, 4)
    for row in range(side):
        for column in range(side):
            for down, right in ((0, 1), (1, 0)):
                to = (row + down) % side * side + (column + right) % side
                here = row * side + column
                if is_torus:
                    drawn.channel(here, to, (to < here) * drawn.firings[to])
                elif to > here:
                    drawn.forth_and_back(here, to)
    return drawn.builder.graph()


def drawn_graph(actors, extra=1.0, **shape):
    """The random graph of `csdf generate` with seed 1."""
    return random_graph(1, GraphShape(actors=actors, extra_channels=int(actors * extra), **shape))


FAMILIES = {
    "chain": chain,
    "ring": ring,
    "ring, half as many short channels": lambda actors: ring(actors, short=actors // 2),
    "ring, as many short channels": lambda actors: ring(actors, short=actors),
    "the same, q 1 to 12, tokens on 4 of 5": lambda actors: ring(actors, 12, 0.8, actors),
    "tree": tree,
    "mesh": mesh,
    "torus": lambda actors: mesh(actors, is_torus=True),
    "random": drawn_graph,
    "random, 3 phases": lambda actors: drawn_graph(actors, max_phases=3),
    "random, q 1 to 12": lambda actors: drawn_graph(actors, max_repetitions=12, max_rate=12),
    "random, 3 extra channels an actor": lambda actors: drawn_graph(actors, 3.0),
}


def main():
    if len(sys.argv) == 1:
        print(*FAMILIES, sep="\n")
        return
    family, actors, path = sys.argv[1:]
    write_graph(path, FAMILIES[family](int(actors)))


if __name__ == "__main__":
    main()
