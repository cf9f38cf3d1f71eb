"""Random networks with plans in two and three memories, for counts of what their compiled C moves."""

from fractions import Fraction
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from cnn2csdf.dtypes import Arithmetic, Element
from cnn2csdf.platforms import PLATFORMS, BoardMemory
from cnn2csdf.simplify import simplified
from planners.memory.fit import fit
from planners.plan.plan import Memory
from tests.cnn2csdf.execution.random_networks import models
from tests.planners.code.drawing import same_in_each_run
from tests.planners.code.mixed_networks import Mixing

IN_INTEGERS = {
    "fixed point": (Arithmetic.FIXED_POINT, Element.INT8),
    "single precision": (Arithmetic.SINGLE_PRECISION, Element.INT8),
    "int16": (Arithmetic.SINGLE_PRECISION, Element.INT16),
}
KINDS = ("real", "real", "simplified", *IN_INTEGERS)
HOLDS = (("tensors",), ("tensors", "weights"))  # what slow memory may have


def drawn_models(count):
    """Return so many random models, each with a seed: of real numbers, or of integers among these."""
    found = []

    @same_in_each_run(count)
    @given(model=models(), seed=st.integers(0, 2**31 - 1))
    def draw(model, seed):
        kind = Random(seed).choice(KINDS)
        layers = model.network.layers
        if not any(layer.inputs and layer not in model.network.outputs for layer in layers):
            return
        if kind == "simplified":
            model = simplified(model)
        elif kind in IN_INTEGERS:
            model = Mixing(seed, *IN_INTEGERS[kind]).mixed(model.network)
        found.append((model, seed))

    draw()
    return found


def drawn_options(model, seed, *, has_flash):
    """Return options of `fit` with random memories: a fast and a slow one, and a flash."""
    source = Random(seed)
    most = max(layer.shape.elements * layer.element_bytes for layer in model.network.layers)
    fast = source.randint(most // 8 + 40, max(most // 8 + 40, 2 * most))
    if not has_flash:
        slow = Memory(name="psram", size=10**6, is_slow=True)
        return {"memories": (Memory(name="sram", size=fast), slow)}
    rate = source.choice([None, None, Fraction(2, 3)])
    holds = source.choice(HOLDS)
    flash = {"size": 10**6, "is_slow": True, "holds": ("weights",)}
    if rate is not None:
        flash |= {"read": source.choice([Fraction(1, 6), Fraction(2)])}
        flash |= {"has_dma": source.random() < 0.5}
    memories = (
        BoardMemory(name="sram", size=fast, write=rate and Fraction(4)),
        BoardMemory(name="psram", size=10**6, is_slow=True, read=rate, write=rate, holds=holds),
        BoardMemory(name="flash", **flash),
    )
    return {"memories": memories} | ({"platform": PLATFORMS["cortex-m7"]} if rate else {})


def planned_cases(count, *, has_flash):
    """Yield random models with a plan that moves bytes, of so many that are drawn."""
    for model, seed in drawn_models(count):
        chosen = fit(model, **drawn_options(model, seed, has_flash=has_flash)).best
        if chosen is not None and chosen.plan.slow_bytes:
            yield model, chosen.plan
