"""The quick parser of SDF3 files and the careful one: the same graphs, the same refusals."""

from pathlib import Path

import pytest

from csdf.errors import UnreadableFile
from csdf.io.sdf3 import document as sdf3_document
from csdf.io.sdf3.reader import parse_sdf3
from tests.io import sdf3_texts
from tests.io.sdf3_texts import edited

GRAPH_MODELS = Path(__file__).parents[2] / "models" / "graphs"


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
def test_both_parsers_agree_on_equivalent_spellings_of_xml(monkeypatch, old, new):
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
