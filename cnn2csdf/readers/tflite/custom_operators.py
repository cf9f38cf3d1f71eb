"""Custom operators of a TensorFlow Lite graph as layers: detections, and those of other packages.

Files store the options of custom operators as a map in a FlexBuffer. All its widths are in bytes: 1, 2,
4 or 8. An offset is subtracted from the position where it is stored. The parts of a buffer:

    root (end of the buffer)   offset of the map, packed type (1 byte), width of this offset (1 byte)
    map, before its values     offset of the vector of keys, width of a key, number of values
    values                     of equal width: a number, or an offset of the number if indirect
    packed types               of the values, 1 byte each, after the last value
    keys                       offsets of names in alphabetical order; a name ends with a zero byte

A packed type is a kind times 4, plus the binary logarithm of a width: of the map's values in the type
of the root, of the number in the type of an indirect value.
Source: google/flatbuffers, docs, FlexBuffers format.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import replace
from math import isfinite, prod
from types import ModuleType

import cnn2csdf.extensions as extensions
from cnn2csdf import operators as op
from cnn2csdf.dtypes import Element
from cnn2csdf.integers import dequantized
from cnn2csdf.readers.tflite.assembly import Converter, TfliteAssembly, Trained, refusal
from cnn2csdf.readers.tflite.model_file import TfliteNode
from csdf.errors import UnreadableFile

INT, UINT, FLOAT, MAP, BOOL = 1, 2, 3, 9, 26
# Kinds of values that are offsets, and the kinds of the numbers there.
INDIRECT = {6: INT, 7: UINT, 8: FLOAT}
# Letters of `struct` for numbers of each kind, at the index of their width in bytes; "?" for none.
FORMS = {INT: "?bh?i???q", UINT: "?BH?I???Q", FLOAT: "??e?f???d", BOOL: "?BH?I???Q"}
WIDTHS = (1, 2, 4, 8)
MOST_OPTIONS = 256
CUSTOM = "CUSTOM:"
REQUIRED = ("max_detections", "num_classes", "nms_score_threshold", "nms_iou_threshold")
OUTPUTS = 4  # boxes, classes, scores, count
SCALES = ("y_scale", "x_scale", "h_scale", "w_scale")
MOST = 2**20  # detections; the usual count is 10 to 100
USUAL_BY_CLASS = 100


class _Buffer:
    """Numbers at positions of a buffer; each access is checked against its bounds."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def number(self, position: int, width: int, kind: int) -> float:
        """Return the number of this kind at a position."""
        if width not in WIDTHS or not 0 <= position <= len(self.content) - width:
            raise UnreadableFile("the options of a custom operator are corrupt")
        form = FORMS[kind][width]
        if form == "?":
            raise UnreadableFile(f"a custom option of {width} bytes is of no known type")
        value: float = struct.unpack_from(f"<{form}", self.content, position)[0]
        return value

    def count(self, position: int, width: int) -> int:
        """Return the unsigned integer at a position."""
        return int(self.number(position, width, UINT))

    def pointed(self, position: int, width: int) -> int:
        """Return the position to which the offset at a position leads back."""
        return position - self.count(position, width)

    def text(self, position: int) -> str:
        """Return the text that ends with a zero."""
        end = self.content.find(b"\0", max(position, 0))
        if position < 0 or end < 0:
            raise UnreadableFile("a name among the options of a custom operator has no end")
        return self.content[position:end].decode("utf-8", "replace")


def flexible_options(content: bytes) -> dict[str, float]:
    """Return the numbers of a map by their names; other values are left out.

    Raises UnreadableFile for a buffer that is damaged or no map.
    """
    buffer = _Buffer(content)
    if len(content) < 3 or content[-2] >> 2 != MAP:
        raise UnreadableFile("the options of a custom operator are no map")
    width = 1 << (content[-2] & 3)
    begin = buffer.pointed(len(content) - 2 - content[-1], content[-1])
    count = buffer.count(begin - width, width)
    if count > MOST_OPTIONS:
        raise UnreadableFile(f"{count} options of a custom operator, at most {MOST_OPTIONS}")
    keys = buffer.pointed(begin - 3 * width, width)
    key_width = buffer.count(begin - 2 * width, width)
    options = {}
    for number in range(count):
        packed = buffer.count(begin + count * width + number, 1)
        kind, position, value_width = packed >> 2, begin + number * width, width
        if kind in INDIRECT:
            position, value_width = buffer.pointed(position, width), 1 << (packed & 3)
            kind = INDIRECT[kind]
        if kind in FORMS:
            name = buffer.text(buffer.pointed(keys + number * key_width, key_width))
            options[name] = buffer.number(position, value_width, kind)
    return options


def extension_of(node: TfliteNode) -> ModuleType | None:
    """Return the module that defines a custom operator; None where no package does."""
    is_custom = node.kind.startswith(CUSTOM)
    return extensions.extension(node.kind.removeprefix(CUSTOM).strip("'")) if is_custom else None


def extended(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add the layer of such a node. Its constants are the parameters, in the order of their roles."""
    module = extension_of(node)
    assert module is not None
    options = flexible_options(node.custom) if node.custom else {}
    operator = extensions.operator_of(module, node, options)
    places = [place for place in range(len(node.inputs)) if assembly.has(node, place)]
    dynamic = [place for place in places if assembly.is_dynamic(node, place)]
    constants = [place for place in places if place not in dynamic]
    roles = operator.trained([assembly.shape(node, place) for place in dynamic])
    trained = [
        assembly.trained(node, place, role, assembly.constant(node, place))
        for role, place in extensions.by_role(node, roles, constants).items()
    ]
    sources = [assembly.source(node, place) for place in dynamic]
    assembly.add(node, operator, sources=sources, trained=trained)


def detections(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add a layer for the detections, and slices: boxes, classes, scores and their count."""
    options = flexible_options(node.custom)
    for name in (*REQUIRED, *SCALES):
        if name not in options or not isfinite(options[name]):
            raise UnreadableFile(f"{node}: the option {name} is missing, or no number")
    if len(node.outputs) != OUTPUTS:
        raise UnreadableFile(f"{node}: {len(node.outputs)} outputs; expected 4")
    most = max(options["max_detections"], options.get("max_classes_per_detection", 1))
    if not 1 <= most <= MOST or not all(options[name] for name in SCALES):
        raise UnreadableFile(f"{node}: {most:g} detections, or a scale of zero")
    anchors = assembly.constant(node, 2)
    boxes = assembly.tensor(node, 0).dims
    if anchors.ndim != 2 or anchors.shape[1] != 4 or len(boxes) != 3 or boxes[1] != len(anchors):
        raise refusal(node, f"anchors of {anchors.shape} for boxes of {boxes}")
    by_class = int(options.get("detections_per_class", USUAL_BY_CLASS))
    types = assembly.tensor(node, 2).quantization()
    trained = assembly.trained(node, 2, "anchors", anchors)
    if types is not None and assembly.tensor(node, 0).quantization() is None:
        stored = replace(trained.stored, element=Element.FLOAT32, quantization=None)
        trained = Trained(array=dequantized(anchors, types), stored=stored)
    operator = op.Detections(
        anchors=len(anchors),
        count=int(options["max_detections"]),
        classes=int(options["num_classes"]),
        classes_each=int(options.get("max_classes_per_detection", 1)),
        by_class=by_class if options.get("use_regular_nms") else None,
        score_limit=options["nms_score_threshold"],
        overlap_limit=options["nms_iou_threshold"],
        scales=(options["y_scale"], options["x_scale"], options["h_scale"], options["w_scale"]),
    )
    sources = [assembly.source(node, index) for index in (0, 1)]
    joined = assembly.add_inner(node, operator, sources, [trained])
    for number, (begin, dims) in enumerate(operator.pieces.values()):
        piece = op.Slice(axis=0, start=begin, stop=begin + prod(dims))
        steps = [piece] if len(dims) == 1 else [piece, op.Reshape(dims=dims)]
        assembly.add(node, *steps, sources=[joined], output=number, dims=dims)


CONVERTERS: Mapping[str, Converter] = {"CUSTOM:'TFLite_Detection_PostProcess'": detections}
