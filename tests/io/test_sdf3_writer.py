from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from lxml import etree

from csdf.errors import InvalidGraph
from csdf.io.sdf3.reader import SuspiciousFile, parse_sdf3
from csdf.io.sdf3.writer import format_sdf3
from csdf.model.graph import Actor, Channel, Graph, Processor
from tests.io import sdf3_texts
from tests.io.graph_strategies import graphs
from tests.io.shared_graphs import each_shared_graph

PAIR = parse_sdf3(sdf3_texts.FULL.encode())


def read(text, **options):
    return parse_sdf3(text.encode(), **options)


def inventory(text):
    """Every element, comment, attribute and text of the document, with its depth, in order."""
    root = etree.fromstring(text.encode())
    return [
        (
            len(list(node.iterancestors())),
            str(node.tag),
            sorted(node.items()),
            (node.text or "").strip(),
        )
        for node in root.getroottree().iter()
    ]


def with_actor(graph, name, **changes):
    actors = tuple(replace(a, **changes) if a.name == name else a for a in graph.actors)
    return replace(graph, actors=actors)


def with_channel(graph, name, **changes):
    channels = tuple(replace(c, **changes) if c.name == name else c for c in graph.channels)
    return replace(graph, channels=channels)


@pytest.mark.slow
@given(graph=graphs())
def test_a_new_file_reads_back_as_the_graph(graph):
    assert read(format_sdf3(graph)) == graph


@pytest.mark.slow
@given(graph=graphs(), other=graphs())
def test_any_origin_can_be_patched_into_any_graph(graph, other):
    assert read(format_sdf3(replace(graph, origin=format_sdf3(other)))) == graph


@pytest.mark.slow
@each_shared_graph
@pytest.mark.filterwarnings("ignore::csdf.io.sdf3.reader.SuspiciousFile")
def test_a_shared_graph_written_unchanged_keeps_all_its_text(path):
    graph = parse_sdf3(path.read_bytes(), str(path))
    written = format_sdf3(graph)
    assert read(written) == graph
    assert inventory(written) == inventory(path.read_text())


@pytest.mark.slow
@each_shared_graph
@pytest.mark.filterwarnings("ignore::csdf.io.sdf3.reader.SuspiciousFile")
def test_a_changed_duration_changes_one_attribute_of_a_shared_graph(path):
    graph = parse_sdf3(path.read_bytes(), str(path))
    last = graph.actors[-1]
    slower = with_actor(graph, last.name, durations=tuple(d + 1 for d in last.durations))
    before, after = inventory(path.read_text()), inventory(format_sdf3(slower))
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert [new[1] for _, new in changed] == ["executionTime"]
    assert read(format_sdf3(slower)).actor(last.name).durations == slower.actor(last.name).durations


@pytest.mark.parametrize(
    ("changed", "old", "new"),
    [
        (replace(PAIR, name="duo"), 'Graph name="pair"', 'Graph name="duo"'),
        (with_channel(PAIR, "c", initial_tokens=4), 'initialTokens="2"', 'initialTokens="4"'),
        (with_channel(PAIR, "c", production=(3, 3)), 'rate="1,2"', 'rate="3,3"'),
        (with_channel(PAIR, "c", token_size=8), 'tokenSize sz="16"', 'tokenSize sz="8"'),
        (with_channel(PAIR, "c", capacity=7), 'bufferSize sz="9"', 'bufferSize sz="7"'),
        (with_actor(PAIR, "a", durations=(6, 8)), 'time="5"', 'time="6,8"'),
        (replace(PAIR, time_unit=Fraction(1, 5)), 'time="5"', 'time="1,1"'),
        (replace(PAIR, throughput_constraint=Fraction(1, 4)), ">3e-8<", ">0.25<"),
        (replace(PAIR, throughput_constraint=Fraction(1, 3)), ">3e-8<", ">1/3<"),
        (replace(PAIR, throughput_constraint=None), "<throughput>3e-8</throughput>", ""),
    ],
)
def test_a_change_replaces_its_own_text(changed, old, new):
    written = format_sdf3(changed)
    assert old in sdf3_texts.FULL
    assert old not in written
    assert new in written


def test_text_that_does_not_concern_the_graph_stays_when_it_changes():
    written = format_sdf3(with_actor(PAIR, "a", durations=(6, 8)))
    for kept in (
        "a chain of two",
        'note="kept"',
        "stateSize",
        "bits",
        "architectureGraph",
        '"dsp"',
    ):
        assert kept in written


def test_a_removed_actor_takes_its_channels_ports_and_properties_along():
    written = format_sdf3(replace(PAIR, actors=PAIR.actors[1:], channels=()))
    for gone in ('name="a"', 'actor="a"', 'channel="c"', 'name="c"', 'name="i"'):
        assert gone not in written


def test_an_added_channel_stands_on_its_own_line():
    added = Channel(name="d", producer="b", consumer="a", production=(3,), consumption=(1, 2))
    lines = format_sdf3(replace(PAIR, channels=(*PAIR.channels, added))).splitlines()
    assert (
        '      <channel name="d" srcActor="b" srcPort="out_d" dstActor="a" dstPort="in_d"/>'
        in lines
    )


def test_an_actor_keeps_its_phases_when_the_channel_that_showed_them_goes():
    # Actor a has two phases because of the rates 1,2; its time is written 5.
    alone = replace(PAIR, actors=(replace(PAIR.actors[0], processors=()),), channels=())
    assert read(format_sdf3(alone)).actor("a").durations == (5, 5)


def test_actors_are_written_in_the_order_of_the_graph():
    turned = replace(PAIR, actors=PAIR.actors[::-1])
    assert read(format_sdf3(turned)) == turned


def test_choosing_another_processor_moves_the_default():
    arm, dsp = PAIR.actor("a").processors
    processors = (replace(arm, is_default=False), replace(dsp, is_default=True))
    moved = with_actor(PAIR, "a", durations=dsp.durations, processors=processors)
    assert read(format_sdf3(moved)) == moved


def test_buffer_sizes_stay_while_no_channel_has_a_capacity():
    assert 'sz="9"' in format_sdf3(PAIR)


def test_a_channel_without_capacity_loses_its_buffer_size_if_another_has_one():
    bounded = Channel(
        name="d", producer="b", consumer="b", production=(1,), consumption=(1,), capacity=2
    )
    mixed = replace(PAIR, channels=(*PAIR.channels, bounded))
    assert read(format_sdf3(mixed), buffer_sizes=True) == mixed


def test_a_size_attribute_is_changed_where_it_stands():
    origin = sdf3_texts.edited(("<tokenSize", "<other"), ('initialTokens="2"', 'size="8"'))
    written = format_sdf3(with_channel(parse_sdf3(origin), "c", token_size=4))
    assert 'size="4"' in written
    assert "tokenSize" not in written


def test_an_sdf_graph_can_be_written_as_csdf_and_back():
    graph = parse_sdf3(sdf3_texts.self_loop(kind="sdf"))
    as_csdf = format_sdf3(graph, kind="csdf")
    assert "<csdf name" in as_csdf
    assert "<csdfProperties>" in as_csdf
    assert "<sdf" not in as_csdf.replace("<sdf3", "")
    assert 'type="csdf"' in as_csdf
    assert read(as_csdf) == graph
    assert inventory(format_sdf3(read(as_csdf), kind="sdf")) == inventory(format_sdf3(graph))


def test_an_sdf_file_becomes_csdf_when_an_actor_gets_phases():
    loop = parse_sdf3(sdf3_texts.self_loop(kind="sdf"))
    phased = Graph(
        name="g",
        actors=(Actor(name="a", durations=(1, 2)),),
        channels=(replace(loop.channels[0], production=(1, 1), consumption=(1, 1)),),
        origin=loop.origin,
    )
    assert read(format_sdf3(phased)) == phased


def test_several_phases_cannot_be_written_as_sdf():
    with pytest.raises(InvalidGraph, match="actor 'a' has 2 phases; write csdf"):
        format_sdf3(PAIR, kind="sdf")


def test_times_are_written_in_units_of_the_user():
    graph = Graph(name="g", actors=(Actor(name="a", durations=(1, 4)),), time_unit=Fraction(1, 2))
    assert 'time="1/2,2"' in format_sdf3(graph)


def test_a_window_is_written_as_a_channel_and_a_reverse_channel():
    # Reads 2 rows first and gives them back last; capacity 5, of which 1 is taken from the start.
    window = Channel(
        name="rows", producer="a", consumer="b", production=(1,), consumption=(2, 0),
        release=(0, 2), initial_tokens=1, capacity=5,
    )  # fmt: skip
    actors = (Actor(name="a", durations=(1,)), Actor(name="b", durations=(1, 1)))
    text = format_sdf3(Graph(name="g", actors=actors, channels=(window,)))
    assert read(text).channels == (window,)
    written = read(text, buffer_sizes=False)  # as SDF3 does
    assert written.channels == (
        replace(window, release=None, capacity=None),
        Channel(
            name="rows_space", producer="b", consumer="a", production=(0, 2), consumption=(1,),
            initial_tokens=4,
        ),
    )  # fmt: skip


def test_release_rates_of_an_unbounded_channel_are_kept_for_searches():
    window = Channel(
        name="w", producer="a", consumer="a", production=(1, 1), consumption=(2, 0), release=(0, 2)
    )
    graph = Graph(name="g", actors=(Actor(name="a", durations=(1, 1)),), channels=(window,))
    text = format_sdf3(graph)
    assert read(text).channels == (window,)
    assert read(text, buffer_sizes=False).channels == (replace(window, release=None),)


def test_all_capacities_can_be_written_as_reverse_channels():
    graph = with_channel(PAIR, "c", capacity=7)
    written = read(format_sdf3(graph, capacities="reverse"), buffer_sizes=False)
    assert written.channel("c_space") == Channel(
        name="c_space", producer="b", consumer="a", production=(3,), consumption=(1, 2),
        initial_tokens=5,
    )  # fmt: skip


def test_a_reverse_channel_finds_a_free_name():
    taken = replace(PAIR.channel("c"), name="c_space")
    graph = with_channel(replace(PAIR, channels=(*PAIR.channels, taken)), "c", capacity=7)
    written = read(format_sdf3(graph, capacities="reverse"), buffer_sizes=False)
    assert [channel.name for channel in written.channels] == ["c", "c_space_2", "c_space"]


def test_a_name_that_xml_cannot_hold_is_refused():
    graph = Graph(name="g", actors=(Actor(name="a\0", durations=(1,)),))
    with pytest.raises(InvalidGraph, match=r"the name 'a\\x00' holds a character"):
        format_sdf3(graph)


def test_names_with_markup_survive():
    graph = Graph(name='"<&>\n', actors=(Actor(name="a'\r\t", durations=(1,)),))
    assert read(format_sdf3(graph)) == graph


def test_the_first_of_two_default_processors_stays_as_it_was():
    origin = sdf3_texts.edited(('default="false"', 'default="true"'))
    with pytest.warns(SuspiciousFile):
        graph = parse_sdf3(origin)
    assert inventory(format_sdf3(graph)) == inventory(origin.decode())


def test_a_processor_of_its_own_name_is_written():
    actor = Actor(name="a", durations=(2,), processors=(Processor(name="gpu", durations=(2,)),))
    assert '<processor type="gpu" default="true">' in format_sdf3(Graph(name="g", actors=(actor,)))
