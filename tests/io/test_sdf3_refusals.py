"""Files of SDF3 that are refused: with one message, quickly, before they are read whole."""

import os

import pytest

from csdf.errors import UnreadableFile
from csdf.io import files
from csdf.io.graph_files import read_graph
from csdf.io.sdf3.reader import parse_sdf3
from tests.io import sdf3_texts
from tests.io.sdf3_texts import edited

SECOND_CHANNEL = '<channel name="d" srcActor="a" srcPort="o" dstActor="b" dstPort="i"/>'


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
        (b"<!--\n<!DOCTYPE a>-->\n<!DOCTYPE s SYSTEM 'x'><sdf3/>", 3, "a DOCTYPE is refused"),
        (b"<sdf3>\n<!-- <!DOCTYPE a> -->", 2, "not well-formed XML"),
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
        (edited(('rate="3"', f'rate="{"9" * 5000}"')), 10, "more than 1000 characters"),
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
        read_graph(tmp_path / "none.xml")


def test_a_folder_is_refused_by_name(tmp_path):
    with pytest.raises(UnreadableFile, match="is a folder; expected a file"):
        read_graph(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_a_forbidden_file_is_refused_by_name(tmp_path):
    path = tmp_path / "secret.xml"
    path.write_bytes(b"")
    path.chmod(0)
    with pytest.raises(UnreadableFile, match=r"secret\.xml: cannot be read: Permission denied"):
        read_graph(path)


def test_a_file_beyond_the_limit_is_refused_without_reading_it_all(tmp_path):
    path = tmp_path / "huge.xml"
    with path.open("wb") as file:
        file.truncate(200 * 2**20)
    with pytest.raises(UnreadableFile, match=r"huge\.xml: larger than the limit of 64 MiB"):
        read_graph(path)


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
