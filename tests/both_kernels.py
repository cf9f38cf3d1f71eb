"""Kernels as they are written, and as machine code where they were compiled."""

import pytest

from csdf.kernels import compile as compiler

needs_compiled = pytest.mark.skipif(
    not compiler.has_compiled(),
    reason="the kernels are not compiled here: `python setup.py build_ext --inplace` does that",
)
BOTH = [
    pytest.param(compiler.PLAIN, id="plain"),
    pytest.param(compiler.COMPILED, id="compiled", marks=needs_compiled),
]


def use(monkeypatch, backend):
    """Let everything run on this backend, as far as its numbers hold the sums."""
    monkeypatch.setattr(compiler, "has_compiled", lambda: backend.is_compiled)
