"""JSON files of graphs of tensors, whose nodes may run in any topological order.

    {"nodes": [{"name": "conv", "inputs": ["image"], "outputs": ["map"], "in_place": ["image"]}],
     "tensors": {"image": 3072, "map": 3072}, "inputs": ["image"], "outputs": ["map"]}

A node without "outputs" writes one tensor of its own name, and may have its "bytes". A node with the
"op" Input is an input of the graph. "inputs" may be left out: they are the tensors that no node writes;
and "outputs": then they are the tensors that no node reads. "in_place" of a node names inputs that its
result may overwrite. "scratch" of a node is bytes that are live while it runs, "time" its position in
the order, or the first and the last one. "repeat_price" is the price of each further run of a node.
"alternatives" of a node are implementations, of which one is chosen: each may have its own "bytes" (an
object with the bytes of each of several outputs), "inputs", "scratch" and "price". "reuse_prices" lists
pairs of tensors that share bytes only at a price, as {"tensors": ["map", "sum"], "price": 1}.
"file_order" lists nodes in their present order. "shape", "attr" and "source" are not read.
"""

from __future__ import annotations

from collections.abc import Iterator

from csdf.errors import InvalidGraph, UnreadableFile
from csdf.io.json_value import JsonValue
from planners.order.problem import OrderProblem, ReusePrice, Step, StepAlternative

# Operators that compute each element from the elements at the same place.
ELEMENTWISE = frozenset(("Add", "Sub", "Mul", "Relu", "Sigmoid", "Tanh", "HardSwish"))
INPUT = "Input"
OPTIONAL = ("name", "source", "tensors", "inputs", "outputs", "file_order", "reuse_prices")
OF_A_NODE = (
    "inputs", "outputs", "op", "bytes", "in_place", "scratch", "time", "repeat_price", "alternatives",
    "shape", "attr",
)  # fmt: skip
OF_AN_ALTERNATIVE = ("inputs", "bytes", "scratch", "price")


def parse_tensor_graph(
    text: str, name: str, *, elementwise_in_place: bool = False, title: str = ""
) -> OrderProblem:
    """Return the graph of a document. Raises UnreadableFile with the place.

    title: of a graph without a "name". elementwise_in_place: nodes with an "op" of ELEMENTWISE, one
    output and no "in_place" may overwrite an input of their size.
    """
    document = JsonValue.parse(text, name)
    document.require_keys(("nodes",), OPTIONAL)
    nodes = list(document["nodes"].items())
    for node in nodes:
        node.require_keys(("name",), OF_A_NODE)
    sizes = _sizes(document, nodes)
    steps = [
        _step(node, sizes, elementwise_in_place=elementwise_in_place)
        for node in nodes
        if not _is_input(node)
    ]
    if "file_order" in document.value:
        steps = _in_file_order(document, nodes, steps)
    _require_inputs(document, nodes, sizes, steps)
    outputs = _outputs(document, sizes, steps)
    title = document["name"].text() if "name" in document.value else title or name
    try:
        return OrderProblem(
            name=title,
            sizes=sizes,
            steps=tuple(steps),
            outputs=outputs,
            reuse_prices=tuple(_reuse_prices(document, sizes)),
        )
    except InvalidGraph as error:
        raise UnreadableFile(f"{name}: {error}") from None


def _is_input(node: JsonValue) -> bool:
    return "op" in node.value and node["op"].text() == INPUT


def _sizes(document: JsonValue, nodes: list[JsonValue]) -> dict[str, int]:
    """Return the bytes of each tensor: of the list of tensors, and of nodes that say their own."""
    sizes: dict[str, int] = {}
    if "tensors" in document.value:
        sizes = {tensor: size.natural() for tensor, size in document["tensors"].members()}
    for node in nodes:
        if "bytes" not in node.value:
            continue
        if "outputs" in node.value:
            raise node["bytes"].refusal("expected the bytes of 'outputs' in 'tensors'")
        name, size = node["name"].text(), node["bytes"].natural()
        if sizes.get(name, size) != size:
            raise node["bytes"].refusal(f"expected {sizes[name]}, as in 'tensors'")
        sizes[name] = size
    return sizes


def _step(node: JsonValue, sizes: dict[str, int], *, elementwise_in_place: bool) -> Step:
    name = node["name"].text()
    reads = _names(node, "inputs", sizes)
    writes = _names(node, "outputs", sizes) if "outputs" in node.value else (name,)
    if name in writes and name not in sizes:
        raise UnreadableFile(
            f"{node.where}: the bytes of tensor {name!r} are missing; expected 'bytes' of its node, "
            "or its name in 'tensors'"
        )
    overwrites = _names(node, "in_place", sizes)
    is_elementwise = "op" in node.value and node["op"].text() in ELEMENTWISE
    if elementwise_in_place and is_elementwise and not overwrites and len(writes) == 1:
        overwrites = tuple(tensor for tensor in reads if sizes[tensor] == sizes[writes[0]])
    alternatives = _alternatives(node, reads, writes, sizes)
    for alternative in alternatives:
        reads += tuple(tensor for tensor in alternative.reads if tensor not in reads)
    earliest, latest = _positions(node)
    return Step(
        name=name,
        reads=reads,
        writes=writes,
        overwrites=overwrites,
        scratch=0 if alternatives else _natural(node, "scratch"),
        earliest=earliest,
        latest=latest,
        alternatives=alternatives,
        repeat_price=_natural(node, "repeat_price") if "repeat_price" in node.value else None,
    )


def _natural(value: JsonValue, key: str) -> int:
    """Return a number of a node, 0 where the key is missing."""
    return value[key].natural() if key in value.value else 0


def _positions(node: JsonValue) -> tuple[int, int | None]:
    """Return the first and last position of a node: of a number, or of a pair."""
    if "time" not in node.value:
        return 0, None
    time = node["time"]
    if not isinstance(time.value, list):
        return time.natural(), time.natural()
    if len(time.value) != 2:
        raise time.refusal("expected a position, or the first and the last one")
    first, last = (entry.natural() for entry in time.items())
    return first, last


def _alternatives(
    node: JsonValue, reads: tuple[str, ...], writes: tuple[str, ...], sizes: dict[str, int]
) -> tuple[StepAlternative, ...]:
    """Return the implementations of a node; missing entries are those of the node."""
    if "alternatives" not in node.value:
        return ()
    alternatives = []
    for value in node["alternatives"].items():
        value.require_keys((), OF_AN_ALTERNATIVE)
        written_sizes = {tensor: sizes[tensor] for tensor in writes}
        if "bytes" in value.value and isinstance(value["bytes"].value, dict):
            written_sizes |= {tensor: size.natural() for tensor, size in value["bytes"].members()}
        elif "bytes" in value.value:
            if len(writes) != 1:
                raise value["bytes"].refusal("expected an object with the bytes of each output")
            written_sizes = {writes[0]: value["bytes"].natural()}
        alternatives.append(
            StepAlternative(
                reads=_names(value, "inputs", sizes) if "inputs" in value.value else reads,
                sizes=written_sizes,
                scratch=_natural(value if "scratch" in value.value else node, "scratch"),
                price=_natural(value, "price"),
            )
        )
    if not alternatives:
        raise node["alternatives"].refusal("expected at least one alternative")
    return tuple(alternatives)


def _names(value: JsonValue, key: str, sizes: dict[str, int]) -> tuple[str, ...]:
    """Return a list of tensors; empty where the key is missing."""
    if key not in value.value:
        return ()
    entries = list(value[key].items())
    for entry in entries:
        if entry.text() not in sizes:
            raise entry.refusal("expected a tensor with bytes: in 'tensors', or the name of a node")
    return tuple(entry.text() for entry in entries)


def _in_file_order(document: JsonValue, nodes: list[JsonValue], steps: list[Step]) -> list[Step]:
    """Return the steps as the file lists them."""
    position = {entry.text(): number for number, entry in enumerate(document["file_order"].items())}
    names = {node["name"].text() for node in nodes}
    different = sorted(names.symmetric_difference(position))
    if different:
        raise UnreadableFile(
            f"{document['file_order'].where}: expected each node once; {different[0]!r} is only in "
            f"one of 'nodes' and 'file_order'"
        )
    return sorted(steps, key=lambda step: position[step.name])


def _require_inputs(
    document: JsonValue, nodes: list[JsonValue], sizes: dict[str, int], steps: list[Step]
) -> None:
    """Refuse inputs that a node writes, and tensors that come from nowhere."""
    declared = {node["name"].text() for node in nodes if _is_input(node)}
    declared.update(_names(document, "inputs", sizes))
    written = {tensor for step in steps for tensor in step.writes}
    for tensor in sorted(declared & written):
        raise UnreadableFile(f"{document.where}: input {tensor!r} is written by a node")
    if declared:
        for tensor in sizes:
            if tensor not in written | declared:
                raise UnreadableFile(
                    f"{document.where}: no node writes tensor {tensor!r}; expected it in 'inputs'"
                )


def _reuse_prices(document: JsonValue, sizes: dict[str, int]) -> Iterator[ReusePrice]:
    """Yield the pairs of tensors that share bytes at a price."""
    if "reuse_prices" not in document.value:
        return
    for entry in document["reuse_prices"].items():
        entry.require_keys(("tensors", "price"), ())
        tensors = _names(entry, "tensors", sizes)
        if len(tensors) != 2:
            raise entry["tensors"].refusal("expected two tensors")
        yield ReusePrice(*tensors, entry["price"].natural())


def _outputs(document: JsonValue, sizes: dict[str, int], steps: list[Step]) -> tuple[str, ...]:
    if "outputs" in document.value:
        return _names(document, "outputs", sizes)
    read = {tensor for step in steps for tensor in step.reads}
    return tuple(tensor for tensor in sizes if tensor not in read)
