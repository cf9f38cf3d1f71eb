"""The detections at the end of a single-shot detector of a TensorFlow Lite graph, as layers."""

from __future__ import annotations

from math import isfinite

from cnn2csdf import operators as op
from cnn2csdf.readers.tflite.assembly import Assembly, refusal
from cnn2csdf.readers.tflite.flexible_options import flexible_options
from cnn2csdf.readers.tflite.model_file import Node
from csdf.errors import UnreadableFile

REQUIRED = ("max_detections", "num_classes", "nms_score_threshold", "nms_iou_threshold")
SCALES = ("y_scale", "x_scale", "h_scale", "w_scale")
MOST = 2**20  # detections; the usual count is 10 to 100
USUAL_BY_CLASS = 100


def detections(node: Node, assembly: Assembly) -> None:
    """Add a layer for each output: boxes, classes, scores and the count of detections."""
    options = flexible_options(node.custom)
    for name in (*REQUIRED, *SCALES):
        if name not in options or not isfinite(options[name]):
            raise UnreadableFile(f"{node}: the option {name} is missing, or no number")
    if len(node.outputs) != len(op.DETECTIONS):
        raise UnreadableFile(f"{node}: {len(node.outputs)} outputs; expected 4")
    most = max(options["max_detections"], options.get("max_classes_per_detection", 1))
    if not 1 <= most <= MOST or not all(options[name] for name in SCALES):
        raise UnreadableFile(f"{node}: {most:g} detections, or a scale of zero")
    anchors = assembly.constant(node, 2)
    boxes = assembly.tensor(node, 0).dims
    if anchors.ndim != 2 or anchors.shape[1] != 4 or len(boxes) != 3 or boxes[1] != len(anchors):
        raise refusal(node, f"anchors of {anchors.shape} for boxes of {boxes}")
    by_class = int(options.get("detections_per_class", USUAL_BY_CLASS))
    sources = [assembly.source(node, index) for index in (0, 1)]
    for number, gives in enumerate(op.DETECTIONS):
        operator = op.Detections(
            gives=gives,
            count=int(options["max_detections"]),
            classes=int(options["num_classes"]),
            classes_each=int(options.get("max_classes_per_detection", 1)),
            by_class=by_class if options.get("use_regular_nms") else None,
            score_limit=options["nms_score_threshold"],
            overlap_limit=options["nms_iou_threshold"],
            scales=(
                options["y_scale"],
                options["x_scale"],
                options["h_scale"],
                options["w_scale"],
            ),
        )
        shape = operator.output_shape([assembly.builder.shape(source) for source in sources])
        assembly.add(
            node,
            operator,
            sources=sources,
            trained=[assembly.trained(node, 2, "anchors", anchors)],
            output=number,
            dims=shape.dims,
        )
