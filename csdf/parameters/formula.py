"""Piecewise rational functions through exact values: the simplest formula of a list of numbers.

A formula is checked at every value of its range, and holds only there. Its pieces are intervals, or
residue classes within intervals: sizes of buffers depend on greatest common divisors, and so on
remainders.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from importlib import import_module
from math import comb, gcd, inf, lcm
from typing import Any, ClassVar

from csdf.errors import CsdfError
from csdf.model.shown import Shown

MOST_FITTED = 500  # maximum number of values; the work grows more than linearly
# A formula may have a case for each remainder modulo one of these numbers.
MODULI = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12)
# Degrees of numerator and denominator, by complexity. With higher degrees most sequences of some dozens
# of numbers would have a formula, with as many coefficients as numbers.
DEGREES = ((0, 0), (1, 0), (2, 0), (3, 0), (0, 1), (1, 1), (2, 1))
SHARE = 2  # minimum number of values for each coefficient or end of a formula
Polynomial = tuple[Fraction, ...]  # coefficients, the constant first


@dataclass(frozen=True, slots=True, kw_only=True)
class FormulaPiece(Shown):
    """A rational function on an arithmetic progression: first, first + step, .. last."""

    JSON: ClassVar[tuple[str, ...]] = ("first", "last", "step", "numerator", "denominator", "text")

    parameter: str
    first: int
    last: int
    step: int
    numerator: Polynomial
    denominator: Polynomial

    def value(self, number: int | Fraction) -> Fraction:
        """Return the value of the function."""
        return _value(self.numerator, number) / _value(self.denominator, number)

    @property
    def text(self) -> str:
        """The function in a line."""
        return _function(self, "{}**{}", "*")

    @property
    def latex(self) -> str:
        """The function as a formula of LaTeX."""
        return _function(self, "{}^{{{}}}", " ", is_latex=True)

    @property
    def where(self) -> str:
        """The values at which the piece holds."""
        name = self.parameter
        if self.first == self.last:
            return f"{name} = {self.first}"
        suffix = "" if self.step == 1 else f", {name} mod {self.step} = {self.first % self.step}"
        return f"{self.first} <= {name} <= {self.last}{suffix}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Formula(Shown):
    """A piecewise function of one parameter, divided by `divisor`, checked on its range.

    divisor: such as `gcd(n, 6)`, as text and as LaTeX, or None; divisors: its values, or {}.
    """

    JSON: ClassVar[tuple[str, ...]] = ("text", "pieces", "divisor", "latex")

    parameter: str
    pieces: tuple[FormulaPiece, ...]
    divisor: tuple[str, str] | None = None
    divisors: Mapping[int, Fraction] = field(default_factory=dict)

    def value(self, number: int) -> Fraction:
        """Return the value at an integer in the range. Raises CsdfError elsewhere."""
        for piece in self.pieces:
            if piece.first <= number <= piece.last and (number - piece.first) % piece.step == 0:
                return piece.value(number) / self.divisors.get(number, Fraction(1))
        raise CsdfError(f"{self.parameter} = {number} is not in the range of the formula")

    @property
    def text(self) -> str:
        """The function in a line."""
        under = f", divided by {self.divisor[0]}" if self.divisor else ""
        return "; ".join(f"{piece.text} for {piece.where}" for piece in self.pieces) + under

    @property
    def latex(self) -> str:
        """The function as a formula of LaTeX."""
        rows = [rf"{piece.latex} & \text{{for }} {_where_latex(piece)}" for piece in self.pieces]
        under = rf"\frac{{1}}{{{self.divisor[1]}}} " if self.divisor else ""
        return under + "\\begin{cases}\n" + " \\\\\n".join(rows) + "\n\\end{cases}"

    def to_sympy(self) -> Any:
        """Return the function, without its divisor, as a Piecewise of SymPy."""
        sympy = import_module("sympy")  # slow to import, and only used here
        symbol = sympy.Symbol(self.parameter, integer=True)

        def of(row: Polynomial) -> Any:
            return sum(
                (
                    sympy.Rational(coefficient.numerator, coefficient.denominator) * symbol**power
                    for power, coefficient in enumerate(row)
                ),
                sympy.Integer(0),
            )

        def where(piece: FormulaPiece) -> Any:
            bounds = (symbol >= piece.first, symbol <= piece.last)
            if piece.step == 1:
                return sympy.And(*bounds)
            return sympy.And(*bounds, sympy.Eq(symbol % piece.step, piece.first % piece.step))

        pieces = (
            (of(piece.numerator) / of(piece.denominator), where(piece)) for piece in self.pieces
        )
        return sympy.Piecewise(*pieces)


def cost(formula: Formula | None) -> float:
    """Return the number of coefficients and ends of a formula; infinite for None."""
    return (
        inf if formula is None else sum(map(_cost, formula.pieces)) + (formula.divisor is not None)
    )


def piecewise(
    parameter: str, numbers: Sequence[int], values: Sequence[Fraction | None]
) -> Formula | None:
    """Return the piecewise rational function through all known values with the minimum cost.

    None if its cost is more than a share 1 / SHARE of the number of values: a list is as short.
    numbers: at equal distances.
    """
    best: list[FormulaPiece] | None = None
    maximum = sum(value is not None for value in values) // SHARE
    for degrees in DEGREES:
        for modulus in MODULI if not degrees[1] else MODULI[:4]:
            pieces: list[FormulaPiece] = []
            for remainder in range(modulus):
                points = list(zip(numbers, values, strict=True))[remainder::modulus]
                pieces += _pieces(parameter, points, degrees, maximum)
                total = sum(map(_cost, pieces))
                if total > maximum:
                    break
            else:
                if pieces and (best is None or total < sum(map(_cost, best))):
                    best, maximum = pieces, total
    if best is None:
        return None
    return Formula(
        parameter=parameter, pieces=tuple(sorted(best, key=lambda piece: (piece.first, piece.last)))
    )


def _cost(piece: FormulaPiece) -> int:
    points = (piece.last - piece.first) // piece.step + 1
    return 1 + min(points, len(piece.numerator) + len(piece.denominator) - 1)


def _pieces(
    parameter: str,
    points: Sequence[tuple[int, Fraction | None]],
    degrees: tuple[int, int],
    maximum: int,
) -> Iterator[FormulaPiece]:
    """Yield the longest pieces in sequence, at most maximum + 1."""
    at, step = 0, points[1][0] - points[0][0] if len(points) > 1 else 1
    for _ in range(maximum + 1):
        while at < len(points) and points[at][1] is None:
            at += 1
        if at == len(points):
            return
        end = at
        while end < len(points) and points[end][1] is not None:
            end += 1
        run = [(number, value) for number, value in points[at:end] if value is not None]
        numerator, denominator, length = _longest(run, degrees)
        first, last = run[0][0], run[length - 1][0]
        yield FormulaPiece(
            parameter=parameter, first=first, last=last, step=step if length > 1 else 1,
            numerator=numerator, denominator=denominator,
        )  # fmt: skip
        at += length


def _longest(
    run: Sequence[tuple[int, Fraction]], degrees: tuple[int, int]
) -> tuple[Polynomial, Polynomial, int]:
    """Return numerator, denominator and length of the longest piece from the first point."""
    size = sum(degrees) + 1
    is_candidate = len(run) > size and (degrees[1] > 0 or _is_polynomial(run[: size + 1]))
    fraction = _through(run[:size], degrees) if is_candidate else None
    length = 0
    if fraction is not None:
        numerator, denominator = fraction
        for number, value in run:
            below = _value(denominator, number)
            if not below or _value(numerator, number) != value * below:
                break
            length += 1
    if fraction is None or length <= size:  # no more points than coefficients: a list is as short
        return (run[0][1],), (Fraction(1),), 1
    return numerator, denominator, length


def _is_polynomial(points: Sequence[tuple[int, Fraction]]) -> bool:
    """Whether the finite difference of the highest order, of equidistant points, is zero."""
    degree = len(points) - 1
    return not sum((-1) ** at * comb(degree, at) * value for at, (_, value) in enumerate(points))


def _through(
    points: Sequence[tuple[int, Fraction]], degrees: tuple[int, int]
) -> tuple[Polynomial, Polynomial] | None:
    """Return the rational function through the points, with integer coefficients."""
    above, below = degrees
    rows = [
        [Fraction(n) ** power for power in range(above + 1)]
        + [-value * Fraction(n) ** power for power in range(below + 1)]
        for n, value in points
    ]
    solution = _null_vector(rows, above + below + 2)
    denominator = solution[above + 1 :]
    if not any(denominator):
        return None
    scale = lcm(*(number.denominator for number in solution))
    shared = gcd(*(int(number * scale) for number in solution))
    leading = next(coefficient for coefficient in reversed(denominator) if coefficient)
    factor = Fraction(scale, shared) * (1 if leading > 0 else -1)
    scaled = [number * factor for number in solution]
    return tuple(scaled[: above + 1]), tuple(scaled[above + 1 :])


def _null_vector(rows: list[list[Fraction]], width: int) -> list[Fraction]:
    """Return a nonzero vector orthogonal to all rows (fewer than `width`), by Gauss-Jordan."""
    pivots: list[int] = []
    for column in range(width):
        done = len(pivots)
        chosen = next((at for at in range(done, len(rows)) if rows[at][column]), None)
        if chosen is None:
            continue
        rows[done], rows[chosen] = rows[chosen], rows[done]
        head = rows[done][column]
        rows[done] = [number / head for number in rows[done]]
        for at, row in enumerate(rows):
            if at != done and row[column]:
                factor = row[column]
                rows[at] = [a - factor * b for a, b in zip(row, rows[done], strict=True)]
        pivots.append(column)
    free = next(column for column in range(width) if column not in pivots)
    solution = [Fraction(0)] * width
    solution[free] = Fraction(1)
    for row, column in zip(rows, pivots, strict=False):
        solution[column] = -row[free]
    return solution


def _value(coefficients: Polynomial, number: int | Fraction) -> Fraction:
    return sum(
        (coefficient * Fraction(number) ** power for power, coefficient in enumerate(coefficients)),
        Fraction(0),
    )


def _function(piece: FormulaPiece, power: str, times: str, *, is_latex: bool = False) -> str:
    """Return the function as a text. power, times: forms of a power and of a product."""
    name = latex_name(piece.parameter) if is_latex else piece.parameter
    above, below = (
        _polynomial(name, coefficients, power, times)
        for coefficients in (piece.numerator, piece.denominator)
    )
    if below == "1":
        return above
    if is_latex:
        return rf"\frac{{{above}}}{{{below}}}"
    return "/".join(f"({text})" if " " in text else text for text in (above, below))


def _polynomial(name: str, coefficients: Polynomial, power_form: str, times: str) -> str:
    text = ""
    for power, coefficient in reversed(list(enumerate(coefficients))):
        if not coefficient:
            continue
        variable = "" if not power else name if power == 1 else power_form.format(name, power)
        size = str(abs(coefficient)) if abs(coefficient) != 1 or not power else ""
        sign = (" - " if coefficient < 0 else " + ") if text else "-" if coefficient < 0 else ""
        text += sign + size + (times if size and variable else "") + variable
    return text or "0"


def _where_latex(piece: FormulaPiece) -> str:
    name = latex_name(piece.parameter)
    if piece.first == piece.last:
        return f"{name} = {piece.first}"
    residue = rf",\ {name} \equiv {piece.first % piece.step} \pmod{{{piece.step}}}"
    return rf"{piece.first} \le {name} \le {piece.last}{residue if piece.step > 1 else ''}"


def latex_name(parameter: str) -> str:
    """Return a parameter as SymPy writes it in formulas: `rows_in` is `rows` with the index `in`."""
    sympy = import_module("sympy")  # slow to import
    name: str = sympy.latex(sympy.Symbol(parameter))
    return name
