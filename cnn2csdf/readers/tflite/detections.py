"""The detections at the end of a single-shot detector of a TensorFlow Lite graph, as layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import isfinite, prod

from cnn2csdf import operators as op
from cnn2csdf.dtypes import Element
from cnn2csdf.integers import dequantized
from cnn2csdf.readers.tflite.assembly import Converter, TfliteAssembly, Trained, refusal
from cnn2csdf.readers.tflite.flexible_options import flexible_options
from cnn2csdf.readers.tflite.model_file import TfliteNode
from csdf.errors import UnreadableFile

REQUIRED = ("max_detections", "num_classes", "nms_score_threshold", "nms_iou_threshold")
OUTPUTS = 4  # boxes, classes, scores, count
SCALES = ("y_scale", "x_scale", "h_scale", "w_scale")
MOST = 2**20  # detections; the usual count is 10 to 100
USUAL_BY_CLASS = 100


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
