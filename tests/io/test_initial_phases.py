"""Initial phases: read from files as Kiter writes them, and what they leave behind."""

from fractions import Fraction
from random import Random

import pytest

from csdf.analysis.bound_channels import bound_channels
from csdf.analysis.consistency import cycle_vector
from csdf.analysis.liveness import deadlock
from csdf.analysis.throughput import throughput
from csdf.cli.main import main
from csdf.errors import InvalidGraph, StuckStart, UnreadableFile
from csdf.generation import GraphShape, random_graph
from csdf.io.graph_files import read_graph
from csdf.io.sdf3.initial_phases import InitialRates, after_start
from csdf.io.sdf3.reader import SuspiciousFile, parse_sdf3
from csdf.io.sdf3.writer import format_sdf3
from csdf.model.builder import GraphBuilder
from tests.reference.start_simulation import period_of
from tests.research_data import RESEARCH, Named, graph_of, listed
from tests.shared_data import each

ORACLES = [Named(one, one["graph"]["name"]) for one in listed("phases/phases_oracles.json")]


def ring(tokens=2):
    """a makes 1 token, b takes 1, and back; b's token comes from the start of a."""
    builder = GraphBuilder("ring").actor("a", 3).actor("b", 5)
    builder.channel("a", 1, "b", 1, name="ab")
    return builder.channel("b", 1, "a", 1, name="ba", initial_tokens=tokens).graph()


def sdf3(rate_a="4;1", time_a="2;3", tokens=1):
    return f"""<sdf3 type="csdf"><applicationGraph name="g"><csdf name="g" type="g">
    <actor name="a" type="a"><port name="o" type="out" rate="{rate_a}"/><port name="i" type="in"
      rate="1;1"/></actor>
    <actor name="b" type="b"><port name="i" type="in" rate="1"/><port name="o" type="out"
      rate="1"/></actor>
    <channel name="ab" srcActor="a" srcPort="o" dstActor="b" dstPort="i"/>
    <channel name="ba" srcActor="b" srcPort="o" dstActor="a" dstPort="i" initialTokens="{tokens}"/>
    </csdf><csdfProperties>
    <actorProperties actor="a"><processor type="p" default="true"><executionTime time="{time_a}"/>
    </processor></actorProperties>
    <actorProperties actor="b"><processor type="p" default="true"><executionTime time="5"/>
    </processor></actorProperties></csdfProperties></applicationGraph></sdf3>""".encode()


def test_the_tokens_are_those_that_the_start_leaves_behind():
    # a fires once, takes the token of ba and puts 4 on ab instead of 1: from then on 4 go round.
    with pytest.warns(SuspiciousFile, match="initial phases"):
        graph = parse_sdf3(sdf3())
    assert [one.initial_tokens for one in graph.channels] == [4, 0]
    assert graph.actor("a").durations == (3,)
    assert throughput(graph).period == Fraction(3 + 5, 4)


def test_an_actor_that_others_need_first_is_in_the_middle_of_its_cycle_then():
    builder = GraphBuilder().actor("a", [1, 2, 3]).actor("b", 4)
    builder.channel("a", [1, 0, 2], "b", 1, name="ab", initial_tokens=0)
    graph = builder.channel("b", 1, "a", [1, 1, 1], name="ba", initial_tokens=2).graph()
    # b's first phase takes 1: a has to fire once, and goes on with its second phase.
    left = after_start(
        graph, {"ab": InitialRates(consumption=(1,)), "ba": InitialRates(production=(0,))}
    )
    assert left.actor("a").durations == (2, 3, 1)
    assert [one.initial_tokens for one in left.channels] == [0, 1]


@pytest.mark.parametrize("capacity", [3, None])
@pytest.mark.parametrize("needed", [1, 2, 3])
def test_a_start_ends_with_all_space_released_or_is_refused(needed, capacity):
    # b reads a window of 2: its first phase consumes 2 tokens, whose space its second phase releases.
    builder = GraphBuilder().actor("a", 1).actor("b", [1, 1, 1]).actor("c", 1)
    builder.channel("a", 1, "b", [2, 0, 1], name="ab", capacity=capacity, release=[0, 2, 1])
    graph = builder.channel("b", 1, "c", 1, name="bc").graph()
    start = {"bc": InitialRates(consumption=(needed,))}
    if needed == 1:  # b is between its first phase and its second
        with pytest.raises(InvalidGraph, match="actor 'b' has not released the space"):
            after_start(graph, start)
        return
    assert after_start(graph, start).channels[0].capacity == capacity
    bounded = bound_channels(after_start(graph, start))
    assert bounded.channels == after_start(bound_channels(graph), start).channels


def test_a_file_whose_start_ends_in_a_window_is_refused_with_its_line():
    builder = GraphBuilder().actor("a", 1).actor("b", [1, 1, 1]).actor("c", 7)
    builder.channel("a", 1, "b", [2, 0, 1], name="ab").channel("b", 1, "c", 1, name="bc")
    space = '<channelProperties channel="ab"><storage release="0,2,1"/></channelProperties>'
    text = format_sdf3(builder.graph()).replace("</csdfProperties>", f"{space}</csdfProperties>")
    text = text.replace('"in_bc" type="in" rate="1"', '"in_bc" type="in" rate="1;1"')
    text = text.replace('time="7"', 'time="7;7"')
    with pytest.raises(UnreadableFile, match=r"<text>:\d+: channel 'ab'.* reverse channel"):
        parse_sdf3(text.encode())


def test_a_start_that_waits_for_unreleased_space_is_stuck():
    # b's first phase consumes a token, whose space b's second phase releases after d has fired, but d
    # waits for the second token of a.
    builder = GraphBuilder().actor("a", 1).actor("b", [1, 1]).actor("d", 1)
    builder.channel("a", 1, "b", [1, 0], name="ab", capacity=1, release=[0, 1])
    builder.channel("a", 1, "d", 2, name="ad")
    graph = builder.channel("d", 2, "b", [0, 1], name="db").graph()
    with pytest.raises(StuckStart):
        after_start(
            graph, {"db": InitialRates(production=(2,)), "ad": InitialRates(consumption=(2,))}
        )


def test_a_deadlock_in_the_start_alone_is_a_deadlock(tmp_path, capsys):
    # Without its initial phase the ring runs; that one asks for more than there ever is.
    with pytest.raises(StuckStart, match="a waits for b on ba, which holds 2; b waits for a on ab"):
        after_start(
            ring(), {"ba": InitialRates(consumption=(3,)), "ab": InitialRates(production=(1,))}
        )
    path = tmp_path / "stuck.xml"
    path.write_bytes(sdf3(tokens=0))
    for several in ([], ["--csv"], ["--json-lines"], [str(path)]):
        assert main(["analyze", str(path), *several]) == 1
        output, remarks = capsys.readouterr()
        assert "deadlock in the initial phases: a waits for b" in remarks
        assert "--csv" not in several or ",deadlock," in output
        assert "--json-lines" not in several or '"exit_code": 1' in output


def test_all_lists_of_an_actor_need_as_many_initial_phases():
    with pytest.raises(UnreadableFile, match=r"has 1 initial phase .*but port 'o' has 2"):
        parse_sdf3(sdf3(rate_a="4,4;1"))
    with pytest.raises(UnreadableFile, match=r"has 0 initial phases .*but port 'o' has 1"):
        parse_sdf3(sdf3(time_a="3"))
    with pytest.raises(InvalidGraph, match="initial phases"):
        after_start(ring(), {"ab": InitialRates(production=(1,))})


@pytest.mark.parametrize("rate", ["4;1;1", "x;1", ";1,", "-1;1"])
def test_a_malformed_start_is_refused_with_its_line(rate):
    with pytest.raises(UnreadableFile, match=r"<text>:\d+: actor 'a'"):
        parse_sdf3(sdf3(rate_a=rate))


@each("oracle", ORACLES)
def test_periods_are_those_of_the_oracle(oracle):
    path = RESEARCH / "phases" / f"{oracle.name}.xml"
    expected = oracle["period"]
    if expected == "deadlock":
        assert is_stuck(path)
        return
    with pytest.warns(SuspiciousFile):
        graph = read_graph(path)
    for method in ("periodic", "execution"):
        assert throughput(graph, method=method).period == Fraction(expected)


@pytest.mark.filterwarnings("ignore::csdf.errors.Suspicious")
def is_stuck(path):
    try:
        return deadlock(read_graph(path)) is not None
    except StuckStart:
        return True


@each("oracle", [one for one in ORACLES if one["effective_period"] not in (None, "None")])
def test_tokens_that_are_enough_by_themselves_give_the_same_period(oracle):
    plain = dict(oracle["graph"])
    plain["channels"] = [
        one | {"initial_tokens": oracle["effective_tokens"][one["name"]]}
        for one in plain["channels"]
    ]
    assert throughput(graph_of(plain)).period == Fraction(oracle["effective_period"])


def test_a_few_random_starts_agree_with_a_simulation():
    assert agreed(range(40)) > 5


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 500, 100))
def test_random_starts_agree_with_a_simulation(first):
    assert agreed(range(first, first + 100)) > 15


def agreed(seeds):
    """How many of these graphs run; of all it is checked that both say the same."""
    running = 0
    for seed in seeds:
        random = Random(seed)
        shape = GraphShape(actors=3, extra_channels=1, max_phases=2, max_repetitions=3, max_rate=3,
                           max_extra_initial_tokens=4)  # fmt: skip
        graph = random_graph(seed, shape)
        counts = {one.name: random.randrange(3) for one in graph.actors}
        times = {
            name: tuple(random.randrange(1, 6) for _ in range(n)) for name, n in counts.items()
        }
        rates = {one.name: start_of(random, one, counts) for one in graph.channels}
        expected = period_of(graph, times, rates, cycle_vector(graph))
        try:
            left = after_start(graph, {
                name: InitialRates(production=made, consumption=taken)
                for name, (made, taken) in rates.items()
            })  # fmt: skip
        except StuckStart:
            assert expected is None, seed
            continue
        assert throughput(left).period == expected, seed
        running += expected is not None
    return running


def start_of(random, channel, counts):
    """Rates of the initial phases; a self-loop that limits firings stays one."""
    if channel.is_self_loop:
        return ((1,) * counts[channel.producer],) * 2
    return (
        tuple(random.randrange(4) for _ in range(counts[channel.producer])),
        tuple(random.randrange(4) for _ in range(counts[channel.consumer])),
    )
