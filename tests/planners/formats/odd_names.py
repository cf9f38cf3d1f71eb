"""Names of which a C compiler would warn, or that would end the comment they stand in."""

from random import Random

PIECES = (
    "*/", "/*", "//", "*", "/", "??/", "??", "?", "\\", "\\\n", "\n", "\r\n", "\t", "\x00", "\x1b",
    "\x7f", "\x85", "\u2028", "\u202e", "\u2066", "\u200b", "\ud800", "é", "ß", "名", "🙂", '"', "'",
    "#", "%:", "<:", "$", "@", "`", " ", "-", ".", "_", "int", "9", "a",
)  # fmt: skip


def odd_names(count, *, seed):
    """Return names of random pieces that end in different numbers, so that C can tell them apart."""
    random = Random(seed)
    return [
        "".join(random.choices(PIECES, k=random.randrange(12))) + f"_{number}"
        for number in range(count)
    ]
