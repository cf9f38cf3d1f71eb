"""Graphs of SDF3 files, read as SDF3 reads them."""

from fractions import Fraction

import pytest

from csdf.errors import UnreadableFile
from csdf.io.graph_files import read_graph
from csdf.io.sdf3.reader import SuspiciousFile, parse_sdf3
from csdf.model.graph import Actor, Channel, Graph, Processor
from tests.io import sdf3_texts
from tests.io.sdf3_texts import edited
from tests.io.shared_graphs import each_shared_graph
from tests.shared_data import GRAPHS


def test_actors_channels_and_constraint_are_read():
    assert parse_sdf3(sdf3_texts.FULL.encode()) == Graph(
        name="pair",
        actors=(
            Actor(
                name="a",
                durations=(5, 5),
                processors=(
                    Processor(name="arm", durations=(5, 5), is_default=True),
                    Processor(name="dsp", durations=(4, 3)),
                ),
            ),
            Actor(name="b", durations=(7,)),
        ),
        channels=(
            Channel(
                name="c", producer="a", consumer="b", production=(1, 2), consumption=(3,),
                initial_tokens=2, token_size=16,
            ),
        ),
        throughput_constraint=Fraction(3, 10**8),
    )  # fmt: skip


def test_the_origin_is_the_text_of_the_file():
    assert parse_sdf3(sdf3_texts.FULL.encode()).origin == sdf3_texts.FULL


def test_the_origin_is_decoded_as_the_file_says():
    text = sdf3_texts.FULL.replace("UTF-8", "ISO-8859-1").replace("a chain", "une chaîne")
    assert parse_sdf3(text.encode("latin-1")).origin == text


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ("1,2", (1, 2)),
        ("3*128,0", (128, 128, 128, 0)),
        (" 1 ,\t2 ", (1, 2)),
        ("2 * 5", (5, 5)),
        ("4", (4,)),
    ],
)
def test_rates_are_cyclic_lists_with_repetition_counts(rates, expected):
    graph = parse_sdf3(sdf3_texts.self_loop(rates=rates))
    assert graph.channel("c").production == expected


@pytest.mark.filterwarnings("ignore::csdf.io.sdf3.reader.SuspiciousFile")
def test_phases_are_the_least_common_multiple_of_all_lists():
    # Rates of length 2 and times of length 3: 6 phases, both lists repeat.
    graph = parse_sdf3(sdf3_texts.self_loop(rates="1,2", time="3,4,5"))
    assert graph.channel("c").production == (1, 2, 1, 2, 1, 2)
    assert graph.actor("a").durations == (3, 4, 5, 3, 4, 5)


@pytest.mark.parametrize(
    ("text", "durations", "unit"),
    [
        ("3/2", (3,), Fraction(1, 2)),
        ("1.5,2", (3, 4), Fraction(1, 2)),
        ("1/2,1/3", (3, 2), Fraction(1, 6)),
        ("0.1", (1,), Fraction(1, 10)),
        ("4/2", (2,), Fraction(1)),
        ("2*1/2,.5", (1, 1, 1), Fraction(1, 2)),
        ("1e-3", (1,), Fraction(1, 1000)),
        ("12345678901234567890123", (12345678901234567890123,), Fraction(1)),
    ],
)
def test_rational_times_become_integers_in_an_exact_unit(text, durations, unit):
    graph = parse_sdf3(sdf3_texts.self_loop(time=text))
    assert graph.actor("a").durations == durations
    assert graph.time_unit == unit


def test_the_last_of_several_default_processors_counts_with_a_warning():
    text = edited(('default="false"', 'default="true"'))
    with pytest.warns(
        SuspiciousFile, match=r"f\.xml:17: actor 'a' has 2 default .* 'dsp', is used"
    ):
        graph = parse_sdf3(text, "f.xml")
    assert graph.actor("a").durations == (4, 3)
    assert [processor.is_default for processor in graph.actor("a").processors] == [False, True]


def test_without_a_default_processor_the_last_one_counts():
    assert parse_sdf3(edited(('default="true"', ""))).actor("a").durations == (4, 3)


def test_a_port_without_channel_is_read_with_a_warning():
    loose = '<port name="x" type="in" rate="1"/><port name="i"'
    with pytest.warns(SuspiciousFile, match="10: actor 'b', port 'x' has no channel"):
        parse_sdf3(edited(('<port name="i"', loose)))


def test_a_list_of_some_phases_that_repeats_is_read_with_a_warning():
    # The file gives actor a two times on one of its processors; four rates make its phases four.
    text = edited(('rate="1,2"', 'rate="1,2,1,2"'))
    with pytest.warns(SuspiciousFile, match=r"f\.xml:\d+: actor 'a' has 4 phases; the 2 values of"):
        graph = parse_sdf3(text, "f.xml")
    assert graph.actor("a").phases == 4


def test_times_may_be_assumed_to_be_zero():
    text = sdf3_texts.self_loop().replace(b"<executionTime", b"<other")
    assert parse_sdf3(text, assume_zero_times=True).actor("a").durations == (0,)


def test_size_of_a_channel_is_the_bytes_of_a_token():
    sized = parse_sdf3(edited(("<tokenSize", "<other"), ('initialTokens="2"', 'size="8"')))
    assert sized.channel("c").token_size == 8
    assert sized.channel("c").capacity is None


def test_the_token_size_property_goes_before_the_size_attribute():
    assert parse_sdf3(edited(("initialTokens", 'size="8" a'))).channel("c").token_size == 16


def test_buffer_sizes_are_capacities_only_on_request():
    assert parse_sdf3(sdf3_texts.FULL.encode()).channel("c").capacity is None
    bounded = parse_sdf3(sdf3_texts.FULL.encode(), buffer_sizes=True)
    assert bounded.channel("c").capacity == 9


def test_a_placeholder_for_a_buffer_size_matters_only_on_request():
    text = edited(('sz="9"', 'sz="$B0"'))
    assert parse_sdf3(text).channel("c").capacity is None
    with pytest.raises(UnreadableFile, match=r":31: channel 'c': buffer size '\$B0'"):
        parse_sdf3(text, buffer_sizes=True)


def test_the_inner_name_counts_if_the_application_has_none():
    assert parse_sdf3(edited((' name="pair" note', " note"))).name == "pair"


@each_shared_graph
@pytest.mark.filterwarnings("ignore::csdf.io.sdf3.reader.SuspiciousFile")
def test_every_shared_graph_is_read(path):
    graph = read_graph(path)
    text = path.read_text()
    assert len(graph.actors) == text.count("<actor ")
    assert len(graph.channels) == text.count("<channel ")


@pytest.mark.skipif(not GRAPHS.exists(), reason=f"there is no {GRAPHS}")
def test_the_mp3_file_with_an_sdf_element_is_csdf():
    graph = read_graph(GRAPHS / "small" / "mp3_csdf.xml")
    # 0,0,18*32,0,18*32 has 1 + 1 + 18 + 1 + 18 phases.
    assert graph.actor("mp3").phases == 39
    assert sum(graph.channel("ch0").production) == 36 * 32


@pytest.mark.skipif(not GRAPHS.exists(), reason=f"there is no {GRAPHS}")
@pytest.mark.filterwarnings("ignore::csdf.io.sdf3.reader.SuspiciousFile")
def test_the_h263_decoder_runs_on_its_last_default_processors():
    graph = read_graph(GRAPHS / "sdf3" / "h263decoder.xml")
    assert [actor.durations for actor in graph.actors] == [(13009,), (559,), (486,), (5479,)]
