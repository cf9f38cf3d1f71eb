"""The repetition vector of a graph with parameters, and the values at which the graph is consistent.

Ratios of firings are rational functions of the parameters, exact and in lowest terms. A channel that
closes a cycle of the graph yields a condition: a polynomial that has to be zero. Channels a -> b of
rates p and q and b -> a of rates 2 and 3 give a : b = q : p by the first, and the condition 2p = 3q by
the second. Opaque terms, those with min, max, floor, ceil, // and %, are independent symbols. So a
listed condition may always hold, but no condition is missing.

Source: Bilsen et al., Cycle-Static Dataflow, IEEE Trans. Signal Processing 44(2), 1996, over a field of
rational functions; Bhattacharya, Bhattacharyya, Parameterized dataflow modeling for DSP systems, IEEE
Trans. Signal Processing 49(10), 2001, for consistency under parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from csdf.model.expression import Expression, require_exponent
from csdf.model.shown import Shown
from csdf.parameters.graph import ParametricChannel, ParametricGraph, Terms

MOST_DIVIDED = 12  # terms of a greatest common divisor that are simplified: all pairs are divided
MOST_CONDITIONS = 4  # conditions in a Groebner basis, which detects a contradiction
PLAIN: Mapping[str, Any] = {"+": add, "-": sub, "*": mul, "/": truediv, "**": pow}
Values = Mapping[str, Fraction]


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition(Shown):
    """A condition of a channel on the parameters: `left` equals `right`, both SymPy expressions.

    produced, consumed: the tokens of an iteration on the channel, with the firings by other channels.
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
        """Whether the condition holds at values of the parameters."""
        return bool(_at(self.left, values) == _at(self.right, values))


@dataclass(frozen=True, slots=True, kw_only=True)
class SymbolicRepetitions(Shown):
    """The repetition vector as expressions, for parameters of at least 1 that meet all conditions.

    cycles: for each connected component, a multiple of the phase cycles of its actors; at given values
    it has to be divided by the greatest common divisor of its numbers. phases: of each actor; an actor
    fires cycles * phases times. is_never: whether no values of the parameters meet all conditions.
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
        """Firings of each actor, before division by the common divisor."""
        return {name: str(value) for name, value in self._firings()}

    @property
    def divisors(self) -> list[str]:
        """The common divisor of each connected component."""
        return [_gcd_text(part.values(), str, "gcd({})") for part in self.cycles]

    @property
    def latex(self) -> dict[str, Any]:
        """Repetition vector, divisors and conditions as LaTeX formulas."""
        return {
            "repetition_vector": {name: sympy.latex(value) for name, value in self._firings()},
            "divisors": [
                _gcd_text(part.values(), sympy.latex, r"\gcd({})") for part in self.cycles
            ],
            "conditions": [condition.latex for condition in self.conditions],
        }

    def at(self, values: Values) -> dict[str, int] | None:
        """Return the repetition vector at values of the parameters; None if inconsistent."""
        if not all(condition.holds(values) for condition in self.conditions):
            return None
        counts: dict[str, int] = {}
        for part in self.cycles:
            numbers = _numbers(part, values)
            shared = _common_divisor(numbers.values())
            counts |= {name: int(number / shared) for name, number in numbers.items()}
        return {name: counts[name] * count for name, count in self.phases.items()}

    def divisor_at(self, values: Values) -> Fraction:
        """Return the common divisor of the vector of a connected graph."""
        (part,) = self.cycles
        return _common_divisor(_numbers(part, values).values())

    def _firings(self) -> Iterator[tuple[str, Any]]:
        counts = {name: value for part in self.cycles for name, value in part.items()}
        return ((name, sympy.factor(counts[name] * count)) for name, count in self.phases.items())


@public
def symbolic_repetitions(graph: ParametricGraph) -> SymbolicRepetitions:
    """Return the repetition vector as expressions, and the conditions of consistency."""
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
    """The field of rational functions of the parameters, and of symbols for opaque terms."""

    def __init__(self, graph: ParametricGraph) -> None:
        self._term_of: dict[Any, Any] = {}  # by the symbol that stands for an opaque term
        self._symbol_of: dict[Any, Any] = {}  # the reverse
        names = graph.parameters
        self._symbols = {name: sympy.Symbol(name, positive=True, integer=True) for name in names}
        rates = [
            rates
            for channel in graph.channels
            for rates in (channel.production, channel.consumption)
        ]
        sums = {terms: self._sum(terms) for terms in dict.fromkeys(rates)}
        for total in sums.values():
            if total.has(sympy.zoo, sympy.nan):
                raise CsdfError("a rate divides by zero, whatever the parameters are")
        symbols = [*self._symbols.values(), *self._term_of] or [sympy.Symbol("n", positive=True)]
        self._field, *_ = field(symbols, sympy.QQ)
        self._totals = {terms: self._field.from_expr(value) for terms, value in sums.items()}

    def _sum(self, terms: Terms) -> Any:
        """Return the tokens of all phases as an expression of SymPy."""
        counted: dict[Any, int] = {}
        for term in terms:
            counted[term] = counted.get(term, 0) + 1
        return sympy.Add(*(number * self._sympified(term) for term, number in counted.items()))

    def _sympified(self, term: Fraction | Expression) -> Any:
        if isinstance(term, Fraction):
            return _rational(term)
        return term.computed(self._symbols, _rational, self._applied)

    def _applied(self, operator: str, operands: list[Any]) -> Any:
        """Return an operator of rational functions of its operands, or the symbol of an opaque term."""
        if len(operands) == 1 and operator == "-":
            return -operands[0]
        if operator == "**" and operands[1].is_Rational:
            require_exponent(operands[1])  # which no instance of the graph may have either
        if operator in PLAIN and (operator != "**" or operands[1].is_Integer):
            return PLAIN[operator](*operands)
        meant = [operand.xreplace(self._term_of) for operand in operands]
        functions = {
            "min": sympy.Min, "max": sympy.Max, "floor": sympy.floor, "ceil": sympy.ceiling,
            "//": lambda a, b: sympy.floor(a / b), "%": sympy.Mod, "**": sympy.Pow,
        }  # fmt: skip
        value = functions[operator](*meant)
        if value.is_polynomial(*self._symbols.values()):
            return value
        if value not in self._symbol_of:
            self._symbol_of[value] = sympy.Dummy(positive=True)
        symbol = self._symbol_of[value]
        self._term_of[symbol] = value
        return symbol

    def component(
        self,
        first: str,
        touching: Mapping[str, Sequence[ParametricChannel]],
        conditions: dict[Any, Condition],
    ) -> dict[str, Any]:
        """Return the cycles of the actors connected with the first; add the conditions of channels."""
        ratio = {first: self._field.one}  # cycles of each reached actor per cycle of the first
        reached = [first]
        for name in reached:
            for channel in touching[name]:
                produced = self._totals[channel.production]
                consumed = self._totals[channel.consumption]
                for rate, what in ((produced, "production"), (consumed, "consumption")):
                    if not rate:
                        raise CsdfError(f"channel {channel.name!r}: all {what} rates are zero")
                if channel.consumer not in ratio:
                    ratio[channel.consumer] = ratio[name] * produced / consumed
                    reached.append(channel.consumer)
                elif channel.producer not in ratio:
                    ratio[channel.producer] = ratio[name] * consumed / produced
                    reached.append(channel.producer)
        cycles = self._primitive(ratio)
        for name in reached:
            for channel in touching[name]:
                produced = cycles[channel.producer] * self._totals[channel.production]
                consumed = cycles[channel.consumer] * self._totals[channel.consumption]
                if produced != consumed:
                    condition = self._condition(channel.name, produced, consumed)
                    conditions.setdefault(condition.left - condition.right, condition)
        return {name: self._expression(cycles[name]) for name in reached}

    def _primitive(self, ratio: Mapping[str, Any]) -> dict[str, Any]:
        """Return the ratios times a common factor, as polynomials over the integers with gcd 1."""
        ring = self._field.ring
        denominator = reduce(lambda a, b: a.lcm(b), (value.denom for value in ratio.values()))
        products = {name: value * self._field(denominator) for name, value in ratio.items()}
        # The remaining denominators are numbers, which an lcm of polynomials ignores.
        polynomials = {
            name: product.numer.quo_ground(product.denom.LC) for name, product in products.items()
        }
        shared = reduce(lambda a, b: a.gcd(b), polynomials.values())
        coprime = {name: polynomial.exquo(shared) for name, polynomial in polynomials.items()}
        coefficients = [number for polynomial in coprime.values() for number in polynomial.coeffs()]
        scale = lcm(*(int(number.denominator) for number in coefficients))
        divisor = gcd(*(int(number * scale) for number in coefficients))
        sign = -1 if next(iter(coprime.values())).LC < 0 else 1
        factor = ring.domain(sign * scale, divisor)
        return {name: self._field(polynomial * factor) for name, polynomial in coprime.items()}

    def _condition(self, channel: str, produced: Any, consumed: Any) -> Condition:
        """Return the condition without factors that are positive for all parameters of at least 1."""
        _, factors = sympy.factor_list((produced - consumed).numer.as_expr())
        kept = [base for base, _ in factors if not self._is_positive(base)]
        left = right = sympy.Integer(0)
        for term in sympy.Add.make_args(sympy.expand(sympy.Mul(*kept))):
            if term.as_coeff_Mul()[0] > 0:
                left += term
            else:
                right -= term
        return Condition(
            channel=channel,
            left=left.xreplace(self._term_of),
            right=right.xreplace(self._term_of),
            produced=self._expression(produced),
            consumed=self._expression(consumed),
        )

    def _is_positive(self, factor: Any) -> bool:
        """Whether all terms of a polynomial in the parameters have one sign."""
        if factor.free_symbols & self._term_of.keys():
            return False
        terms = sympy.Add.make_args(sympy.expand(factor))
        return len({term.as_coeff_Mul()[0] > 0 for term in terms}) == 1

    def _expression(self, value: Any) -> Any:
        """Return an element of the field as a factored expression, with the opaque terms."""
        return sympy.factor(value.as_expr()).xreplace(self._term_of)


def _is_never(conditions: Sequence[Condition]) -> bool:
    """Whether the conditions are detected to have no solution."""
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
    """Return the cycles of a component at values of the parameters. Raises CsdfError for a zero."""
    numbers = {name: abs(_at(value, values)) for name, value in part.items()}
    for name, number in numbers.items():
        if not number:
            raise CsdfError(f"actor {name!r} never fires at these values")
    return numbers


def _common_divisor(numbers: Iterable[Fraction]) -> Fraction:
    """Return the greatest common divisor of fractions."""
    listed = list(numbers)
    scale = lcm(*(number.denominator for number in listed))
    return Fraction(gcd(*(int(number * scale) for number in listed)), scale)


def _gcd_text(values: Iterable[Any], text_of: Callable[[Any], str], form: str) -> str:
    """Return the greatest common divisor of expressions as a text, without multiples of a term.

    form: of the text around the list of terms.
    """
    terms = list(dict.fromkeys(values))
    if any(abs(term) == 1 for term in terms):
        return "1"
    if len(terms) <= MOST_DIVIDED:
        for term in tuple(terms):
            if any(term is not factor and _is_multiple(term, factor) for factor in terms):
                terms.remove(term)
    return form.format(", ".join(map(text_of, terms)))


def _is_multiple(product: Any, factor: Any) -> bool:
    """Whether an expression is an integer polynomial times the factor."""
    quotient = sympy.cancel(product / factor)
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
