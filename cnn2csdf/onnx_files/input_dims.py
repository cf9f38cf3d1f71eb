"""Dims of the inputs of an ONNX graph for one frame: open dims, batches, and usual sizes.

An open dim has a name in the file, such as `batch`, or none, and no size. Its size comes from the user
(--shape), is 1 if it is the batch of an input, or is proposed from usual image sizes and lengths.
Example: an input ["batch", 3, "h", "w"] with --shape h=224 --shape w=224 has the dims (1, 3, 224, 224).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import zip_longest

import numpy as np
import onnx
from onnx import numpy_helper

from cnn2csdf.readers.usual_sizes import IMAGES, LENGTHS
from cnn2csdf.shape import Dims
from csdf.errors import UnreadableFile

FLOATS = frozenset(map(onnx.TensorProto.DataType.Value, ("FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE")))
INTEGERS = frozenset(map(onnx.TensorProto.DataType.Value, ("UINT8", "INT8", "INT32", "INT64")))

# Axes of the states of a recurrent layer: layers or kinds of states, batch, elements.
STATE_AXES = 3


def require_known_names(shapes: Mapping[str, Dims], inputs: Sequence[onnx.ValueInfoProto]) -> None:
    """Raise UnreadableFile for a shape whose name is neither an input nor an open dim."""
    names = [value_info.name for value_info in inputs]
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
    """Return the names of the open dims of the inputs, without duplicates."""
    dims = [dim for value_info in inputs for dim in value_info.type.tensor_type.shape.dim]
    return list(dict.fromkeys(dim.dim_param for dim in dims if dim.dim_param))


def constant_input(proto: onnx.ValueInfoProto, constants: Mapping[str, float]) -> onnx.TensorProto:
    """Return an input as a constant tensor filled with one number; an open dim has size 1."""
    number, kind = constants[proto.name], proto.type.tensor_type.elem_type
    if kind not in FLOATS | INTEGERS:
        raise UnreadableFile(f"input {proto.name!r} holds no numbers of a supported type")
    sizes = [max(dim.dim_value, 1) for dim in proto.type.tensor_type.shape.dim]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(kind)
    try:
        array = np.full(sizes, int(number) if kind in INTEGERS else number, dtype)
    except OverflowError:
        raise UnreadableFile(
            f"input {proto.name!r} of {dtype} cannot hold {number:g}; give a number of that type"
        ) from None
    return numpy_helper.from_array(array, proto.name)


class OpenSizes(UnreadableFile):
    """An error that lists the inputs with open dims.

    sizes: by input; a string is the name of an open dim, "?" an open dim without a name. scalars:
    inputs without axes, which need a constant value.
    """

    def __init__(
        self, message: str, sizes: Mapping[str, Sequence[int | str]], scalars: Sequence[str]
    ) -> None:
        super().__init__(message)
        self.sizes = sizes
        self.scalars = tuple(scalars)


def inputs_dims(
    inputs: Sequence[onnx.ValueInfoProto],
    shapes: Mapping[str, Dims],
    sequences: Set[str] = frozenset(),
) -> dict[str, Dims]:
    """Return the dims of all inputs for one frame.

    An open first dim is the batch and becomes 1; an open dim of the same name becomes 1 in all inputs.
    If an input has a batch of 1, an input with another first dim is a tensor without a batch, such as
    two states. Inputs in `sequences`, which recurrent layers read as time steps x batch x elements, are
    tensors without a first batch axis too. shapes: dims by the name of an input, or the size by the
    name of an open dim.

    Raises OpenSizes with all inputs whose dims are not fixed; UnreadableFile for a batch above 1.
    """
    sizes = {proto.name: _sizes_of(proto, shapes) for proto in inputs}
    axes = [proto.type.tensor_type.shape.dim for proto in inputs]
    batches = {dims[0].dim_param for dims in axes if len(dims) > 1 and dims[0].dim_param}
    for dims in sizes.values():
        if len(dims) > 1 and dims[0] == "?":
            dims[0] = 1
        # Several states of a recurrent layer: the batch is the second axis.
        if len(dims) == STATE_AXES and dims[0] != 1 and isinstance(dims[0], int) and dims[1] == "?":
            dims[1] = 1
        dims[:] = [1 if size in batches else size for size in dims]
    _require_fixed(inputs, sizes, shapes)
    fixed = {
        name: tuple(size for size in dims if isinstance(size, int)) for name, dims in sizes.items()
    }
    has_batch = any(len(dims) > 1 and dims[0] == 1 for dims in fixed.values())
    for name, frame_dims in fixed.items():
        is_sequence = name in sequences and frame_dims[1:2] == (1,)
        _require_frame(name, frame_dims, has_batch=has_batch or is_sequence)
    return fixed


def _sizes_of(proto: onnx.ValueInfoProto, shapes: Mapping[str, Dims]) -> list[int | str]:
    """Return the sizes of an input; a string is the name of an open dim, or "?"."""
    name = proto.name
    if not proto.type.HasField("tensor_type"):
        raise UnreadableFile(f"input {name!r} is not a tensor")
    if proto.type.tensor_type.elem_type not in FLOATS | INTEGERS:
        raise UnreadableFile(f"input {name!r} holds no numbers of a supported type")
    sizes: list[int | str] = []
    for dim in proto.type.tensor_type.shape.dim:
        # Exporters write an open dim without a value, or with a negative value.
        is_fixed = dim.HasField("dim_value") and dim.dim_value >= 0
        sizes_of = () if is_fixed else shapes.get(dim.dim_param, ())
        open_size = sizes_of[0] if len(sizes_of) == 1 else dim.dim_param or "?"
        sizes.append(dim.dim_value if is_fixed else open_size)
    whole = shapes.get(name)
    is_name_of_dim = whole is not None and len(whole) == 1 and len(sizes) != 1
    if whole is None or (is_name_of_dim and name in _named_dims([proto])):
        return sizes
    if sizes and len(whole) != len(sizes):
        raise UnreadableFile(
            f"input {name!r} has {len(sizes)} dims, the shape given for it {len(whole)}"
        )
    return list(whole)


def _require_frame(name: str, dims: Dims, *, has_batch: bool) -> None:
    """Raise UnreadableFile for an empty input, or for a batch of several frames."""
    if min(dims) < 1:
        raise UnreadableFile(
            f"input {name!r} of shape {_text(dims)} holds nothing; "
            f"give all dims, as in --shape {name}={_text(_with_letters(dims))}"
        )
    if dims[0] != 1 and len(dims) > 1 and not has_batch:
        raise UnreadableFile(
            f"input {name!r} of shape {_text(dims)}: a batch of {dims[0]}; networks run here one "
            f"frame at a time, so export with a batch of 1, or try --shape {name}="
            f"{_text((1, *dims[1:]))}"
        )


def _require_fixed(
    inputs: Sequence[onnx.ValueInfoProto],
    sizes: Mapping[str, Sequence[int | str]],
    shapes: Mapping[str, Dims],
) -> None:
    """Raise OpenSizes if any input has an open dim or no axes."""
    refusals, words, scalars = [], [], []
    for proto in inputs:
        name, dims = proto.name, sizes[proto.name]
        if not dims and proto.type.tensor_type.HasField("shape") and name not in shapes:
            scalars.append(name)
            refusals.append(f"input {name!r} is a single number; give its value for every frame")
            words.append(f"--constant {name}=N")
        elif not dims:
            refusals.append(f"input {name!r}: its shape is not in the file")
            words.append(f"--shape {name}=1xCxHxW")
        elif open_dims := [(at, size) for at, size in enumerate(dims) if isinstance(size, str)]:
            listed = " and ".join(f"dim {at} ({size!r})" for at, size in open_dims)
            verb = "is" if len(open_dims) == 1 else "are"
            refusals.append(f"input {name!r} of shape {_text(dims)}: {listed} {verb} not fixed")
            words += words_for(name, dims, _with_letters(dims))
    if refusals:
        said = f"{'; '.join(refusals)}; give sizes, as in {' '.join(dict.fromkeys(words))}"
        raise OpenSizes(said, {name: list(dims) for name, dims in sizes.items()}, scalars)


def words_for(name: str, sizes: Sequence[int | str], chosen: Sequence[int | str]) -> list[str]:
    """Return options such as `--shape h=224` that fix the open dims of an input."""
    pairs = zip(sizes, chosen, strict=True)
    open_dims = {size: value for size, value in pairs if isinstance(size, str)}
    if "?" in open_dims:
        return [f"--shape {name}={_text(chosen)}"]
    return [f"--shape {size}={value}" for size, value in open_dims.items()]


def _with_letters(sizes: Sequence[int | str]) -> list[int | str]:
    """Replace open dims by letters for an example; the batch is 1."""
    letters = dict(enumerate("NCHW")) if len(sizes) == 4 else {}
    fixed = [
        size if isinstance(size, int) and size > 0 else letters.get(place, "N")
        for place, size in enumerate(sizes)
    ]
    return [1, *fixed[1:]] if len(fixed) > 1 else fixed


def _text(sizes: Sequence[int | str]) -> str:
    return "x".join(map(str, sizes))


IMAGE_SIZES = ("imgsz", "image_size", "input_size", "img_size")  # metadata keys of exporters


def usual_sizes(
    open_sizes: OpenSizes, metadata: Mapping[str, str]
) -> Iterator[dict[str, list[int]]]:
    """Yield candidate sizes of all inputs with open dims: sizes in the metadata, then usual sizes."""
    stated = [
        tuple(map(int, numbers))
        for key in IMAGE_SIZES
        if (numbers := re.findall(r"\b\d{1,5}\b", metadata.get(key, "")))
    ]
    # A single number is both height and width.
    images = [(numbers * 2)[-2:] for numbers in stated] + list(IMAGES)
    for image, length in zip_longest(images, LENGTHS):
        yield {
            name: _chosen(dims, image or images[-1], length or LENGTHS[-1])
            for name, dims in open_sizes.sizes.items()
            if any(isinstance(size, str) for size in dims)
        }


def _chosen(sizes: Sequence[int | str], image: Sequence[int], length: int) -> list[int]:
    """Fill open dims: an image (1, 3, height, width) for four axes, else the length for each."""
    usual = [1, 3, *image] if len(sizes) == 4 else [length] * len(sizes)
    return [size if isinstance(size, int) else usual[at] for at, size in enumerate(sizes)]
