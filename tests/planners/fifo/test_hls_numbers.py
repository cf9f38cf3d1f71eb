"""The numbers of the headers for HLS designs against integers and fractions of Python.

Widths of results, rounding and overflow as the documentation of ap_int and ap_fixed states them.
"""

import random
import subprocess
from fractions import Fraction
from math import floor
from pathlib import Path
from shutil import which
from typing import NamedTuple

import pytest

import planners.fifo.hls

INCLUDE = Path(planners.fifo.hls.__file__).parent / "include"
COMPILER = which("g++") or which("clang++")
ROUNDINGS = ["RND", "RND_ZERO", "RND_MIN_INF", "RND_INF", "RND_CONV", "TRN", "TRN_ZERO"]
OVERFLOWS = ["SAT", "SAT_ZERO", "SAT_SYM", "WRAP"]

pytestmark = pytest.mark.skipif(not COMPILER, reason="needs g++ or clang++")


class Kind(NamedTuple):
    """A type: bits, those before the point (None: an integer), sign, rounding, overflow."""

    bits: int
    whole: int | None
    signed: bool
    rounding: str = "TRN"
    overflow: str = "WRAP"

    def __str__(self):
        unsigned = "" if self.signed else "u"
        if self.whole is None:
            return f"ap_{unsigned}int<{self.bits}>"
        modes = f"AP_{self.rounding}, AP_{self.overflow}"
        return f"ap_{unsigned}fixed<{self.bits}, {self.whole}, {modes}>"

    @property
    def before(self):
        return self.bits if self.whole is None else self.whole

    @property
    def after(self):
        return self.bits - self.before


def wrapped(number, bits, signed):
    number %= 1 << bits
    return number - (1 << bits) if signed and number >> (bits - 1) else number


def rounded(value, rounding):
    """The whole number that a fraction becomes."""
    down = floor(value)
    rest = value - down
    half = Fraction(1, 2)
    if rounding == "TRN" or not rest:
        return down
    if rounding == "TRN_ZERO":
        return down + (value < 0)
    if rest != half:
        return down + (rest > half)
    up = {"RND": True, "RND_ZERO": value < 0, "RND_MIN_INF": False, "RND_INF": value > 0}
    return down + up.get(rounding, down % 2 == 1)


def stored(value, kind):
    """The bits, as a number, of a value that is assigned to a kind."""
    if kind.whole is None:  # integers take the whole part
        return wrapped(rounded(Fraction(value), "TRN_ZERO"), kind.bits, kind.signed)
    number = rounded(Fraction(value) * Fraction(2) ** kind.after, kind.rounding)
    least = -(1 << (kind.bits - 1)) if kind.signed else 0
    most = (1 << (kind.bits - kind.signed)) - 1
    if kind.overflow == "SAT_SYM" and kind.signed and kind.bits > 1:
        least = -most
    if kind.overflow == "WRAP" or least <= number <= most:
        return wrapped(number, kind.bits, kind.signed)
    if kind.overflow == "SAT_ZERO":
        return 0
    return least if number < least else most


def value_of(number, kind):
    return Fraction(number) / Fraction(2) ** kind.after


def toward_zero(value):
    return rounded(value, "TRN_ZERO")


def result(sign, a, b, x, y):
    """The kind of `a sign b` and its bits, for the values x and y."""
    signed = a.signed or b.signed
    whole = max(a.before + (b.signed and not a.signed), b.before + (a.signed and not b.signed))
    after = max(a.after, b.after)
    is_integer = a.whole is None and b.whole is None

    def kind(before, after, signed):
        return Kind(before + after, None if is_integer else before, signed)

    if sign in "+-":
        found = kind(whole + 1, after, signed or sign == "-")
        return found, stored(x + y if sign == "+" else x - y, found)
    if sign == "*":
        found = kind(a.before + b.before, a.after + b.after, signed)
        return found, stored(x * y, found)
    if sign == "/":
        # The dividend is moved up by the places of the divisor, then divided as integers.
        up = max(b.after, 0)
        places = a.after + up - b.after
        found = Kind(
            a.bits + up + b.signed, None if is_integer else a.bits + up + b.signed - places, signed
        )
        moved = toward_zero(x * Fraction(2) ** (a.after + up) / (y * Fraction(2) ** b.after))
        return found, wrapped(moved, found.bits, signed)
    if sign == "%":
        assert is_integer
        found = Kind(min(a.bits, b.bits + (not b.signed and a.signed)), None, a.signed)
        return found, stored(x - y * toward_zero(x / y), found)
    found = kind(whole, after, signed)
    left, right = (int(v * Fraction(2) ** after) for v in (x, y))
    number = {"&": left & right, "|": left | right, "^": left ^ right}[sign]
    return found, wrapped(number, found.bits, signed)


def random_kind(source, *, integer=None, widest=140):
    bits = source.choice((1, 2, 7, 8, 16, 31, 32, 33, 63, 64, 65, source.randint(1, widest)))
    if integer if integer is not None else source.random() < 0.5:
        return Kind(bits, None, source.random() < 0.6)
    whole = source.randint(-4, bits + 4)
    return Kind(
        bits, whole, source.random() < 0.6, source.choice(ROUNDINGS), source.choice(OVERFLOWS)
    )


def random_number(source, kind):
    if source.random() < 0.3:
        return wrapped(
            source.choice((0, 1, -1, 1 << (kind.bits - 1), (1 << (kind.bits - 1)) - 1)),
            kind.bits,
            kind.signed,
        )
    return wrapped(source.getrandbits(kind.bits), kind.bits, kind.signed)


def literal(number, kind):
    """C++ for a number of a kind, by its bits."""
    bits = f'ap_uint<{kind.bits}>("{hex(number % (1 << kind.bits))}", 16)'
    return f"made<{kind}>({bits})"


def programs(source, count):
    """Expressions in C++, each with the bits, the width and the sign that it must have."""
    for _ in range(count):
        a = random_kind(source)
        x = random_number(source, a)
        what = source.choice(
            (
                "+",
                "-",
                "*",
                "/",
                "%",
                "&",
                "|",
                "^",
                "<",
                "=",
                "=",
                "double",
                "shift",
                "range",
                "neg",
            )
        )
        if what in "+-*/%&|^<":
            b = random_kind(source, integer=True if what == "%" else None)
            a = random_kind(source, integer=True) if what == "%" else a
            x, y = random_number(source, a), random_number(source, b)
            if what in "/%" and y == 0:
                continue
            pair = literal(x, a), literal(y, b)
            if what == "<":
                less = value_of(x, a) < value_of(y, b)
                same = value_of(x, a) == value_of(y, b)
                yield (
                    f"ap_uint<2>(({pair[0]} < {pair[1]}) * 2 + ({pair[0]} == {pair[1]}))",
                    2 * less + same,
                    Kind(2, None, signed=False),
                )
                continue
            kind, number = result(what, a, b, value_of(x, a), value_of(y, b))
            yield f"{pair[0]} {what} {pair[1]}", number, kind
        elif what == "=":
            b = random_kind(source)
            yield f"{b}({literal(x, a)})", stored(value_of(x, a), b), b
        elif what == "double":
            value = source.choice(
                (
                    source.uniform(-300, 300),
                    source.randint(-64, 64) / 8,
                    source.gauss(0, 1e-3),
                    1e18,
                )
            )
            yield f"{a}({value!r})", stored(Fraction(value), a), a
        elif what == "shift":
            by = source.randint(-a.bits - 1, a.bits + 1)
            moved = x << by if by >= 0 else x >> -by
            yield f"({literal(x, a)} << {by})", wrapped(moved, a.bits, a.signed), a
        elif what == "range":
            low = source.randrange(a.bits)
            high = source.randrange(low, a.bits)
            taken = (x % (1 << a.bits)) >> low & ((1 << (high - low + 1)) - 1)
            yield (
                f"ap_uint<{a.bits}>({literal(x, a)}.range({high}, {low}))",
                taken,
                Kind(a.bits, None, signed=False),
            )
        else:
            kind = Kind(a.bits + 1, None if a.whole is None else a.whole + 1, signed=True)
            yield f"-{literal(x, a)}", -x, kind


HEAD = """
#include <ap_fixed.h>
#include <cstdio>
template <class T> T made(ap_uint<T::width> bits) { T x; x.range(T::width - 1, 0) = bits; return x; }
template <int W, bool S> void say(const ap_int_base<W, S>& x) {
    std::printf("%d %d %s\\n", W, W, (S ? "s " + x.to_string(16) : "u " + x.to_string(16)).c_str());
}
template <int W, int I, bool S, ap_q_mode Q, ap_o_mode O, int N>
void say(const ap_fixed_base<W, I, S, Q, O, N>& x) {
    std::printf("%d %d %s\\n", W, I, (S ? "s " + x.V.to_string(16) : "u " + x.V.to_string(16)).c_str());
}
"""


def disagreements(seed, count, folder, compiler=COMPILER):
    cases = list(programs(random.Random(seed), count))
    text = HEAD + "".join(f"void f{i}() {{ say({e}); }}\n" for i, (e, _, _) in enumerate(cases))
    text += "int main() {" + "".join(f"f{i}();" for i in range(len(cases))) + "}\n"
    (folder / "numbers.cpp").write_text(text)
    command = [compiler, "-w", "-O0", "-std=gnu++17", "-I", INCLUDE, "numbers.cpp", "-o", "numbers"]
    subprocess.run(command, cwd=folder, check=True)
    answer = subprocess.run([folder / "numbers"], capture_output=True, text=True, check=True)
    lines = answer.stdout.splitlines()
    assert len(lines) == len(cases)
    wrong = []
    for line, (expression, number, kind) in zip(lines, cases, strict=True):
        sign = "s" if kind.signed else "u"
        expected = f"{kind.bits} {kind.before} {sign} {hex(number % (1 << kind.bits))}"
        if line != expected:
            wrong.append(f"{expression} gives {line}, expected {expected}")
    return wrong


@pytest.mark.slow
def test_random_expressions_evaluate_as_in_python(tmp_path):
    assert disagreements(1, 80, tmp_path) == []
