"""Expressions in parameters: their values, their names, and what is refused."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from csdf.model.exact import MalformedText
from csdf.model.expression import Expression, has_names

N = {"n": Fraction(5), "m": Fraction(1, 2)}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2*n + 1", 11),
        ("-n**2", -25),  # as in Python: the power binds first
        ("(n + 1) // 4 % 2", 1),
        ("1.5*n", Fraction(15, 2)),
        ("n/2*m", Fraction(5, 4)),
        ("max(n, 7) - min(n, 3, 4)", 4),
        ("ceil(n/2) + floor(n/2)", 5),
        ("2**n**0", 2),
    ],
)
def test_an_expression_has_its_exact_value(text, value):
    assert Expression(text).value(N) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2*",
        "n n",
        "n + ",
        "(n",
        "n)",
        "f(n)",
        "floor(n, 2)",
        "min(n)",
        "n; m",
        "n.real",
        "2n",
        "é",
    ],
)
def test_a_text_that_is_no_expression_is_refused(text):
    with pytest.raises(MalformedText):
        Expression(text)


@pytest.mark.parametrize("text", ["9**9**9**9", "2**(0 - 1)", "n/(n - 5)", "k + 1", "2**m"])
def test_a_value_that_cannot_be_computed_is_refused(text):
    with pytest.raises(MalformedText):
        Expression(text).value(N)


def test_a_deep_text_is_refused_instead_of_filling_the_stack():
    for text in ("(" * 400 + "n" + ")" * 400, "-" * 900 + "n", "**".join(["n"] * 300)):
        with pytest.raises(MalformedText):
            Expression(text)


def test_numbers_with_exponents_have_no_names():
    assert [has_names(one) for one in ("3e-8", "1,2*3", "3*n", "min(2,3)")] == [
        False,
        False,
        True,
        True,
    ]


@given(st.recursive(
    st.sampled_from(["n", "m", "1", "2", "7/3"]),
    lambda inner: st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda one: f"({''.join(one)})"),
    max_leaves=8,
))  # fmt: skip
def test_an_expression_is_what_python_makes_of_it(text):
    exact = text.replace("7/3", "Fraction(7, 3)")
    assert Expression(text).value(N) == eval(exact, {"Fraction": Fraction, **N})
