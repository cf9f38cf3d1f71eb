import os
from fractions import Fraction
from pathlib import Path

import pytest

from csdf.errors import UnreadableFile
from csdf.io import files
from csdf.io.sdf3 import document as sdf3_document
from csdf.io.sdf3.reader import SuspiciousFile, parse_sdf3, read_sdf3
from csdf.model.graph import Actor, Channel, Graph, Processor
from tests.io import sdf3_texts
from tests.io.sdf3_texts import edited
from tests.io.shared_graphs import each_shared_graph
from tests.shared_data import GRAPHS

GRAPH_MODELS = Path(__file__).parents[2] / "models" / "graphs"
SECOND_CHANNEL = '<channel name="d" srcActor="a" srcPort="o" dstActor="b" dstPort="i"/>'


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


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (b"", 1, "the file is empty"),
        (b" \n ", 1, "the file is empty"),
        (b"what is this", 1, "not well-formed XML"),
        (sdf3_texts.FULL.partition("<memory>")[0].encode(), 18, "not well-formed XML"),
        (b"<a>" * 10_000, 1, "not well-formed XML: Excessive depth"),
        (b'<a xmlns:b="http://c\nd"/>', 2, "not well-formed XML: xmlns:b: 'http://c d' is not a"),
        (edited(("<sdf3 ", "<!DOCTYPE sdf3><sdf3 ")), 3, "a DOCTYPE is refused"),
        (b'<!DOCTYPE s [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]><sdf3 type="&b;"/>', 1, "DOCTYPE"),
        (b'\n<!DOCTYPE s SYSTEM "http://x/y.dtd"><sdf3/>', 2, "DOCTYPE"),
        (b"<graphml/>", 1, "the root is <graphml>; expected <sdf3>"),
        (b'<sdf3 xmlns="x" type="sdf"/>', 1, "the root is <{x}sdf3>"),
        (b"<sdf3/>", 1, "no attribute 'type'"),
        (b'<sdf3 type="hsdf"/>', 1, "the type 'hsdf'; expected sdf or csdf"),
        (b'<sdf3 type="sdf"/>', 1, "0 of <applicationGraph>; expected one"),
        (b'<sdf3 type="sdf">\n<applicationGraph/>\n<applicationGraph/></sdf3>', 3, "2 of <appl"),
        (b'<sdf3 type="sdf"><applicationGraph/></sdf3>', 1, "0 of <sdf> or <csdf>"),
        (edited(("<csdfProperties>", "<sdfProperties/><csdfProperties>")), 14, "a second <csdf"),
        (edited((' name="pair" n', " n"), (' name="pair"', "")), 4, "no attribute 'name'"),
        (edited(('type="csdf"', 'type="sdf"')), 6, "'a' has 2 phases, but the file has the type"),
        (edited(('name="b"', 'name="a"')), 9, "<actor> name='a' is already on line 6"),
        (edited(('actor name="b"', "actor")), 9, "<actor> has no attribute 'name'"),
        (edited(('type="in"', "")), 10, "actor 'b', port 'i': <port> has no attribute 'type'"),
        (edited(('type="in"', 'type="io"')), 10, "port 'i' has the type 'io'; expected in or out"),
        (edited(('rate="3"', "")), 10, "actor 'b', port 'i': <port> has no attribute 'rate'"),
        (edited(('rate="3"', 'rate="x"')), 10, "port 'i': rate 'x' is not an integer"),
        (edited(('rate="3"', 'rate="-3"')), 10, "port 'i': rate '-3' is negative"),
        (edited(('rate="3"', 'rate="1.5"')), 10, "rate '1.5' is not an integer"),
        (edited(('rate="3"', 'rate="1_0"')), 10, "rate '1_0' is not an integer"),
        (edited(('rate="3"', 'rate="٣"')), 10, "rate '٣' is not an integer"),
        (edited(('rate="3"', 'rate="1,,2"')), 10, "rate '' is not an integer"),
        (edited(('rate="3"', 'rate=""')), 10, "rate '' is not an integer"),
        (edited(('rate="3"', 'rate="0*3"')), 10, "repeats a value 0 times"),
        (edited(('rate="3"', 'rate="1;2"')), 26, "has 0 initial phases"),
        (edited(('rate="3"', 'rate="99999999*3"')), 10, "longer than the limit of 10000000"),
        (edited(('rate="3"', f'rate="{"9" * 5000}"')), 10, "more than 1000 digits"),
        (edited(('rate="3"', 'rate="0"')), 12, "channel 'c': all consumption rates are zero"),
        (
            sdf3_texts.self_loop(rates="9999999*1", time="2*1"),
            2,
            "actor 'a' has 19999998 phases, the least common multiple",
        ),
        (
            edited(("</actor>", '<port name="o" type="in" rate="1"/></actor>')),
            8,
            "<port> name='o' is already on line 7",
        ),
        (
            edited(("</csdf>", '<channel name="c"/></csdf>')),
            13,
            "<channel> name='c' is already on line 12",
        ),
        (
            edited(("</csdf>", f"{SECOND_CHANNEL}</csdf>")),
            13,
            "channel 'd': its port 'o' already serves channel 'c'",
        ),
        (edited(('srcActor="a"', "")), 12, "channel 'c': <channel> has no attribute 'srcActor'"),
        (edited(('srcActor="a"', 'srcActor="z"')), 12, "channel 'c': there is no actor 'z'"),
        (edited(('dstPort="i"', 'dstPort="z"')), 12, "channel 'c': actor 'b' has no port 'z'"),
        (edited(('type="in"', 'type="out"')), 12, "has the type 'out'; expected 'in'"),
        (edited(('initialTokens="2"', 'initialTokens="-2"')), 12, "tokens '-2' is negative"),
        (edited(('initialTokens="2"', 'initialTokens="x"')), 12, "tokens 'x' is not an int"),
        (edited(('sz="16"', "")), 30, "channel 'c': <tokenSize> has no attribute 'sz'"),
        (edited(('sz="16"', 'sz="many"')), 30, "channel 'c': token size 'many' is not an integer"),
        (edited(("<tokenSize", '<tokenSize sz="1"/><tokenSize')), 30, "a second <tokenSize>"),
        (edited(('channel="c"', 'channel="z"')), 29, "there is no channel 'z'"),
        (edited(('actor="b"', 'actor="z"')), 24, "<actorProperties>: there is no actor 'z'"),
        (edited(('actor="b"', 'actor="a"')), 24, "actor='a' is already on line 15"),
        (edited(('type="dsp"', 'type="arm"')), 20, "<processor> type='arm' is already on line 16"),
        (edited(('default="true"', 'default="yes"')), 16, "default is 'yes'; expected true"),
        (edited(('<executionTime time="7"/>', "")), 25, "actor 'b', processor 'arm' has no exec"),
        (edited(('time="7"', "")), 26, "actor 'b', processor 'arm': <executionTime> has no attrib"),
        (edited(('time="7"', 'time="-7"')), 26, "execution time '-7' is negative"),
        (edited(('time="7"', 'time="soon"')), 26, "'soon' is not a number such as 7, 3/2 or 1.5"),
        (edited(('time="7"', 'time="1/0"')), 26, "execution time '1/0' is not a number"),
        (edited(('time="7"', 'time="1e9999"')), 26, "execution time '1e9999' has more than 3 digits"),
        (edited(('time="7"', 'time="inf"')), 26, "execution time 'inf' is not a number"),
        (edited(("3e-8", "fast")), 35, "throughput constraint 'fast' is not a number"),
        (b'<sdf3 type="sdf"><applicationGraph name="g">\n<sdf/></applicationGraph></sdf3>', 2,
         "graph 'g' has no actor"),
        (sdf3_texts.self_loop().replace(b"<processor", b"<x").replace(b"/processor", b"/x"), 4,
         "actor 'a' has no execution time"),
        (sdf3_texts.self_loop(time="1e-101"), 1, "no common multiple below 10**100"),
    ],
)  # fmt: skip
def test_a_file_is_refused_with_one_message_that_names_line_and_object(text, line, words):
    with pytest.raises(UnreadableFile) as refusal:
        parse_sdf3(text, "in.xml")
    message = str(refusal.value)
    assert message.startswith(f"in.xml:{line}: ")
    assert words in message
    assert "\n" not in message


def test_an_entity_is_never_read_from_a_file(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    text = f'<!DOCTYPE s [<!ENTITY e SYSTEM "{secret}">]><sdf3 type="sdf">&e;</sdf3>'
    with pytest.raises(UnreadableFile, match="DOCTYPE"):
        parse_sdf3(text.encode())


def test_entities_that_multiply_are_refused_quickly():
    entities = "".join(f'<!ENTITY e{n + 1} "{f"&e{n};" * 10}">' for n in range(20))
    text = f'<!DOCTYPE s [<!ENTITY e0 "x">{entities}]><sdf3 type="&e20;">&e20;</sdf3>'
    with pytest.raises(UnreadableFile, match="DOCTYPE"):
        parse_sdf3(text.encode())


def test_an_undecodable_file_is_refused():
    with pytest.raises(UnreadableFile, match=r"in\.xml:\d+: not well-formed XML"):
        parse_sdf3(sdf3_texts.FULL.encode().replace(b"chain", b"\xff\xfe"), "in.xml")


def test_a_missing_file_is_refused_by_name(tmp_path):
    with pytest.raises(UnreadableFile, match=r"none\.xml: cannot be read: No such file"):
        read_sdf3(tmp_path / "none.xml")


def test_a_folder_is_refused_by_name(tmp_path):
    with pytest.raises(UnreadableFile, match="is a folder; expected a file"):
        read_sdf3(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_a_forbidden_file_is_refused_by_name(tmp_path):
    path = tmp_path / "secret.xml"
    path.write_bytes(b"")
    path.chmod(0)
    with pytest.raises(UnreadableFile, match=r"secret\.xml: cannot be read: Permission denied"):
        read_sdf3(path)


def test_a_file_beyond_the_limit_is_refused_without_reading_it_all(tmp_path):
    path = tmp_path / "huge.xml"
    with path.open("wb") as file:
        file.truncate(200 * 2**20)
    with pytest.raises(UnreadableFile, match=r"huge\.xml: larger than the limit of 64 MiB"):
        read_sdf3(path)


def test_a_text_beyond_the_limit_is_refused():
    with pytest.raises(UnreadableFile, match="in: larger than the limit of 64 MiB"):
        parse_sdf3(b" " * (files.LARGEST_FILE_BYTES + 1), "in")


def test_rates_that_would_fill_the_memory_are_refused():
    # 9 * 10**6 phases on each of 8 ports make 7.2 * 10**7 rates.
    ports = "".join(f'<port name="p{n}" type="in" rate="9000000*1"/>' for n in range(8))
    text = sdf3_texts.self_loop().replace(b"</actor>", f"{ports}</actor>".encode())
    with pytest.raises(
        UnreadableFile, match=":2: more than 50000000 rates in the actors up to 'a'"
    ):
        parse_sdf3(text)


@each_shared_graph
@pytest.mark.filterwarnings("ignore::csdf.io.sdf3.reader.SuspiciousFile")
def test_every_shared_graph_is_read(path):
    graph = read_sdf3(path)
    text = path.read_text()
    assert len(graph.actors) == text.count("<actor ")
    assert len(graph.channels) == text.count("<channel ")


@pytest.mark.skipif(not GRAPHS.exists(), reason=f"there is no {GRAPHS}")
def test_the_mp3_file_with_an_sdf_element_is_csdf():
    graph = read_sdf3(GRAPHS / "small" / "mp3_csdf.xml")
    # 0,0,18*32,0,18*32 has 1 + 1 + 18 + 1 + 18 phases.
    assert graph.actor("mp3").phases == 39
    assert sum(graph.channel("ch0").production) == 36 * 32


@pytest.mark.skipif(not GRAPHS.exists(), reason=f"there is no {GRAPHS}")
@pytest.mark.filterwarnings("ignore::csdf.io.sdf3.reader.SuspiciousFile")
def test_the_h263_decoder_runs_on_its_last_default_processors():
    graph = read_sdf3(GRAPHS / "sdf3" / "h263decoder.xml")
    assert [actor.durations for actor in graph.actors] == [(13009,), (559,), (486,), (5479,)]


def carefully(monkeypatch):
    """Let the parser that knows lines read everything."""
    monkeypatch.setattr(sdf3_document, "quick_document", lambda text, name: None)


def test_both_parsers_read_the_same(monkeypatch):
    texts = [path.read_bytes() for path in sorted(GRAPH_MODELS.glob("*.xml"))]
    texts.append(sdf3_texts.FULL.encode())
    quick = [parse_sdf3(text) for text in texts]
    assert any(sdf3_document.quick_document(text, "x") is not None for text in texts)
    carefully(monkeypatch)
    for text, graph in zip(texts, quick, strict=True):
        again = parse_sdf3(text)
        assert (again, again.origin) == (graph, graph.origin)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("<throughput>3e-8<", "<throughput>\n  <![CDATA[3e]]>-8\n<"),
        ("<throughput>3e-8<", "<throughput>&#51;e-8<"),
        ("<throughput>3e-8<", "<throughput>&three;e-8<"),
        ("<throughput>3e-8<", "<throughput><"),
        ("<throughput>3e-8<", "<throughput>3<!-- 0 -->e-8<"),
        ("<throughput>3e-8<", "<throughput>3<?number 0?>e-8<"),
        ("<throughput>3e-8<", "<throughput>3e-8<!-- slow --><"),
        ("<throughput>3e-8<", "<!-- slow --><throughput>3e-8<"),
        ('<?xml version="1.0"', '<?xml version="1.x"'),
        ('<?xml version="1.0"', "<?xml version='1.1'"),
        ("<throughput>3e-8</throughput>", "<x:throughput xmlns:x='urn:x'>7</x:throughput>"),
        ("<sdf3 ", "<sdf3 xmlns='urn:x' "),
        ("</sdf3>", "</sdf4>"),
    ],
)
def test_both_parsers_answer_alike_where_xml_has_many_ways(monkeypatch, old, new):
    text = sdf3_texts.FULL.replace(old, new).encode()
    assert new.encode() in text
    quick = answer_to(text)
    carefully(monkeypatch)
    assert answer_to(text) == quick


def answer_to(text):
    try:
        return parse_sdf3(text)
    except UnreadableFile as error:
        return str(error)


@pytest.mark.parametrize("start", ["", "<?xml version='1.0' encoding='UTF-8'?>\n", "\ufeff"])
def test_starts_of_files_in_utf8_take_the_quick_parser(start):
    text = start + sdf3_texts.FULL.partition("?>\n")[2]
    assert sdf3_document.quick_document(text.encode(), "x") is not None
    assert parse_sdf3(text.encode()) == parse_sdf3(sdf3_texts.FULL.encode())


def test_other_encodings_take_the_careful_parser():
    text = sdf3_texts.FULL.replace("UTF-8", "ISO-8859-1").replace("chain", "chaîne")
    assert sdf3_document.quick_document(text.encode("latin-1"), "x") is None
    assert parse_sdf3(text.encode("latin-1")).actors == parse_sdf3(sdf3_texts.FULL.encode()).actors


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "utf-16-be"])
def test_a_document_type_never_reaches_the_quick_parser(encoding):
    kinds = '<sdf3 type="&e;"><applicationGraph name="x"><sdf/></applicationGraph></sdf3>'
    text = f'<!DOCTYPE s [<!ENTITY e "sdf">]>{kinds}'
    assert sdf3_document.quick_document(text.encode(encoding), "x") is None


OWN_LINE = '>\n          <executionTime time="7"/>\n        </processor>'


@pytest.mark.parametrize("before", ["", '<memory><stateSize max="1"/></memory>'])
def test_lines_that_do_not_fit_into_16_bits_are_counted(before):
    content = edited(
        ("    <csdfProperties>", "\n" * 70_000 + "    <csdfProperties>"),
        (OWN_LINE, f'>{before}<executionTime time="soon"/></processor>'),
    )
    line = content.partition(b"soon")[0].count(b"\n") + 1
    with pytest.raises(UnreadableFile, match=f"^f.xml:{line}: .*soon"):
        parse_sdf3(content, "f.xml")
