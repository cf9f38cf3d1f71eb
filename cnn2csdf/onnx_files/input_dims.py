"""The dims of the inputs of a graph, one frame at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx

from csdf.errors import UnreadableFile

Dims = tuple[int, ...]
FLOATS = frozenset(map(onnx.TensorProto.DataType.Value, ("FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE")))
INTEGERS = frozenset(map(onnx.TensorProto.DataType.Value, ("UINT8", "INT8", "INT32", "INT64")))


def require_known_names(shapes: Mapping[str, Dims], inputs: Sequence[onnx.ValueInfoProto]) -> None:
    """Raise UnreadableFile for a shape of what is not an input."""
    names = [found.name for found in inputs]
    for name in shapes:
        if name not in names:
            listed = ", ".join(map(repr, names)) or "none"
            raise UnreadableFile(f"there is no input {name!r} to give a shape; inputs: {listed}")


def input_dims(found: onnx.ValueInfoProto, given: Dims | None) -> Dims:
    """Return the dims of an input, the batch of one in front.

    given: dims that replace those of the file. Raises UnreadableFile where one is not fixed.
    """
    if not found.type.HasField("tensor_type"):
        raise UnreadableFile(f"input {found.name!r} is not a tensor")
    if found.type.tensor_type.elem_type not in FLOATS | INTEGERS:
        raise UnreadableFile(f"input {found.name!r} holds no numbers of a supported type")
    sizes = _sizes_in_file(found)
    if given is None:
        _require_fixed(found.name, sizes)
    elif sizes and len(given) != len(sizes):
        raise UnreadableFile(
            f"input {found.name!r} has {len(sizes)} dims, the shape given for it {len(given)}"
        )
    dims = tuple(size for size in sizes if isinstance(size, int)) if given is None else given
    _require_one_frame(found.name, dims)
    return dims


def _sizes_in_file(found: onnx.ValueInfoProto) -> list[int | str]:
    """The dims; a text for one that is not fixed."""
    return [
        dim.dim_value if dim.HasField("dim_value") else (dim.dim_param or "?")
        for dim in found.type.tensor_type.shape.dim
    ]


def _require_fixed(name: str, sizes: Sequence[int | str]) -> None:
    if not sizes:
        raise UnreadableFile(
            f"input {name!r}: its shape is not in the file; "
            f"give it, as in --shape {name}=1x3x224x224"
        )
    for place, size in enumerate(sizes):
        if isinstance(size, str):
            what = "the batch" if place == 0 else f"dim {place}"
            raise UnreadableFile(
                f"input {name!r} of shape {_text(sizes)}: {what} is not fixed ({size!r}); "
                f"give all dims, as in --shape {name}={_text(_example(sizes))}"
            )


def _require_one_frame(name: str, dims: Dims) -> None:
    if min(dims, default=1) < 1:
        raise UnreadableFile(
            f"input {name!r} of shape {_text(dims)} holds nothing; "
            f"give all dims, as in --shape {name}={_text(_example(dims))}"
        )
    if len(dims) < 2:
        raise UnreadableFile(f"input {name!r} of shape {_text(dims)}: no axis besides the batch")
    if dims[0] != 1:
        raise UnreadableFile(
            f"input {name!r} has a batch of {dims[0]}, expected one frame; "
            f"give all dims, as in --shape {name}={_text(_example(dims))}"
        )


def _example(sizes: Sequence[int | str]) -> list[int]:
    """Dims that would do: one frame, and a usual size for what is not fixed."""
    usual = dict(enumerate((1, 3, 224, 224)))
    fixed = [
        size if isinstance(size, int) and size > 0 else usual.get(place, 1)
        for place, size in enumerate(sizes)
    ]
    return [1, *fixed[1:]]


def _text(sizes: Sequence[int | str]) -> str:
    return "x".join(map(str, sizes))
