"""Small problems with branches, joins and ties, and all of their selections one by one."""

from itertools import product
from random import Random

from hypothesis import strategies as st

from planners.primitives.profile import CHW, HWC, LAYOUTS, LayerProfile, TransformProfile
from planners.primitives.selection.problem import LayerLink, SelectionProblem

small = st.integers(0, 6)  # few values: many ties


@st.composite
def candidates(draw, layer):
    count = draw(st.integers(1, 4))
    return tuple(
        LayerProfile(
            layer=f"l{layer}",
            primitive=f"p{number}",
            input_layout=draw(st.sampled_from(LAYOUTS)),
            output_layout=draw(st.sampled_from(LAYOUTS)),
            nanoseconds=draw(small),
            spread_nanoseconds=0,
            workspace_bytes=draw(small),
            parameter_bytes=draw(small),
        )
        for number in range(count)
    )


@st.composite
def links(draw, consumer):
    """Up to three inputs, perhaps some from the same producer."""
    found = []
    for index in range(draw(st.integers(1, 3))):
        producer = draw(st.integers(0, consumer - 1))
        link = LayerLink(
            producer=producer,
            consumer=consumer,
            index=index,
            map_bytes=draw(small),
            changes=tuple(
                TransformProfile(
                    producer=f"l{producer}",
                    consumer=f"l{consumer}",
                    index=index,
                    source_layout=source,
                    target_layout=target,
                    nanoseconds=draw(small),
                    spread_nanoseconds=0,
                    workspace_bytes=draw(small),
                )
                for source, target in ((CHW, HWC), (HWC, CHW))
            ),
        )
        found.append(link)
    return found


def large_problem(seed):
    """Up to seven layers of four candidates, with times and bytes of up to ten digits."""
    chance = Random(seed)
    count = chance.randint(3, 7)
    bytes_each = 10 ** chance.choice((6, 9, 10))
    time_each = 10 ** chance.choice((3, 6, 9))

    def some_candidates(layer):
        return tuple(
            LayerProfile(
                layer=f"l{layer}",
                primitive=f"p{number}",
                input_layout=chance.choice(LAYOUTS),
                output_layout=chance.choice(LAYOUTS),
                nanoseconds=chance.randrange(time_each),
                spread_nanoseconds=0,
                workspace_bytes=chance.randrange(bytes_each),
                parameter_bytes=chance.randrange(bytes_each),
            )
            for number in range(chance.randint(2, 4))
        )

    def link(consumer):
        return LayerLink(
            producer=consumer - 1,
            consumer=consumer,
            index=0,
            map_bytes=chance.randrange(bytes_each // 4),
            changes=tuple(
                TransformProfile(
                    producer=f"l{consumer - 1}",
                    consumer=f"l{consumer}",
                    index=0,
                    source_layout=source,
                    target_layout=target,
                    nanoseconds=chance.randrange(time_each // 4),
                    spread_nanoseconds=0,
                    workspace_bytes=chance.randrange(bytes_each // 4),
                )
                for source, target in ((CHW, HWC), (HWC, CHW))
            ),
        )

    return SelectionProblem(
        name=f"large {seed}",
        layers=tuple(f"l{number}" for number in range(count)),
        candidates=tuple(some_candidates(number) for number in range(count)),
        links=tuple(link(consumer) for consumer in range(1, count)),
    )


@st.composite
def problems(draw):
    count = draw(st.integers(1, 5))
    return SelectionProblem(
        name="random",
        layers=tuple(f"l{number}" for number in range(count)),
        candidates=tuple(draw(candidates(number)) for number in range(count)),
        links=tuple(link for number in range(1, count) for link in draw(links(number))),
    )


def costs(problem):
    """(time, memory of the network, largest workspace) of every selection."""
    for chosen in product(*problem.candidates):
        time = sum(one.nanoseconds for one in chosen)
        spaces = [one.workspace_bytes for one in chosen]
        rest = sum(one.parameter_bytes for one in chosen)
        for link in problem.links:
            ends = chosen[link.producer].output_layout, chosen[link.consumer].input_layout
            for change in link.changes:
                if (change.source_layout, change.target_layout) == ends:
                    time += change.nanoseconds
                    spaces.append(change.workspace_bytes)
                    rest += link.map_bytes
        yield time, sum(spaces) + rest, max(spaces)
