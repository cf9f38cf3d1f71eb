"""Names of tensors in C: those of the file, shortened where they are long, or as the user renames them.

A name of up to 24 letters stays. A longer name, such as that of a path in a TensorFlow graph, becomes
its last components that fit; what frameworks add (`serving_default_`, `StatefulPartitionedCall`) is
left out. Names depend on the names of the file only, so the same architecture has the same names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches

from cnn2csdf.network import Network
from csdf.errors import InvalidArgument
from planners.code.c_text import identifier, unlike

LONGEST_NAME = 24  # C99 compares 31 letters of an external name, of which the library has some
_CALL = re.compile(r"(?i)(stateful)?partitionedcall(_\d+)?")
_OUTPUT_NUMBER = re.compile(r"(:\d+|_output_\d+)?( output)?$")
_OUTPUT = " output"  # behind the name of a tensor: the layer of an output of the network
_SERVED = "serving_default_"

Renamed = Sequence[tuple[str, str]]  # tensors of the file, with their names in C


class TensorNames:
    """The C names of the tensors of a network."""

    def __init__(self, network: Network, renamed: Renamed = ()) -> None:
        """renamed: tensors of other networks among them are ignored."""
        ends = (*network.inputs, *network.outputs)  # of which the user reads the names
        tensors = list(dict.fromkeys(layer.name for layer in (*ends, *network.layers)))
        self._names: dict[str, str] = {}
        inputs = {layer.name for layer in network.inputs}
        self._names.update((tensor, name) for tensor, name in renamed if tensor in tensors)
        for tensor, name in renamed:
            output = f"{tensor}{_OUTPUT}"
            if output in tensors:  # of an input that goes out as it is, another name
                self._names.setdefault(output, f"{name}_output" if tensor in inputs else name)
        self._renamed = frozenset(self._names)
        for tensor in tensors:
            if len(identifier(tensor)) <= LONGEST_NAME:
                self._names.setdefault(tensor, identifier(tensor))
        taken = set(self._names.values())
        for tensor in tensors:
            if tensor not in self._names:
                candidates = [*short_forms(tensor)]
                free = (form for form in candidates if form not in taken)
                self._names[tensor] = next(free, None) or unlike(candidates[0], taken)
                taken.add(self._names[tensor])

    def __getitem__(self, tensor: str) -> str:
        """Return the name of a tensor, also of one that a transformation of the network added."""
        return self._names.get(tensor) or next(short_forms(tensor))

    def of_port(self, tensor: str, taken: Sequence[str]) -> str:
        """Return the C name of an input or output, unlike those taken.

        Raises InvalidArgument if the user gave a name that is taken.
        """
        name = unlike(self[tensor], taken)
        if tensor in self._renamed and name != self[tensor]:
            raise InvalidArgument(
                f"rename {tensor}={self[tensor]}: the library has this name already; give another, "
                f"such as {name}"
            )
        return name


def short_forms(tensor: str) -> Iterator[str]:
    """Yield C names for a long name of a tensor, the best first."""
    if len(identifier(tensor)) <= LONGEST_NAME:
        yield identifier(tensor)
        return
    path = tensor.partition(";")[0]  # of fused operators: the last of them
    components = [
        component
        for component in path.split("/")
        if component and not _CALL.fullmatch(_OUTPUT_NUMBER.sub("", component))
    ] or ["output"]
    components[-1] = _OUTPUT_NUMBER.sub("", components[-1]).removeprefix(_SERVED) or "output"
    forms = [
        "/".join(components[first:])
        for first in range(max(1, len(components) - 1))  # a layer and its operator
    ]
    forms += components[-2:]
    names = [identifier(form) for form in forms]
    yield from (name for name in names if len(name) <= LONGEST_NAME)
    yield _last_words(names[-1])


def _last_words(name: str) -> str:
    """Return the last words of an identifier that fit, or the beginning of a single long word."""
    words = name.split("_")
    while len(words) > 1 and len("_".join(words)) > LONGEST_NAME:
        words = words[1:]
    return identifier("_".join(words)[:LONGEST_NAME])


def require_renamed(tensors: Iterable[str], renamed: Renamed) -> None:
    """Raise InvalidArgument for a new name that is no C name, or a tensor that no network has."""
    listed = list(dict.fromkeys(tensors))
    new_names: dict[str, str] = {}
    name_of: dict[str, str] = {}
    for tensor, name in renamed:
        if name != identifier(name):
            raise InvalidArgument(
                f"rename {tensor}={name}: {name!r} is no name in C; expected small letters, digits "
                f"and _, such as {identifier(name)}"
            )
        if new_names.setdefault(name, tensor) != tensor:
            raise InvalidArgument(
                f"rename {tensor}={name}: {new_names[name]!r} has this name; give another"
            )
        if name_of.setdefault(tensor, name) != name:
            raise InvalidArgument(
                f"rename {tensor}={name}: the name {name_of[tensor]!r} is given for it, too"
            )
        if tensor not in listed and f"{tensor}{_OUTPUT}" not in listed:
            listed = list(dict.fromkeys(layer.removesuffix(_OUTPUT) for layer in listed))
            near = get_close_matches(tensor, listed, 3, 0.3) or listed[:3]
            raise InvalidArgument(
                f"rename {tensor}={name}: no tensor {tensor!r}; expected one of the file, such as "
                f"{', '.join(map(repr, near))}"
            )
