"""Detections of a single-shot detector: boxes by their anchors, and non-maximum suppression.

Described from tensorflow/tensorflow, tensorflow/lite/kernels/detection_postprocess.cc, the operator
TFLite_Detection_PostProcess of TensorFlow Lite.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cnn2csdf.arrays import Array
from cnn2csdf.integers import dequantized
from cnn2csdf.operators.operator import Operator
from cnn2csdf.part import OutputRows, RealRows, Types, whole_tensor
from cnn2csdf.shape import Dims, Shape
from csdf.errors import InvalidNetwork

__all__ = ["Detections"]

# Numbers of a box (top, left, bottom, right) and of an anchor (centre row, column, height, width).
COORDINATES = 4


class Detected(NamedTuple):
    """The detections of a frame, the best score first: box, class and score of each.

    boxes_count: number of boxes; there are more rows than boxes if a box has several classes.
    """

    boxes: Array
    classes: Array
    scores: Array
    boxes_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Detections(Operator):
    """The boxes with the best scores that overlap no better box by more than a limit.

    Inputs: offsets of boxes from their anchors, (anchors, 4), and scores, (anchors, classes), where
    classes before the last `classes` are background. Result: one vector; `pieces` tells what of it are
    boxes, classes, scores, and the count of boxes. count: maximum number of boxes. There are two modes:

    - by_class is None: boxes are suppressed by the scores of their best classes, and a box has a row
      for each of its `classes_each` best classes, the best first;
    - else boxes are suppressed class by class, at most `by_class` boxes for each class, and the best
      `count` boxes of all classes have a row each.

    In both modes the result has count * classes_each rows, as in TensorFlow Lite; rows without a
    detection are zero. scales: divisors of the offsets.
    """

    words = "detections"
    has_integer_weights = True
    anchors: int
    count: int
    classes: int
    classes_each: int = 1
    by_class: int | None = None
    score_limit: float = 0.0
    overlap_limit: float = 0.5
    scales: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0)

    def scratch_elements(self, inputs: Sequence[Shape]) -> int:
        # The best score of each anchor; class by class, C reads the scores in the input.
        return self.anchors if self.by_class is None else 0

    def __post_init__(self) -> None:
        if min(self.anchors, self.count, self.classes, self.classes_each) < 1:
            raise InvalidNetwork(
                f"{self.count} detections of {self.classes} classes, {self.classes_each} for each "
                f"box, from {self.anchors} anchors; expected at least 1 of each"
            )

    @property
    def pieces(self) -> Mapping[str, tuple[int, Dims]]:
        """Return where boxes, classes, scores and the count begin, and the dims of each."""
        rows = self.count * self.classes_each
        return {
            "boxes": (0, (rows, COORDINATES)),
            "classes": (COORDINATES * rows, (rows,)),
            "scores": ((COORDINATES + 1) * rows, (rows,)),
            "count": ((COORDINATES + 2) * rows, (1,)),
        }

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        if len(inputs) != 2:
            raise InvalidNetwork(f"detections take two inputs, found {len(inputs)}")
        boxes, scores = (shape.dims for shape in inputs)
        fits = len(boxes) == len(scores) == 2 and boxes[0] == scores[0] == self.anchors
        if not fits or boxes[1] < COORDINATES or scores[1] < self.classes:
            raise InvalidNetwork(
                f"detections of {self.classes} classes from boxes {inputs[0]} and scores {inputs[1]}"
            )
        return (self.pieces["count"][0] + 1,)

    def trained(self, inputs: Sequence[Shape]) -> Mapping[str, Dims]:
        return {"anchors": (self.anchors, COORDINATES)}

    def operations(self, inputs: Sequence[Shape], output: Shape) -> int:
        return inputs[0].elements + inputs[1].elements

    def computed_in_integers(self, part: OutputRows, types: Types) -> Array:
        """Return the detections of the numbers that stored integers stand for."""
        readers = [
            reader if stored is None else RealRows(reader, stored)
            for reader, stored in zip(part.inputs, types.inputs, strict=True)
        ]
        stored = types.weights.get("anchors")
        weights = part.weights
        if stored is not None:
            weights = {"anchors": dequantized(weights["anchors"], stored)}
        return self.computed(part._replace(inputs=readers, weights=weights))

    def computed(self, part: OutputRows) -> Array:
        offsets, scores = (whole_tensor(reader) for reader in part.inputs)
        boxes = self._decoded(offsets, part.weights["anchors"])
        scores = scores[:, scores.shape[1] - self.classes :]
        if self.by_class is None:
            detected = self._by_best_class(boxes, scores)
        else:
            detected = self._class_by_class(boxes, scores, self.by_class)
        result = np.zeros(part.shape.dims, np.float32)
        counts = np.array([detected.boxes_count])
        values = (detected.boxes, detected.classes, detected.scores, counts)
        for (begin, _), array in zip(self.pieces.values(), values, strict=True):
            result[begin : begin + array.size] = array.reshape(-1)
        return result

    def _decoded(self, offsets: Array, anchors: Array) -> Array:
        """Return top, left, bottom and right of each box.

        Centres and sizes are computed in double precision, then corners in single precision.
        """
        numbers = offsets[:, :COORDINATES].astype(np.float64) / np.array(self.scales, np.float32)
        anchors = anchors.astype(np.float64)
        centres = (numbers[:, :2] * anchors[:, 2:] + anchors[:, :2]).astype(np.float32)
        halves = (0.5 * np.exp(numbers[:, 2:]) * anchors[:, 2:]).astype(np.float32)
        return np.concatenate([centres - halves, centres + halves], axis=1)

    def _by_best_class(self, boxes: Array, scores: Array) -> Detected:
        """Suppress boxes by the scores of their best classes."""
        most_each = min(self.classes_each, self.classes)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :most_each]
        best = np.take_along_axis(scores, order, axis=1)
        chosen = self._selected(boxes, best[:, 0], self.count)
        # Of fewer classes than `classes_each` the rest of each box's rows is zero.
        rows = (0, self.classes_each - most_each)
        corners = np.repeat(boxes[chosen, None], most_each, axis=1)
        return Detected(
            np.pad(corners, ((0, 0), rows, (0, 0))).reshape(-1, COORDINATES),
            np.pad(order[chosen], ((0, 0), rows)).reshape(-1).astype(np.float32),
            np.pad(best[chosen], ((0, 0), rows)).reshape(-1),
            len(chosen),
        )

    def _class_by_class(self, boxes: Array, scores: Array, most: int) -> Detected:
        """Suppress the boxes of each class, then take the best of all classes."""
        chosen = [self._selected(boxes, column, most) for column in scores.T]
        places = np.concatenate(chosen)
        classes = np.repeat(np.arange(self.classes), [len(places) for places in chosen])
        order = np.argsort(-scores[places, classes], kind="stable")[: self.count]
        places, classes = places[order], classes[order]
        scores_chosen = scores[places, classes]
        return Detected(boxes[places], classes.astype(np.float32), scores_chosen, len(places))

    def _selected(self, boxes: Array, scores: Array, most: int) -> Array:
        """Return the indices of the best boxes after non-maximum suppression."""
        places = np.flatnonzero(scores >= np.float32(self.score_limit))
        places = places[np.argsort(-scores[places], kind="stable")]
        chosen: list[int] = []
        while len(places) and len(chosen) < most:
            best, places = places[0], places[1:]
            chosen.append(int(best))
            overlaps = _overlaps(boxes[best], boxes[places])
            places = places[~(overlaps > np.float32(self.overlap_limit))]
        return np.array(chosen, np.int64)


def _overlaps(box: Array, boxes: Array) -> Array:
    """Return the shared area of a box and each other box over the area of both together."""
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    area = (box[2] - box[0]) * (box[3] - box[1])
    low, high = np.maximum(box[:2], boxes[:, :2]), np.minimum(box[2:], boxes[:, 2:])
    sides = np.maximum(high - low, np.float32(0))
    shared = sides[:, 0] * sides[:, 1]
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios: Array = shared / (area + areas - shared)
    return np.where((areas > 0) & (area > 0), ratios, np.float32(0))
