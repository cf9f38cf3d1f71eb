import random
from itertools import pairwise

import pytest

from cnn2csdf.readers.darknet import parse_darknet
from csdf.errors import CsdfError, InvalidNetwork, UnreadableFile, UnsupportedOperator
from tests.cnn2csdf.readers.darknet_texts import NET, TINY

LONG = TINY.replace("filters=10", "filters=8") + (
    "[shortcut]\nfrom=-1\nactivation=mish\n[upsample]\nstride=2\n[reorg]\nstride=2\n"
    "[normalization]\nalpha=.1\n[connected]\noutput=3\n[softmax]\n[cost]\n"
)


@pytest.mark.parametrize(
    ("text", "error", "complaint"),
    [
        ("", UnreadableFile, "n.cfg: no section in the file; expected [net] first"),
        ("height=3\n", UnreadableFile, "n.cfg:1: 'height=3' stands in front of the first section"),
        ("[net\n", UnreadableFile, "n.cfg:1: found '[net'; expected [section]"),
        ("[convolutional]\n", UnreadableFile, "n.cfg:1: [convolutional]: the first section is not"),
        ("[net]\nheight=3\n", UnreadableFile, "n.cfg:1: [net]: the option 'channels' is missing"),
        (NET, UnreadableFile, "n.cfg:1: [net]: no layer follows"),
        (NET.replace("8", "0"), UnreadableFile, "n.cfg:2: [net]: found height=0; expected an int"),
        (NET + "[conv]\nsize", UnreadableFile, "n.cfg:6: found 'size'; expected option=value"),
        (NET + "[conv]\nsize=", UnreadableFile, "n.cfg:6: found 'size='"),
        (NET + "[conv]\nsize=3\nsize=3", UnreadableFile, "n.cfg:7: [conv]: 'size' is given twice"),
        (NET + "[conv]\nsize=two", UnreadableFile, "n.cfg:6: [conv]: found size=two; expected an i"),
        (NET + "[conv]\nsize=9999999999", UnreadableFile, "an integer of at most 9 digits"),
        (NET + "[conv]\nsize=0", UnreadableFile, "expected an integer of at least 1"),
        (NET + "[conv]\nstride=-1", UnreadableFile, "n.cfg:6: [conv]: found stride=-1"),
        (NET + "[maxpool]\nstride=2,3", UnreadableFile, "found stride=2,3; expected an integer of"),
        (NET + "[conv]\nfilter=3", UnreadableFile, "n.cfg:6: [conv]: the option 'filter' is unkn"),
        (NET + "[conv]\nactivation=loggy", UnreadableFile, "found activation=loggy; expected one"),
        (NET + "[conv]\nxnor=1", UnsupportedOperator, "n.cfg:6: [conv]: xnor=1 is not supported"),
        (NET + "[conv]\ngroups=3", InvalidNetwork, "n.cfg:5: [conv]: layer 'conv0': groups: 3"),
        (NET + "[conv]\nsize=9", InvalidNetwork, "n.cfg:5: [conv]: layer 'conv0': a window of 9x9"),
        (NET + "[local]\nsize=3", UnsupportedOperator, "n.cfg:5: [local]: unsupported section"),
        (NET + "[crop]\n", UnsupportedOperator, "n.cfg:5: [crop]: unsupported section"),
        (NET + "[route]\n", UnreadableFile, "n.cfg:5: [route]: the option 'layers' is missing"),
        (NET + "[route]\nlayers=-1", UnreadableFile, "reads section -1, but there are 0 before it"),
        (NET + "[avg]\n[route]\nlayers=1", UnreadableFile, "n.cfg:6: [route]: reads section 1"),
        (NET + "[yolo]\n[conv]\n", UnreadableFile, "n.cfg:6: [conv]: reads section 0, which is a"),
        (NET + "[yolo]\n[local]\n", UnsupportedOperator, "n.cfg:6: [local]: unsupported section"),
        (NET + "[reorg]\nstride=3", InvalidNetwork, "3 * 3 does not divide the 4 channels"),
        (NET + "[conv]\n[shortcut]\nfrom=-1\n[conv]\nfilters=2\n[shortcut]\nfrom=0", InvalidNetwork,
         "n.cfg:10: [shortcut]: layer 'shortcut3' adds shapes 2x8x6 and 1x8x6, which differ"),
        (NET + "[conv]\n[maxpool]\nsize=2\nstride=2\n[route]\nlayers=0,1", InvalidNetwork,
         "n.cfg:9: [route]: layer 'route2': shapes 1x8x6, 1x4x3 do not fit along axis 0"),
        (NET + "[softmax]\ngroups=2", UnsupportedOperator, "groups=2 is not supported"),
        (NET + "[softmax]\ntemperature=2", UnsupportedOperator, "n.cfg:6: [softmax]: temperature=2 is"),
        (NET + "[route]\nlayers=0\ngroups=2", UnreadableFile, "reads section 0"),
        (NET + "[avg]\n[route]\nlayers=0\ngroups=3", InvalidNetwork, "group 0 of 3 of the 4 channe"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_with_line_and_section(text, error, complaint):
    with pytest.raises(error) as refusal:
        parse_darknet(text, "n.cfg")
    assert complaint in str(refusal.value)


def mutated(text, generator):
    """The text with some characters replaced, lines dropped, doubled or exchanged."""
    for _ in range(generator.randint(1, 4)):
        lines = text.split("\n")
        place = generator.randrange(len(lines))
        kind = generator.randrange(4)
        if kind == 0:
            lines[place] = ""
        elif kind == 1:
            lines.insert(generator.randrange(len(lines)), lines[place])
        elif kind == 2 and lines[place]:
            at = generator.randrange(len(lines[place]))
            character = generator.choice("0123456789-=,[]#;. aeé\x00\t\u2028")
            lines[place] = lines[place][:at] + character + lines[place][at + 1 :]
        else:
            lines[place] = f"{lines[place]}{generator.choice(['9', '0', '-1', ',-2', '99999'])}"
        text = "\n".join(lines)
    return text


@pytest.mark.parametrize("text", [TINY, LONG, LONG + "[route]\nlayers=-3,-1\n[region]\n"])
def test_mutated_files_are_read_or_refused(text):
    generator = random.Random(7)
    outcomes = {reading(mutated(text, generator)) for _ in range(300)}
    assert outcomes == {"read", "refused"}


def reading(text):
    try:
        network = parse_darknet(text, "mutated.cfg")
    except CsdfError as error:
        return "refused" if "mutated.cfg" in str(error) else str(error)
    return "read" if network.outputs else "no output"


def test_sections_read_one_another_in_turn():
    network = parse_darknet(LONG, "long.cfg")
    names = [layer.name for layer in network.layers]
    assert all(earlier in network.layer(later).inputs for earlier, later in pairwise(names))
