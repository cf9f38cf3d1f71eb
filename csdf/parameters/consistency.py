"""The repetition vector of a graph with parameters, and the values at which the graph is consistent.

Ratios of firings are rational functions of the parameters, exact and in lowest terms; a channel that
closes a cycle of the graph gives a condition: a polynomial that is zero. Within min, max, floor, ceil,
// and % nothing is simplified: each such term is a symbol of its own, so that a condition may be
listed that always holds, but none is missing.

Source: Bilsen et al., Cycle-Static Dataflow, IEEE Trans. Signal Processing 44(2), 1996, over a field of
rational functions; Bhattacharya, Bhattacharyya, Parameterized dataflow modeling for DSP systems, IEEE
Trans. Signal Processing 49(10), 2001, for consistency under parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from math import gcd, lcm
from operator import add, mul, sub, truediv
from typing import Any, ClassVar

import sympy
from sympy.polys.fields import field

from csdf.arguments import public
from csdf.errors import CsdfError
from csdf.model.expression import Expression
from csdf.model.shown import Shown
from csdf.parameters.graph import ParametricChannel, ParametricGraph, Terms

MOST_DIVIDED = 12  # terms of a greatest common divisor that are compared with one another
MOST_CONDITIONS = 4  # conditions that are checked together for a contradiction
PLAIN: Mapping[str, Any] = {"+": add, "-": sub, "*": mul, "/": truediv, "**": pow}
Values = Mapping[str, Fraction]


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition(Shown):
    """A demand of a channel on the parameters: `left` equals `right`, both expressions of SymPy.

    produced, consumed: the tokens of an iteration by the channels before it.
    """

    JSON: ClassVar[tuple[str, ...]] = ("channel", "text", "latex")

    channel: str
    left: Any
    right: Any
    produced: Any
    consumed: Any

    @property
    def text(self) -> str:
        """The condition in a line."""
        return f"{self.left} = {self.right}"

    @property
    def latex(self) -> str:
        """The condition as a formula of LaTeX."""
        return f"{sympy.latex(self.left)} = {sympy.latex(self.right)}"

    def holds(self, values: Values) -> bool:
        """Whether it holds at values of the parameters."""
        return bool(_at(self.left, values) == _at(self.right, values))


@dataclass(frozen=True, slots=True, kw_only=True)
class SymbolicRepetitions(Shown):
    """Firings in an iteration, as expressions, where the parameters fulfil all conditions.

    Parameters are at least 1. cycles: for each connected component the cycles of its actors; the least
    vector at given values is this one divided by the greatest common divisor of its numbers there.
    phases: of each actor; an actor fires its cycles times its phases. is_never: whether no values of
    the parameters fulfil all conditions.
    """

    JSON: ClassVar[tuple[str, ...]] = (
        "parameters", "repetition_vector", "divisors", "conditions", "never_consistent=is_never",
        "latex",
    )  # fmt: skip

    parameters: tuple[str, ...]
    cycles: tuple[Mapping[str, Any], ...]
    phases: Mapping[str, int]
    conditions: tuple[Condition, ...]
    is_never: bool

    @property
    def repetition_vector(self) -> dict[str, str]:
        """Firings of each actor, before the common divisor is taken out."""
        return {name: str(value) for name, value in self._firings()}

    @property
    def divisors(self) -> list[str]:
        """For each connected component by which number its firings are to be divided."""
        return [_gcd_text(part.values(), str, "gcd({})") for part in self.cycles]

    @property
    def latex(self) -> dict[str, Any]:
        """The same as formulas of LaTeX."""
        return {
            "repetition_vector": {name: sympy.latex(value) for name, value in self._firings()},
            "divisors": [
                _gcd_text(part.values(), sympy.latex, r"\gcd({})") for part in self.cycles
            ],
            "conditions": [condition.latex for condition in self.conditions],
        }

    def at(self, values: Values) -> dict[str, int] | None:
        """Return the repetition vector at values of the parameters, None where it is inconsistent."""
        if not all(condition.holds(values) for condition in self.conditions):
            return None
        counts: dict[str, int] = {}
        for part in self.cycles:
            numbers = _numbers(part, values)
            shared = _common_divisor(numbers.values())
            counts |= {name: int(number / shared) for name, number in numbers.items()}
        return {name: counts[name] * count for name, count in self.phases.items()}

    def divisor_at(self, values: Values) -> Fraction:
        """Return by which number the vector of a connected graph is to be divided."""
        (part,) = self.cycles
        return _common_divisor(_numbers(part, values).values())

    def _firings(self) -> Iterator[tuple[str, Any]]:
        counts = {name: value for part in self.cycles for name, value in part.items()}
        return ((name, sympy.factor(counts[name] * count)) for name, count in self.phases.items())


@public
def symbolic_repetitions(graph: ParametricGraph) -> SymbolicRepetitions:
    """Return the repetition vector as expressions, with the conditions under which there is one."""
    arithmetic = _Arithmetic(graph)
    touching: dict[str, list[ParametricChannel]] = {name: [] for name in graph.actors}
    for channel in graph.channels:
        for end in {channel.producer, channel.consumer}:
            if end not in touching:
                raise CsdfError(f"channel {channel.name!r}: there is no actor {end!r}")
            touching[end].append(channel)
    parts: list[Mapping[str, Any]] = []
    conditions: dict[Any, Condition] = {}
    reached: set[str] = set()
    for name in graph.actors:
        if name not in reached:
            part = arithmetic.component(name, touching, conditions)
            reached |= part.keys()
            parts.append(part)
    listed = tuple(conditions.values())
    return SymbolicRepetitions(
        parameters=graph.parameters,
        cycles=tuple(parts),
        phases={name: len(times) for name, times in graph.actors.items()},
        conditions=listed,
        is_never=_is_never(listed),
    )


class _Arithmetic:
    """Rational functions of the parameters, and of terms that are none, each a symbol."""

    def __init__(self, graph: ParametricGraph) -> None:
        self._opaque: dict[Any, Any] = {}  # symbols by what they stand for
        names = graph.parameters
        self._symbols = {name: sympy.Symbol(name, positive=True, integer=True) for name in names}
        sums = [
            rates
            for channel in graph.channels
            for rates in (channel.production, channel.consumption)
        ]
        told = {terms: self._sum(terms) for terms in dict.fromkeys(sums)}
        for total in told.values():
            if total.has(sympy.zoo, sympy.nan):
                raise CsdfError("a rate divides by zero, whatever the parameters are")
        stand_ins = {symbol: term for term, symbol in self._opaque.items()}
        self._meaning = stand_ins
        symbols = [*self._symbols.values(), *stand_ins] or [sympy.Symbol("n", positive=True)]
        self._field, *_ = field(symbols, sympy.QQ)
        self._totals = {terms: self._field.from_expr(value) for terms, value in told.items()}

    def _sum(self, terms: Terms) -> Any:
        counted: dict[Any, int] = {}
        for term in terms:
            counted[term] = counted.get(term, 0) + 1
        return sympy.Add(*(number * self._of(term) for term, number in counted.items()))

    def _of(self, term: Fraction | Expression) -> Any:
        if isinstance(term, Fraction):
            return _rational(term)
        return term.computed(self._symbols, _rational, self._applied)

    def _applied(self, operator: str, operands: list[Any]) -> Any:
        if len(operands) == 1 and operator == "-":
            return -operands[0]
        if operator in PLAIN and (operator != "**" or operands[1].is_Integer):
            return PLAIN[operator](*operands)
        meant = [
            operand.xreplace({symbol: term for term, symbol in self._opaque.items()})
            for operand in operands
        ]
        functions = {
            "min": sympy.Min, "max": sympy.Max, "floor": sympy.floor, "ceil": sympy.ceiling,
            "//": lambda a, b: sympy.floor(a / b), "%": sympy.Mod, "**": sympy.Pow,
        }  # fmt: skip
        value = functions[operator](*meant)
        if value.is_polynomial(*self._symbols.values()):
            return value
        return self._opaque.setdefault(value, sympy.Dummy(positive=True))

    def component(
        self,
        first: str,
        touching: Mapping[str, Sequence[ParametricChannel]],
        conditions: dict[Any, Condition],
    ) -> dict[str, Any]:
        """Return the cycles of the actors connected with the first; add the conditions of channels."""
        ratio = {first: self._field.one}
        reached = [first]
        for name in reached:
            for channel in touching[name]:
                produced, consumed = (
                    self._totals[channel.production],
                    self._totals[channel.consumption],
                )
                for rate, what in ((produced, "production"), (consumed, "consumption")):
                    if not rate:
                        raise CsdfError(f"channel {channel.name!r}: all {what} rates are zero")
                if channel.consumer not in ratio:
                    ratio[channel.consumer] = ratio[name] * produced / consumed
                    reached.append(channel.consumer)
                elif channel.producer not in ratio:
                    ratio[channel.producer] = ratio[name] * consumed / produced
                    reached.append(channel.producer)
        whole = self._primitive(ratio)
        for name in reached:
            for channel in touching[name]:
                made = whole[channel.producer] * self._totals[channel.production]
                taken = whole[channel.consumer] * self._totals[channel.consumption]
                if made != taken:
                    condition = self._condition(channel.name, made, taken)
                    conditions.setdefault(condition.left - condition.right, condition)
        return {name: self._told(whole[name]) for name in reached}

    def _primitive(self, ratio: Mapping[str, Any]) -> dict[str, Any]:
        """The ratios as polynomials with integer coefficients and without a common factor."""
        ring = self._field.ring
        denominator = reduce(
            lambda a, b: a.lcm(b), (ratio_value.denom for ratio_value in ratio.values())
        )
        products = {
            name: ratio_value * self._field(denominator) for name, ratio_value in ratio.items()
        }
        # What is left of each denominator is a number: a least common multiple knows none of these.
        scaled = {
            name: ratio_value.numer.quo_ground(ratio_value.denom.LC)
            for name, ratio_value in products.items()
        }
        shared = reduce(lambda a, b: a.gcd(b), scaled.values())
        parts = {name: part.exquo(shared) for name, part in scaled.items()}
        numbers = [coefficient for part in parts.values() for coefficient in part.coeffs()]
        low = reduce(
            lambda a, b: a * b // gcd(a, b), (int(number.denominator) for number in numbers)
        )
        high = gcd(*(int(number * low) for number in numbers))
        sign = -1 if next(iter(parts.values())).LC < 0 else 1
        return {
            name: self._field(part * ring.domain(sign * low, high)) for name, part in parts.items()
        }

    def _condition(self, channel: str, made: Any, taken: Any) -> Condition:
        """The condition without factors that are positive for all parameters of at least 1."""
        _, factors = sympy.factor_list((made - taken).numer.as_expr())
        kept = [base for base, _ in factors if not self._is_positive(base)]
        left = right = sympy.Integer(0)
        for term in sympy.Add.make_args(sympy.expand(sympy.Mul(*kept))):
            if term.as_coeff_Mul()[0] > 0:
                left += term
            else:
                right -= term
        left, right = (expression.xreplace(self._meaning) for expression in (left, right))
        return Condition(
            channel=channel, left=left, right=right,
            produced=self._told(made), consumed=self._told(taken),
        )  # fmt: skip

    def _is_positive(self, factor: Any) -> bool:
        """Whether all terms of a polynomial in the parameters have one sign."""
        if factor.free_symbols & self._meaning.keys():
            return False
        terms = sympy.Add.make_args(sympy.expand(factor))
        return len({term.as_coeff_Mul()[0] > 0 for term in terms}) == 1

    def _told(self, value: Any) -> Any:
        return sympy.factor(value.as_expr()).xreplace(self._meaning)


def _is_never(conditions: Sequence[Condition]) -> bool:
    """Whether the conditions contradict one another, or one of them itself."""
    equations = [condition.left - condition.right for condition in conditions]
    for equation in equations:
        symbols = equation.free_symbols
        if not symbols and equation != 0:
            return True
        if len(symbols) == 1 and equation.is_polynomial(*symbols):
            has_root = sympy.Poly(equation, *symbols).count_roots(1, None)
            if not has_root:
                return True
    is_simple = all(equation.is_polynomial(*equation.free_symbols) for equation in equations)
    if not 2 <= len(equations) <= MOST_CONDITIONS or not is_simple:
        return False
    symbols = sorted(
        {symbol for equation in equations for symbol in equation.free_symbols}, key=str
    )
    return bool(sympy.groebner(equations, *symbols).exprs == [1])


def _numbers(part: Mapping[str, Any], values: Values) -> dict[str, Fraction]:
    """The cycles of a component at values of the parameters. Raises CsdfError where one is zero."""
    numbers = {name: abs(_at(value, values)) for name, value in part.items()}
    for name, number in numbers.items():
        if not number:
            raise CsdfError(f"actor {name!r} never fires at these values")
    return numbers


def _common_divisor(numbers: Iterable[Fraction]) -> Fraction:
    """The greatest common divisor of these."""
    listed = list(numbers)
    scale = lcm(*(number.denominator for number in listed))
    return Fraction(gcd(*(int(number * scale) for number in listed)), scale)


def _gcd_text(values: Iterable[Any], told: Any, form: str) -> str:
    """The greatest common divisor of expressions; 1 where one of them is."""
    distinct = list(dict.fromkeys(values))
    if any(abs(condition) == 1 for condition in distinct):
        return "1"
    if len(distinct) <= MOST_DIVIDED:
        for condition in tuple(distinct):
            if any(
                condition is not factor and _is_multiple(condition, factor) for factor in distinct
            ):
                distinct.remove(condition)
    return form.format(", ".join(told(condition) for condition in distinct))


def _is_multiple(one: Any, other: Any) -> bool:
    """Whether an expression is an integer polynomial times the other."""
    quotient = sympy.cancel(one / other)
    symbols = quotient.free_symbols
    if not symbols:
        return bool(quotient.is_Integer)
    return bool(quotient.is_polynomial(*symbols)) and all(
        coefficient.is_Integer for coefficient in sympy.Poly(quotient, *symbols).coeffs()
    )


def _rational(number: Fraction) -> Any:
    return sympy.Rational(number.numerator, number.denominator)


def _at(expression: Any, values: Values) -> Fraction:
    substitutions = {symbol: _rational(values[symbol.name]) for symbol in expression.free_symbols}
    value = expression.xreplace(substitutions).doit()
    return Fraction(int(value.p), int(value.q))
