"""Files that are nearly right: seeded changes to the bytes of good ones."""

import json
import re
from copy import deepcopy

EXTREMES = [
    *(b"0", b"-1", b"-0", b"1", b"2147483648", b"9223372036854775808", b"18446744073709551616"),
    *(b"1" + b"0" * 30, b"9" * 999, b"9" * 1001, b"9" * 5000, b"1e999", b"1e-999", b"1e400000000"),
    *(b"nan", b"NaN", b"inf", b"Infinity", b"-Infinity", b"3/0", b"1/3", b"0.5", b"1e-30", b""),
    *(b"3*2,0", b"0*1", b"1000000000*1", b"10000000*1", b"9999999*1,2", b"1,2,3,4,5,6,7", b"1;2"),
    *("\u0663".encode(), "\uff11".encode(), "\u00b2".encode(), b"1_000", b"0x10", b"+1", b" 1 "),
    *(b"true", b"null", b"[]", b"{}", b'""', b"[[]]", b"\x00", b"\xff", b"\\ud800", b"\r", b"\x85"),
    *("\u2028".encode(), b"&amp;", b"&lt;", b"&x;", b"&#0;", b"&#13;", b"&#10;", b"]]>", b"<!--"),
    *(
        b"!!python/object:os.system x",
        b"!!binary x",
        b"!!set {a}",
        b"!!int x",
        b"!!float .",
        b"!!omap",
    ),
    *(
        b"!!timestamp 1",
        b"2001-99-99",
        b"2001-01-01",
        b"190:20:30",
        b"*a",
        b"&a x",
        b"<<: 1",
        b"? []",
    ),
    *(b"0b", b"0o7", b"!!bool x", b"!!null x", b"!!pairs x", b"!!str", b"!!map []", b"%YAML 9.9"),
]
DOCTYPES = [
    b'<!DOCTYPE a [<!ENTITY x "y">]>',
    b'<!DOCTYPE a SYSTEM "file:///etc/passwd">',
    b'<?xml version="1.0" encoding="UTF-16"?>',
    b'<?xml version="1.0" encoding="utf-7"?>',
    b'<?xml version="1.0" encoding="latin-1"?>',
    b'<?xml version="1.0" encoding="rot13"?>',
    b'<?xml version="1.1"?>',
    b"<?php echo 1 ?>",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"# ",
    b"--- ",
]
PLAIN_VALUES = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 10**30, 0.5, -1.5, 1e308, 10**400),
    *("", "0", "1/2", "3/0", "nan", "-1", "1e999", "\u0663", "\ud800", "x" * 300, "\n", "a\u2028b"),
    *([], [[]], {}, {"": 0}, [0] * 40, ["a"], [None], [1, 1]),
)
NUMBER = re.compile(rb"[0-9]+")
WORD = re.compile(rb"[A-Za-z_]+")
LARGEST = 200_000  # bytes of a mutant


def mutant(content, other, random):
    """The content after one to four changes; `other` is spliced in now and then."""
    for _ in range(random.choice((1, 1, 1, 2, 3, 4))):
        content = random.choice(CHANGES)(content, other, random)[:LARGEST]
    return content


def _flip(content, other, random):
    if not content:
        return b"\x00"
    place = random.randrange(len(content))
    return (
        content[:place] + bytes([content[place] ^ 1 << random.randrange(8)]) + content[place + 1 :]
    )


def _truncate(content, other, random):
    return content[: random.randint(0, len(content))]


def _cut(content, other, random):
    begin = random.randint(0, len(content))
    return content[:begin] + content[begin + random.choice((1, 2, 5, 40, 200)) :]


def _lines(content, other, random):
    """A line twice, away, or in the place of another."""
    lines = content.splitlines(keepends=True)
    if not lines:
        return content
    here, there = random.randrange(len(lines)), random.randrange(len(lines))
    what = random.randrange(4)
    if what == 0:
        lines.insert(there, lines[here])
    elif what == 1:
        del lines[here]
    elif what == 2:
        lines[here], lines[there] = lines[there], lines[here]
    else:
        lines[here] = lines[here] * random.choice((2, 3, 100))
    return b"".join(lines)


def _number(content, other, random):
    return _replaced(content, NUMBER, random.choice(EXTREMES), random)


def _word(content, other, random):
    """A word in the place of another."""
    words = WORD.findall(content[:20_000])
    return _replaced(content, WORD, random.choice(words or EXTREMES), random)


def _insert(content, other, random):
    place = random.randint(0, len(content))
    return content[:place] + random.choice(EXTREMES) + content[place:]


def _replaced(content, pattern, new, random):
    found = list(pattern.finditer(content[: LARGEST // 4]))
    if not found:
        return content
    one = random.choice(found)
    return content[: one.start()] + new + content[one.end() :]


def _head(content, other, random):
    return random.choice(DOCTYPES) + content


def _nest(content, other, random):
    opening = random.choice((b"[", b'{"a":', b"<a>", b"- ", b"{", b"(", b"? ", b'"'))
    place = random.randint(0, len(content))
    return content[:place] + opening * random.choice((3, 300, 20_000)) + content[place:]


def _encode(content, other, random):
    text = content.decode("utf-8", "replace")
    return text.encode(random.choice(("utf-16", "utf-8-sig", "utf-32", "cp037")), "replace")


def _endings(content, other, random):
    return content.replace(b"\n", random.choice((b"\r\n", b"\r", b"\x85", b"", b"\n\n", b"\x0b")))


def _splice(content, other, random):
    return content[: random.randint(0, len(content))] + other[random.randint(0, len(other)) :]


CHANGES = (
    *(_flip, _truncate, _cut, _lines, _lines, _number, _number, _number, _word, _word, _insert),
    *(_insert, _head, _nest, _encode, _endings, _splice),
)


def json_mutant(content, other, random):
    """The document with one to three of its values changed, as JSON."""
    document = [json.loads(content)]
    for _ in range(random.choice((1, 1, 2, 3))):
        _change_value(document, random)
    return json.dumps(document[0] if document else None).encode()


def _change_value(document, random):
    """Walk down at random; there replace, drop, repeat or move a value."""
    holder, key = document, 0
    while holder and isinstance(holder[key], list | dict) and holder[key] and random.random() < 0.8:
        holder = holder[key]
        key = (
            random.choice(list(holder))
            if isinstance(holder, dict)
            else random.randrange(len(holder))
        )
    if not holder:
        return
    what = random.randrange(6)
    if what == 0:
        del holder[key]
    elif what == 1 and isinstance(holder, list):
        holder.insert(key, holder[random.randrange(len(holder))])
    elif what == 2 and isinstance(holder, dict):
        holder[random.choice(("", "x", "name", key))] = holder[random.choice(list(holder))]
    elif what == 3 and isinstance(holder[key], list) and len(holder[key]) < 1000:
        holder[key] = holder[key] * random.choice((0, 2, 30))
    else:
        holder[key] = deepcopy(random.choice(PLAIN_VALUES))


def word_mutant(content, other, random):
    """The content after one to six changes that keep its length: other 16- and 32-bit numbers."""
    changed = bytearray(content)
    for _ in range(random.randint(1, 6)):
        width = random.choice((1, 2, 4))
        place = random.randrange(0, max(1, len(changed) - width))
        old = int.from_bytes(changed[place : place + width], "little")
        any_number = random.getrandbits(32)
        new = random.choice((old + 1, old - 1, old * 2, 0, -1, 2**31, any_number, len(other)))
        changed[place : place + width] = (new % 2 ** (8 * width)).to_bytes(width, "little")
    return bytes(changed)
