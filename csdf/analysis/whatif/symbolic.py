"""Periods as expressions of SymPy, where that is installed."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from csdf.errors import CsdfError


def symbolic_maximum(
    names: Sequence[str], rows: Sequence[tuple[Fraction, Sequence[Fraction], int]]
) -> Any:
    """Return the largest of (time + counts * symbols) / tokens as an expression of SymPy.

    The symbols are real and have the names of the parameters.
    """
    sympy = _library()
    symbols = [sympy.Symbol(name, real=True) for name in names]
    return sympy.Max(
        *(
            sum(
                (_rational(sympy, count) * one for count, one in zip(counts, symbols, strict=True)),
                _rational(sympy, time),
            )
            / tokens
            for time, counts, tokens in rows
        )
    )


def _library() -> Any:
    if find_spec("sympy") is None:
        raise CsdfError("to_sympy() needs SymPy: pip install csdf[sympy]")
    return import_module("sympy")


def _rational(sympy: Any, value: Fraction) -> Any:
    return sympy.Rational(value.numerator, value.denominator)
