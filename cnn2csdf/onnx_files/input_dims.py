"""The dims of the inputs of a graph, one frame at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx

from csdf.errors import UnreadableFile

Dims = tuple[int, ...]
FLOATS = frozenset(map(onnx.TensorProto.DataType.Value, ("FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE")))
INTEGERS = frozenset(map(onnx.TensorProto.DataType.Value, ("UINT8", "INT8", "INT32", "INT64")))


def require_known_names(shapes: Mapping[str, Dims], inputs: Sequence[onnx.ValueInfoProto]) -> None:
    """Raise UnreadableFile for a shape of what is neither an input nor an open dim of one."""
    names = [found.name for found in inputs]
    open_dims = _named_dims(inputs)
    for name, dims in shapes.items():
        if name in names or (name in open_dims and len(dims) == 1):
            continue
        if name in open_dims:
            raise UnreadableFile(
                f"{name!r} is one dim of an input; give one number, as in --shape {name}=N"
            )
        listed = ", ".join(map(repr, names)) or "none"
        dim_names = f"; open dims: {', '.join(map(repr, open_dims))}" if open_dims else ""
        raise UnreadableFile(
            f"there is no input {name!r} to give a shape; inputs: {listed}{dim_names}"
        )


def _named_dims(inputs: Sequence[onnx.ValueInfoProto]) -> list[str]:
    """The names that the file gives to open dims, each once."""
    dims = [dim for found in inputs for dim in found.type.tensor_type.shape.dim]
    return list(dict.fromkeys(dim.dim_param for dim in dims if dim.dim_param))


def input_dims(found: onnx.ValueInfoProto, shapes: Mapping[str, Dims]) -> Dims:
    """Return the dims of an input, the batch of one in front; a batch left open is one.

    shapes: by input, dims that replace those of the file; by name of an open dim, its size. Raises
    UnreadableFile where a dim is not fixed, or the batch is another.
    """
    if not found.type.HasField("tensor_type"):
        raise UnreadableFile(f"input {found.name!r} is not a tensor")
    if found.type.tensor_type.elem_type not in FLOATS | INTEGERS:
        raise UnreadableFile(f"input {found.name!r} holds no numbers of a supported type")
    sizes: list[int | str] = []  # a text for one that is not fixed
    for dim in found.type.tensor_type.shape.dim:
        given = shapes.get(dim.dim_param, ()) if not dim.HasField("dim_value") else ()
        open_size = given[0] if len(given) == 1 else dim.dim_param or "?"
        sizes.append(dim.dim_value if dim.HasField("dim_value") else open_size)
    whole = shapes.get(found.name)
    # Whether the input has an open dim of its own name.
    if whole is not None and not (
        len(whole) == 1 and len(sizes) != 1 and (found.name in _named_dims([found]))
    ):
        if sizes and len(whole) != len(sizes):
            raise UnreadableFile(
                f"input {found.name!r} has {len(sizes)} dims, the shape given for it {len(whole)}"
            )
        sizes = list(whole)
    elif len(sizes) > 1 and isinstance(sizes[0], str):
        sizes[0] = 1
    _require_fixed(found.name, sizes)
    dims = tuple(size for size in sizes if isinstance(size, int))
    name = found.name
    if min(dims, default=1) < 1:
        raise UnreadableFile(
            f"input {name!r} of shape {_text(dims)} holds nothing; "
            f"give all dims, as in --shape {name}={_text(_with_letters(dims))}"
        )
    if len(dims) < 2:
        raise UnreadableFile(f"input {name!r} of shape {_text(dims)}: no axis besides the batch")
    if dims[0] != 1:
        raise UnreadableFile(
            f"input {name!r} of shape {_text(dims)}: a batch of {dims[0]}; networks run here one "
            f"frame at a time, so export with a batch of 1, or try --shape {name}="
            f"{_text((1, *dims[1:]))}"
        )
    return dims


def _require_fixed(name: str, sizes: Sequence[int | str]) -> None:
    if not sizes:
        raise UnreadableFile(
            f"input {name!r}: its shape is not in the file; give it, as in --shape {name}=1xCxHxW "
            "with your numbers for C, H, W"
        )
    open_dims = [(place, size) for place, size in enumerate(sizes) if isinstance(size, str)]
    if not open_dims:
        return
    names = list(dict.fromkeys(size for _, size in open_dims))
    by_name = " ".join(f"--shape {one}=N" for one in names)
    example = f"--shape {name}={_text(_with_letters(sizes))}" if "?" in names else by_name
    dims = " and ".join(f"dim {place} ({size!r})" for place, size in open_dims)
    verb, object_ = ("is", "it") if len(open_dims) == 1 else ("are", "them")
    raise UnreadableFile(
        f"input {name!r} of shape {_text(sizes)}: {dims} {verb} not fixed; give {object_}, as in "
        f"{example}"
    )


def _with_letters(sizes: Sequence[int | str]) -> list[int | str]:
    """Dims with a letter for each that is not known."""
    letters = dict(enumerate("NCHW")) if len(sizes) == 4 else {}
    fixed = [
        size if isinstance(size, int) and size > 0 else letters.get(place, "N")
        for place, size in enumerate(sizes)
    ]
    return [1, *fixed[1:]]


def _text(sizes: Sequence[int | str]) -> str:
    return "x".join(map(str, sizes))
