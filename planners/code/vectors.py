"""Test vectors: frames, reference outputs, and a C program that compares.

Outputs get a tolerance where computed floating-point numbers are rounded to integers. Another order
of summation or another mathematical library changes the last bits of such a number. Near a rounding
boundary the integer then differs by one step, and so do the layers after it. The network is
therefore executed twice more: with all these numbers slightly larger, and slightly smaller. The
change of an output bounds its tolerance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.dtypes import Element
from cnn2csdf.execution.compare import random_tensor, table_entries
from cnn2csdf.execution.layer_by_layer import first_states, run_layer_by_layer
from cnn2csdf.network import Layer, Network
from cnn2csdf.weights import Array, Model
from planners.code.building import arrays_of, end_of_main
from planners.code.c_text import number as number_text
from planners.code.c_text import numbers, wrapped
from planners.code.parts import source
from planners.code.ports import LibraryPort
from planners.code.sources import Written
from planners.code.status import init_call
from planners.code.unsigned_as_signed import as_signed_array

Frame = Mapping[str, Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class TestVector:
    """A frame and its reference outputs, by the names of the layers.

    tolerance: permitted difference from the reference, in addition to rounding errors of float.
    """

    frame: Frame
    outputs: Frame
    tolerance: Mapping[str, float] = field(default_factory=dict)


def random_frame(network: Network, seed: int) -> dict[str, Array]:
    """Return random numbers for each input; integers if it is quantised."""
    generator = np.random.default_rng(seed)
    entries = table_entries(network)
    return {
        layer.name: random_tensor(layer, generator, entries.get(layer.name, 128))
        if layer.quantization is None
        else _random_integers(generator, layer)
        for layer in network.inputs
    }


def _random_integers(generator: np.random.Generator, layer: Layer) -> Array:
    if layer.element is Element.INT32:
        return generator.integers(-128, 128, layer.shape.dims, layer.array_type)
    limits = np.iinfo(layer.element.value)
    return generator.integers(limits.min, limits.max + 1, layer.shape.dims, layer.array_type)


def vectors_of(model: Model, frames: Sequence[Frame]) -> tuple[TestVector, ...]:
    """Return the frames with their reference outputs, computed layer by layer."""
    vectors, states = [], first_states(model)
    for frame in frames:
        outputs = run_layer_by_layer(model, frame, states)
        tolerance = {} if states else tolerances(model, frame, outputs)
        vectors.append(TestVector(frame=frame, outputs=outputs, tolerance=tolerance))
    return tuple(vectors)


def placed(array: Array) -> Array:
    """Return a tensor as a flat array in the layout of the arena (HWC)."""
    return (array.transpose(1, 2, 0) if array.ndim == 3 else array).reshape(-1)


def test_program(written: Written, vectors: Sequence[TestVector]) -> str:
    """Return main.c, which executes the frames twice and compares the outputs.

    A network with a streamed input is also executed row by row.
    """
    name = written.name
    counted = f"""#ifdef COUNTED
    {{
        uint64_t before = instructions();
        {_run_of(written, 0)}
        say("\\nthousand instructions of a frame: ");
        say_number((instructions() - before) / 1000);
    }}
#endif
"""
    arena = " + ".join(f"sizeof {array}" for array in written.arrays)
    return f"""/* Runs {name} on test vectors and compares with what they are to give. */
#include <math.h>
#include <string.h>

#include "{name}.h"

int {name}_test(void);

{arrays_of(written)}

{_tested(written, vectors, "void")}

#ifndef NO_MAIN
{source("say.c")}
int main(void)
{{
    int failed = {name}_test();
{end_of_main(name, "outputs differ", "outputs equal", arena, more=counted)}#endif
"""


def shared_test(written: Written, vectors: Sequence[TestVector]) -> str:
    """Return NAME_test.c: the same test in memories that several networks share."""
    name, parameters = written.name, test_parameters(written)
    return f"""/* Runs {name} on test vectors and compares with what they are to give. */
#include <math.h>
#include <string.h>

#include "{name}.h"

int {name}_test({parameters});

{_tested(written, vectors, parameters)}
"""


def test_parameters(written: Written) -> str:
    """Return the parameters of NAME_test: an array of each memory."""
    return ", ".join(f"{written.name}_element *{array}" for array in written.arrays)


def _tested(written: Written, vectors: Sequence[TestVector], parameters: str) -> str:
    """Return C of the vectors, the comparisons, and the function that executes the test."""
    name = written.name
    arrays = []
    for number, vector in enumerate(vectors):
        for ports, arrays_of_ports in (
            (written.inputs, vector.frame),
            (written.outputs, vector.outputs),
        ):
            arrays += [_array(port, number, arrays_of_ports[port.layer]) for port in ports]
    checks = "\n".join(_check(written, number, vector) for number, vector in enumerate(vectors))
    if written.keeps_state:
        checks += _saving(written, vectors)
    else:
        checks = _twice(written, checks)
    results = "\n".join(
        f"static {port.kind} found_{port.array}[{port.elements}];" for port in written.outputs
    )
    kinds = sorted({_test_of(port, vector) for port in written.outputs for vector in vectors})
    tests = "\n\n".join(
        _TESTS.get(kind) or _close(kind.removeprefix("is_close_")) for kind in kinds
    )
    return f"""{chr(10).join(arrays)}

static {name}_state state;
{results}

{tests}

{_counting(written)}int {name}_test({parameters})
{{
    int failed = 0{"" if written.keeps_state else ", turn"};
    failed |= {_begun(written)};
{_counted(written)}{checks}
    return failed;
}}"""


def _begun(written: Written) -> str:
    """Return a C expression that initialises the network and is nonzero on failure."""
    call = init_call(written.name, written.memories, written.arrays)
    return f"{call} != {written.name.upper()}_OK"


def _counting(written: Written) -> str:
    """Return C that counts the blocks of rows computed by CMSIS-NN (1) or not (0)."""
    if written.cmsis_nn is None:
        return ""
    return f"""#ifdef {written.name.upper()}_BLOCKS
static long blocks[2];

void {written.name}_block(int by_cmsis_nn)
{{
    blocks[by_cmsis_nn]++;
}}
#endif

"""


def _counted(written: Written) -> str:
    """Return C that compares the block counts of the first frame with the planned counts."""
    if written.cmsis_nn is None:
        return ""
    shared = written.cmsis_nn.shared
    return f"""#ifdef {written.name.upper()}_BLOCKS
    blocks[0] = blocks[1] = 0;
    {_run_of(written, 0)}
    failed |= blocks[1] != {shared[True]} || blocks[0] != {shared[False]};
    failed |= {_begun(written)};
#endif
"""


def _twice(written: Written, checks: str) -> str:
    """Return C that executes all frames, and again all frames without a new NAME_init.

    If a frame overwrites weights that are resident in the arena, the later frames fail.
    """
    spoilt = "\n".join(
        f"        memset(found_{port.array}, 85, sizeof found_{port.array});"
        for port in written.outputs
    )
    return f"""    for (turn = 0; turn < 2; turn++) {{
{spoilt}
{checks}
    }}"""


def _saving(written: Written, vectors: Sequence[TestVector]) -> str:
    """Return C that executes the frames again, each but the first from a saved state."""
    name, capitals = written.name, written.name.upper()
    spoilt = "".join(
        f"    memset({array}, 85, sizeof *{array} * {capitals}_{memory.upper()}_ELEMENTS);\n"
        for array, memory in zip(written.arrays, written.memories, strict=True)
    )
    again = f"""
    failed |= {name}_reset(&state) != {capitals}_OK;
"""
    for number, vector in enumerate(vectors):
        if number:
            again += f"""    failed |= {name}_save(&state, saved, sizeof saved) != {capitals}_OK;
{spoilt}    failed |= {_begun(written)};
    failed |= {name}_restore(&state, saved, sizeof saved) != {capitals}_OK;
"""
        again += f"{_check(written, number, vector)}\n"
    return f"""
    {{
        static char saved[{capitals}_SAVED_BYTES];
{again}    (void)saved;
    }}"""


def _test_of(port: LibraryPort, vector: TestVector) -> str:
    if vector.tolerance.get(port.layer):
        return f"is_close_{port.kind}"
    return "is_near" if port.kind == "float" else "is_same"


def _compared(port: LibraryPort, number: int, vector: TestVector, found: str) -> str:
    """Return C that compares a result with an output: elements within a tolerance, or bytes."""
    test, array = _test_of(port, vector), f"{port.array}_{number}"
    count = f"sizeof {array}" if test == "is_same" else str(port.elements)
    tolerance = f", {_tolerance(port, vector)}" if test.startswith("is_close") else ""
    return f"failed |= !{test}({found}, {array}, {count}{tolerance});"


def _tolerance(port: LibraryPort, vector: TestVector) -> str:
    tolerance = vector.tolerance[port.layer]
    if port.kind != "float":
        return str(int(tolerance))
    largest = float(np.abs(vector.outputs[port.layer]).max(initial=0))
    return number_text(tolerance + 1e-5 * largest)


_TESTS = {
    "is_near": """static int is_near(const void *numbers, const float *wanted, int32_t count)
{
    float largest = 0, furthest = 0, found;
    int32_t i;
    for (i = 0; i < count; i++) {
        memcpy(&found, (const char *)numbers + 4 * i, sizeof found); /* which begins anywhere */
        if (isnan(found) || isnan(wanted[i]) || isinf(found) || isinf(wanted[i])) {
            if (!(isnan(found) && isnan(wanted[i])) && !(found == wanted[i])) {
                return 0;
            }
            continue;
        }
        largest = fabsf(wanted[i]) > largest ? fabsf(wanted[i]) : largest;
        furthest = fabsf(found - wanted[i]) > furthest ? fabsf(found - wanted[i]) : furthest;
    }
    return furthest <= 1e-5f * largest; /* of the largest */
}""",
    "is_same": """static int is_same(const void *found, const void *wanted, size_t bytes)
{
    return memcmp(found, wanted, bytes) == 0;
}""",
}


def _array(port: LibraryPort, number: int, array: Array) -> str:
    values = np.asarray(array)
    values = placed(as_signed_array(values) if port.is_signed_outside else values)
    is_plain = values.dtype.kind == "f" and bool(np.isfinite(values).all())
    items = numbers(values) if is_plain else map(_shown, values)
    head = f"static const {port.kind} {port.array}_{number}[{port.elements}]"
    return f"{head} = {{\n{wrapped(items)}\n}};"


def _shown(value: np.generic) -> str:
    if value.dtype.kind in "iu":
        return str(value)
    single = np.float32(value)
    return "NAN" if np.isnan(single) else number_text(float(single))


def _run_of(written: Written, number: int) -> str:
    inputs = [f"{port.array}_{number}" for port in written.inputs]
    results = [f"found_{port.array}" for port in written.outputs]
    verb = "invoke" if written.keeps_state else "run"
    call = f"{written.name}_{verb}({', '.join(['&state', *inputs, *results])})"
    return f"failed |= {call} != {written.name.upper()}_OK;"


def _close(kind: str) -> str:
    """Return C that compares numbers of a type, which need not be aligned."""
    tolerance = "float" if kind == "float" else "int32_t"
    return f"""/* Behind computed numbers that were rounded, a step more or less may follow. */
static int is_close_{kind}(const void *numbers, const {kind} *wanted, int32_t count,
                           {tolerance} tolerance)
{{
    {kind} found;
    int32_t i;
    for (i = 0; i < count; i++) {{
        memcpy(&found, (const char *)numbers + sizeof found * (size_t)i, sizeof found);
        if (!(found <= wanted[i] + tolerance && found >= wanted[i] - tolerance)) {{
            return 0;
        }}
    }}
    return 1;
}}"""


def _check(written: Written, number: int, vector: TestVector) -> str:
    results = [f"found_{port.array}" for port in written.outputs]
    lines = [f"    {_run_of(written, number)}"]
    lines += [
        f"    {_compared(port, number, vector, result)}"
        for result, port in zip(results, written.outputs, strict=True)
    ]
    if written.is_streamed:
        lines += _by_rows(written, number, vector)
    return "\n".join(lines)


def _by_rows(written: Written, number: int, vector: TestVector) -> list[str]:
    name, capitals = written.name, written.name.upper()
    row = f"{written.inputs[0].array}_{number} + row * {capitals}_ROW_ELEMENTS"
    return [
        "    {",
        "        int32_t row;",
        f"        for (row = 0; row < {capitals}_ROWS; row++) {{",
        f"            int is_last = row == {capitals}_ROWS - 1;",
        f"            failed |= {name}_push_row(&state, {row}) !=\n"
        f"                (is_last ? {capitals}_DONE : {capitals}_OK);",
        "        }",
        *(
            f"        {_compared(port, number, vector, f'{name}_output(&state, {place})')}"
            for place, port in enumerate(written.outputs)
        ),
        "    }",
    ]


SHARE = 2.0**-20  # error of sums in single precision, relative to the range of a tensor
SIGMOID_ERROR = 2.0**-23  # half the difference of two tangents near -1, each off by 1 or 2 steps
TINY = 1e5 * SIGMOID_ERROR  # below this output, SIGMOID_ERROR exceeds the relative tolerance


def tolerances(
    model: Model, frame: Mapping[str, Array], outputs: Mapping[str, Array]
) -> dict[str, float]:
    """Return the permitted difference of each output from its reference; zero for most outputs."""
    tolerances = _behind_sigmoids(model, outputs)
    if not _rounded(model.network):
        return tolerances
    for sign in (-1, 1):
        # Insert a layer before each rounding of computed numbers that shifts them all in the
        # direction of the sign.
        share = sign * SHARE
        layers, weights = [], dict(model.weights or {})
        rounded = _rounded(model.network)
        for layer in model.network.layers:
            if layer.name not in rounded:
                layers.append(layer)
                continue
            before = model.network.layer(layer.inputs[0])
            moved = _moved(layer, before, model.network)
            layers += [moved, replace(layer, inputs=(moved.name, *layer.inputs[1:]))]
            # With a known scale, shift by a share of the full range; otherwise multiply.
            types = layer.quantization
            weights[moved.name] = {
                "constant": np.array(
                    [
                        1 + share
                        if types is None
                        else types.scale * 2 ** (8 * types.element.bytes) * share
                    ],
                    np.float32,
                )
            }
        for name, array in run_layer_by_layer(
            Model(network=replace(model.network, layers=tuple(layers)), weights=weights), frame
        ).items():
            away = np.abs(array.astype(np.float64) - outputs[name].astype(np.float64))
            tolerances[name] = max(tolerances[name], 2 * float(np.nan_to_num(away).max(initial=0)))
    return tolerances


def _behind_sigmoids(model: Model, outputs: Mapping[str, Array]) -> dict[str, float]:
    """Return the permitted absolute error of tiny sigmoids; zero for all other outputs.

    A sigmoid is computed from a hyperbolic tangent near -1, so its absolute error does not shrink
    with its value.
    """
    errors = dict.fromkeys(outputs, 0.0)
    for name, array in outputs.items():
        layer = model.network.layer(model.network.layer(name).inputs[0])
        last = (layer.operator, *layer.epilogue)[-1]
        is_tiny = array.dtype.kind == "f" and float(np.abs(array).max(initial=0)) < TINY
        if is_tiny and last == op.Activation(function="sigmoid"):
            errors[name] = SIGMOID_ERROR
    return errors


def _rounded(network: Network) -> set[str]:
    """The layers that round floating-point numbers computed by other layers."""
    computed: set[str] = set()
    fed_layers: set[str] = set()
    for layer in network.layers:
        is_fed = bool(layer.inputs) and layer.inputs[0] in computed
        makes_integers = layer.operator.run_time_result == "integers" or (
            layer.operator.converts and layer.quantization is not None
        )
        if makes_integers:
            fed_layers |= {layer.name} if is_fed else set()
        elif layer.quantization is None and layer.inputs:
            is_exact = layer.operator.converts or layer.operator.moves
            computed |= {layer.name} if is_fed or layer.epilogue or not is_exact else set()
    return fed_layers


def _moved(layer: Layer, before: Layer, network: Network) -> Layer:
    names = {layer.name for layer in network.layers}
    name = f"before {layer.name}"
    while name in names:
        name += "'"
    function = "multiply" if layer.quantization is None else "add"
    operator = op.Elementwise(function=function, constant=(1,))
    return Layer(
        name=name,
        operator=operator,
        inputs=(before.name,),
        shape=before.shape,
        element=before.element,
    )
