"""Large SDF3 files by their shapes: the graph of the careful reader, or none."""

import re
from pathlib import Path
from random import Random

import pytest

from csdf.errors import CsdfError
from csdf.io.sdf3 import document as sdf3_document
from csdf.io.sdf3 import reader
from csdf.io.sdf3.regular import regular_graph
from csdf.io.sdf3.source import open_document
from csdf.io.sdf3.writer import format_sdf3
from tests.adversarial.graphs import chain
from tests.fuzz.mutations import mutant
from tests.io import sdf3_texts
from tests.io.shared_graphs import each_shared_graph

GRAPH_MODELS = Path(__file__).parents[2] / "models" / "graphs"
REGULAR = sdf3_texts.FULL
FIRST = '<actor name="a" type="A">'
CHANNEL = '<channel name="c" srcActor="a" srcPort="o" dstActor="b" dstPort="i" initialTokens="2"/>'


def careful_graph(content, *, buffer_sizes=False):
    """The graph that the reader of lines makes of a text; None where it complains or remarks."""
    try:
        document = open_document(content, "x")
        graph, remarks = reader._read(document, assume_zero_times=False, buffer_sizes=buffer_sizes)
    except CsdfError:
        return None
    return None if remarks else graph


def require_alike(content, *, buffer_sizes=False):
    """The graph of the quick reader, if any, after a look at that of the careful one."""
    graph = regular_graph(content, "x", buffer_sizes=buffer_sizes)
    if graph is not None:
        careful = careful_graph(content, buffer_sizes=buffer_sizes)
        assert careful is not None
        assert (graph, graph.origin) == (careful, careful.origin)
    return graph


def test_phases_processors_rational_times_and_sizes_are_read():
    text = REGULAR.replace('time="7"', 'time="7/2"').encode()
    graph = require_alike(text, buffer_sizes=True)
    assert graph is not None
    assert graph.channel("c").capacity == 9
    # The unit of 7/2 is a half, so that 4,3 are 8,6 and 5 in each of two phases is 10.
    assert [one.durations for one in graph.actor("a").processors] == [(10, 10), (8, 6)]


@each_shared_graph
def test_shared_graphs_are_read_alike_or_left_to_the_careful_reader(path):
    require_alike(path.read_bytes())
    require_alike(path.read_bytes(), buffer_sizes=True)


@pytest.mark.parametrize("path", sorted(GRAPH_MODELS.glob("*.xml")), ids=lambda path: path.stem)
def test_models_are_read_alike_or_left_to_the_careful_reader(path):
    require_alike(path.read_bytes())


def test_what_programs_write_is_regular():
    graph = chain(1000)
    assert require_alike(format_sdf3(graph).encode()) == graph


def test_large_files_are_read_by_their_shapes(monkeypatch):
    text = format_sdf3(chain(1000)).encode()
    assert len(text) > reader.LARGE
    monkeypatch.setattr(sdf3_document, "quick_document", lambda text, name: None)
    careful = reader.parse_sdf3(text)  # the frame of a regular file is a quick document too
    monkeypatch.undo()
    monkeypatch.setattr(reader, "_read", None)  # which every other way takes
    assert reader.parse_sdf3(text) == careful


@pytest.mark.parametrize("quote", ['"', "'"])
@pytest.mark.parametrize("breaks", ["\n", "\r\n", "\t", ""])
def test_quotes_and_breaks_are_as_the_writer_likes_them(quote, breaks):
    text = REGULAR.replace("\n", breaks).replace('"', quote).encode()
    assert require_alike(text) is not None


def test_channels_may_have_an_end_of_their_own():
    long = format_sdf3(chain(3)).replace('initialTokens="1"/>', 'initialTokens="1"></channel>')
    every = re.sub("(<channel [^>]*)/>", r"\1></channel>", long)
    assert require_alike(every.encode()) == chain(3)
    assert require_alike(long.encode()) is None  # of both kinds


def test_ascii_is_read_by_shapes_whatever_latin_it_is_declared_as():
    latin = REGULAR.replace('encoding="UTF-8"', "encoding='ISO-8859-1'")
    assert require_alike(latin.encode()) is not None
    # Two letters in Latin-1, one in UTF-8: for the reader that asks which.
    assert require_alike(latin.replace('type="B"', 'type="é"').encode()) is None
    for text in (latin, REGULAR.replace('encoding="UTF-8"', 'encoding="ISO-8859-15"')):
        named = text.replace('channel name="c"', 'channel name="ã"').replace(
            'channel="c"', 'channel="ã"'
        )
        assert regular_graph(named.encode(), "x", buffer_sizes=False) is None
        graph = reader.parse_sdf3(named.encode())
        assert graph == careful_graph(named.encode())
        assert len(graph.channels[0].name) == 2


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # Values that XML reads otherwise than they stand there, or not at all.
        ('rate="3"', 'rate="&#51;"'),
        ('name="pair" type', 'name="&lt;" type'),
        ('type="B"', 'type="&lt;"'),
        ('type="B"', 'type="<"'),
        ('type="B"', 'type="\x01"'),
        ('type="B"', 'type="\uffff"'),
        ('type="B"', 'type="\n"'),
        ('type="B"', 'type="\t"'),
        ('type="B"', 'type="B" type="B"'),
        ('type="B"', "type='B'"),
        ('name="b" type="B"', "name='b' type='B'"),
        ('type="B"', 'type="B'),
        # Elements that are not where they seem to be.
        (FIRST, f"<!-- {FIRST} </actor> -->{FIRST}"),
        (CHANNEL, f"<!-- {CHANNEL} -->"),
        (CHANNEL, f"<![CDATA[{CHANNEL}]]>"),
        (CHANNEL, f"<group>{CHANNEL}</group>"),
        ("<csdfProperties>", "<csdfProperties><csdf>" + CHANNEL + "</csdf>"),
        (CHANNEL, CHANNEL.replace("/>", "></channel>")),
        (CHANNEL, CHANNEL.replace("/>", "><extra/></channel>")),
        (CHANNEL, CHANNEL.replace("<channel ", "<channel\n")),
        (CHANNEL, f"{CHANNEL}<csdf-run-of-channel/>"),
        ("<csdfProperties>", "<csdfProperties><csdf-run-of-channelProperties/>"),
        ('<port name="i"', '<other><port name="i" type="in" rate="3"/></other><port name="i"'),
        ("<actorProperties actor=\"a\">", '<x:actorProperties xmlns:x="urn:x" actor="a">'),
        ('<actor name="b"', '<actor xmlns="urn:x" name="b"'),
        ("<csdf name", '<csdf xmlns="urn:x" name'),
        ('<actor name="b" type="B">', '<actor name="z"/><actor name="b" type="B">'),
        # What the careful reader refuses, or has a remark on.
        ('<actor name="b"', '<actor name="a"'),
        ('<port name="i" type="in" rate="3"/>', '<port name="i" type="in" rate="3"/>' * 2),
        ('<port name="i"', '<port name="loose" type="in" rate="3"/><port name="i"'),
        ('type="in"', 'type="out"'),
        ('type="in"', 'type="inout"'),
        ('dstPort="i"', 'dstPort="j"'),
        ('dstActor="b"', 'dstActor="c"'),
        ('rate="3"', 'rate="1;3"'),
        ('rate="3"', 'rate="-3"'),
        ('rate="3"', 'rate="0"'),
        ('rate="1,2"', 'rate="1,2,1,2"'),
        ('time="7"', 'time="x"'),
        ('time="7"', ""),
        ('time="7"', f'time="1/{10**101}"'),
        ('default="false"', 'default="true"'),
        ('default="false"', 'default="yes"'),
        ('type="dsp"', 'type="arm"'),
        ('<actorProperties actor="b">', '<actorProperties actor="a">'),
        ('<actorProperties actor="b">', '<actorProperties actor="z">'),
        ('<channelProperties channel="c">', '<channelProperties channel="z">'),
        ('sz="16"', ""),
        ('sz="16"', 'sz="-1"'),
        ('<tokenSize sz="16"/>', '<tokenSize sz="16"/>' * 2),
        ('initialTokens="2"', 'initialTokens="-2"'),
        ("3e-8", "-1"),
        ('<sdf3 type="csdf"', '<sdf3 type="sdf"'),
        ('<sdf3 type="csdf"', '<sdf3 type="x"'),
        ("</sdf3>", "</sdf3><sdf3/>"),
        ("<sdf3 ", "<!DOCTYPE sdf3><sdf3 "),
        ('encoding="UTF-8"', 'encoding="latin-1"'),
    ],
)  # fmt: skip
def test_the_unusual_is_read_alike_or_left_to_the_careful_reader(old, new):
    assert old in REGULAR
    require_alike(REGULAR.replace(old, new, 1).encode())


@pytest.mark.parametrize(
    "value", ["&#51;", "<", "\x01", "\uffff", "\n", "\t", "\r", "&amp;", "a'b'"]
)
def test_a_value_that_xml_does_not_take_as_it_stands_is_for_a_parser(value):
    text = REGULAR.replace('type="B"', f'type="{value}"')
    plain = "'" in value
    assert (require_alike(text.encode()) is not None) == plain


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_mutants_are_read_alike_or_left_to_the_careful_reader(seed):
    random = Random(seed)
    seeds = [REGULAR.encode(), REGULAR.replace('"', "'").encode()]
    seeds += [path.read_bytes() for path in sorted(GRAPH_MODELS.glob("*.xml"))]
    seeds += [format_sdf3(chain(3)).encode()]
    seeds = [one for one in seeds if len(one) < 20_000]
    read = 0
    for _ in range(700):
        content, other = random.choice(seeds), random.choice(seeds)
        read += require_alike(mutant(content, other, random)) is not None
    # Some changes are in names, types and numbers, and leave a regular file.
    assert 15 < read < 650
