"""Random graphs small enough for the slow references: shapes for every trait, and silent phases."""

from math import lcm
from random import Random

from csdf.generation import GraphShape
from csdf.model.graph import Actor, Channel, Graph

SHAPES = {
    "SDF": GraphShape(actors=4, max_extra_initial_tokens=4),
    "CSDF": GraphShape(actors=3, max_phases=3, max_extra_initial_tokens=3),
    "tight": GraphShape(actors=4, max_phases=2, extra_channels=5),
    "overlapping": GraphShape(
        actors=3, max_phases=3, has_self_loops=False, max_extra_initial_tokens=6
    ),
    "overlapping, zero durations": GraphShape(
        actors=3,
        max_phases=3,
        has_self_loops=False,
        min_duration=0,
        max_duration=3,
        max_extra_initial_tokens=6,
    ),
    "loosely connected": GraphShape(
        actors=4,
        max_phases=3,
        max_concurrency=3,
        min_duration=0,
        max_duration=3,
        max_extra_initial_tokens=6,
        is_strongly_connected=False,
    ),
    "bounded, windows": GraphShape(
        actors=3,
        max_phases=3,
        is_bounded=True,
        has_late_release=True,
        is_strongly_connected=False,
        max_extra_initial_tokens=2,
    ),
    "bounded, windows, overlapping": GraphShape(
        actors=3,
        max_phases=4,
        is_bounded=True,
        has_late_release=True,
        has_self_loops=False,
        min_duration=0,
        max_duration=4,
        max_extra_initial_tokens=4,
    ),
    "single actor": GraphShape(
        actors=1, max_phases=4, min_duration=0, max_duration=4, max_concurrency=5
    ),
    "HSDF, zero durations": GraphShape(
        actors=5,
        max_repetitions=1,
        max_rate=1,
        has_self_loops=False,
        min_duration=0,
        max_duration=2,
        max_extra_initial_tokens=1,
    ),
}


def with_silent_phases(seed):
    """A ring of one to three actors, with phases of rate 0 or time 0, and few self-loops."""
    random = Random(seed)
    phases = [random.randint(1, 4) for _ in range(random.randint(1, 3))]
    cycles = [random.randint(1, 2) for _ in phases]
    actors = tuple(
        Actor(name=f"a{at}", durations=tuple(random.choice((0, 1, 2, 5, 7)) for _ in range(count)))
        for at, count in enumerate(phases)
    )
    ends = [(at, (at + 1) % len(phases)) for at in range(len(phases))]
    ends += [(at, at) for at in range(len(phases)) if random.random() < 0.3]
    channels = []
    for made, taken in ends:
        tokens = lcm(cycles[made], cycles[taken]) * random.randint(1, 3)
        production = split(random, tokens // cycles[made], phases[made])
        consumption = split(random, tokens // cycles[taken], phases[taken])
        initial = random.randint(0, 2 * tokens)
        bounds = {}
        if random.random() < 0.3:
            bounds["capacity"] = initial + random.randint(0, 2 * tokens)
            bounds["release"] = later(random, consumption)
        channels.append(
            Channel(
                name=f"c{len(channels)}", producer=f"a{made}", consumer=f"a{taken}",
                production=production, consumption=consumption, initial_tokens=initial, **bounds,
            )
        )  # fmt: skip
    return Graph(name=f"silent {seed}", actors=actors, channels=tuple(channels))


def split(random, total, parts):
    """So many parts, many of them 0, that add up to the total."""
    found = [0] * parts
    for _ in range(total):
        found[random.randrange(parts)] += 1
    return tuple(found)


def later(random, consumption):
    """Release rates that keep some of what was consumed for later phases."""
    kept, found = 0, []
    for phase, taken in enumerate(consumption):
        kept += taken
        found.append(kept if phase == len(consumption) - 1 else random.randint(0, kept))
        kept -= found[-1]
    return tuple(found)
