"""Operators of TensorFlow Lite files that are no part of its schema, and whose source is public."""

import struct
from contextlib import suppress

import numpy as np
import pytest

from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.readers.tflite.reader import parse_tflite
from csdf.errors import CsdfError, UnreadableFile
from tests.cnn2csdf.readers.tflite_models import Tensor, constant, one_node

SAME, VALID = 1, 2
TRANSPOSED = "CUSTOM:Convolution2DTransposeBias"


def scattered(maps, kernel, bias, stride, is_same):
    """Each pixel times each filter, added to the result one by one, as MediaPipe computes."""
    height, width, _ = maps.shape
    filters, rows, columns, _ = kernel.shape
    trims = [
        max(0, size - (length - 1) % step - 1) if is_same else 0
        for size, length, step in ((rows, height, stride[0]), (columns, width, stride[1]))
    ]
    sizes = [
        step * (length - 1) + size - trim
        for size, length, step, trim in zip(
            (rows, columns), (height, width), stride, trims, strict=True
        )
    ]
    result = np.zeros((*sizes, filters)) + bias
    for y, x in np.ndindex(height, width):
        for j, i in np.ndindex(rows, columns):
            row = y * stride[0] - trims[0] // 2 + j
            column = x * stride[1] - trims[1] // 2 + i
            if 0 <= row < sizes[0] and 0 <= column < sizes[1]:
                result[row, column] += kernel[:, j, i] @ maps[y, x]
    return result


@pytest.mark.parametrize("seed", range(20))
def test_the_transposed_convolution_of_mediapipe_gives_sums_of_scattered_products(seed):
    random = np.random.default_rng(seed)
    draw = lambda low, high: int(random.integers(low, high + 1))  # noqa: E731
    stride, is_same = (draw(1, 3), draw(1, 3)), bool(draw(0, 1))
    maps = random.integers(-3, 4, (draw(1, 5), draw(1, 5), draw(1, 3)))
    kernel = random.integers(-3, 4, (draw(1, 3), draw(1, 4), draw(1, 4), maps.shape[2]))
    kernel = kernel[:, : max(stride[0], kernel.shape[1]), : max(stride[1], kernel.shape[2])]
    if kernel.shape[1] < stride[0] or kernel.shape[2] < stride[1]:
        stride = (min(stride[0], kernel.shape[1]), min(stride[1], kernel.shape[2]))
    bias = random.integers(-3, 4, len(kernel))
    expected = scattered(maps, kernel, bias, stride, is_same)
    content = one_node(
        TRANSPOSED,
        [Tensor("x", (1, *maps.shape)), constant("w", kernel.astype(np.float32)),
         constant("b", bias.astype(np.float32))],
        Tensor("y", (1, *expected.shape)),
        custom=struct.pack("<iii", SAME if is_same else VALID, stride[1], stride[0]),
    )  # fmt: skip
    model = parse_tflite(content, "a", with_weights=True)
    (result,) = run_layer_by_layer(model, {"x": np.moveaxis(maps, 2, 0)}).values()
    assert np.array_equal(np.moveaxis(result, 0, 2), expected)


def test_options_that_are_too_short_are_refused_by_their_size():
    tensors = [Tensor("x", (1, 2, 2, 1)), constant("w", np.ones((1, 2, 2, 1), np.float32))]
    content = one_node(TRANSPOSED, tensors, Tensor("y", (1, 4, 4, 1)), custom=b"\1\0\0\0")
    with pytest.raises(UnreadableFile, match=r"4 bytes of options; expected 12"):
        parse_tflite(content, "a")


DETECTED = "CUSTOM:TFLite_Detection_PostProcess"


def options_of(**values):
    """Numbers by name, as a FlexBuffer."""
    flexbuffers = pytest.importorskip("flatbuffers.flexbuffers")
    builder = flexbuffers.Builder()
    with builder.Map():
        for name, value in values.items():
            (builder.Float if isinstance(value, float) else builder.Int)(name, value)
    return bytes(builder.Finish())


def detection_case(seed):
    """A file of detections only, and its options."""
    random = np.random.default_rng(seed)
    count, classes = int(random.integers(1, 30)), int(random.integers(1, 4))
    is_regular, background = bool(seed % 2), int(random.integers(0, 2))
    values = {
        "max_detections": int(random.integers(1, 12)),
        "max_classes_per_detection": 1 if is_regular else int(random.integers(1, 3)),
        "detections_per_class": int(random.integers(1, 6)),
        "use_regular_nms": int(is_regular),
        "nms_score_threshold": float(np.float32(random.uniform(0, 0.5))),
        "nms_iou_threshold": float(np.float32(random.uniform(0.1, 0.9))),
        "num_classes": classes,
        "y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0,
    }  # fmt: skip
    anchors = random.uniform(0.1, 1, (count, 4)).astype(np.float32)
    tensors = [
        Tensor("boxes", (1, count, 4)),
        Tensor("scores", (1, count, classes + background)),
        constant("anchors", anchors),
    ]
    outputs = [Tensor(name, ()) for name in ("b", "c", "s", "n")]
    content = one_node(DETECTED, tensors, outputs, custom=options_of(**values))
    boxes = random.standard_normal((count, 4)).astype(np.float32)
    scores = random.uniform(0, 1, (count, classes + background)).astype(np.float32)
    return content, values, boxes, scores, anchors


def overlap(first, second):
    height = max(min(first[2], second[2]) - max(first[0], second[0]), 0)
    width = max(min(first[3], second[3]) - max(first[1], second[1]), 0)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (first, second)]
    return height * width / (sum(areas) - height * width) if min(areas) > 0 else 0


def naive_detections(values, boxes, scores, anchors):
    """Box, class and score of each detection, by loops over all pairs."""
    y, x, h, w = anchors.T.astype(float)
    rows, columns = boxes[:, 0] / 10 * h + y, boxes[:, 1] / 10 * w + x
    high, wide = 0.5 * np.exp(boxes[:, 2] / 5.0) * h, 0.5 * np.exp(boxes[:, 3] / 5.0) * w
    corners = np.stack([rows - high, columns - wide, rows + high, columns + wide], 1)
    scores = scores[:, scores.shape[1] - values["num_classes"] :]

    def chosen(column, most):
        kept = []
        for place in sorted(range(len(column)), key=lambda place: -column[place]):
            clear = all(
                overlap(corners[place], corners[other]) <= values["nms_iou_threshold"]
                for other in kept
            )
            if column[place] >= values["nms_score_threshold"] and clear and len(kept) < most:
                kept.append(place)
        return kept

    if not values["use_regular_nms"]:
        each = min(values["max_classes_per_detection"], values["num_classes"])
        return [
            (corners[place], kind, scores[place, kind])
            for place in chosen(scores.max(1), values["max_detections"])
            for kind in np.argsort(-scores[place], kind="stable")[:each]
        ]
    pairs = [
        (corners[place], kind, scores[place, kind])
        for kind in range(values["num_classes"])
        for place in chosen(scores[:, kind], values["detections_per_class"])
    ]
    return sorted(pairs, key=lambda pair: -pair[2])[: values["max_detections"]]


@pytest.mark.parametrize("seed", range(30))
def test_detections_are_those_of_loops_over_all_pairs(seed):
    content, values, boxes, scores, anchors = detection_case(seed)
    model = parse_tflite(content, "a", with_weights=True)
    frame = {"boxes": boxes, "scores": scores}
    found, classes, best, count = run_layer_by_layer(model, frame).values()
    expected = naive_detections(values, boxes, scores, anchors)
    each = min(values["max_classes_per_detection"], values["num_classes"])
    assert count.tolist() == [len(expected) // (1 if values["use_regular_nms"] else each)]
    gap = 1 if values["use_regular_nms"] else values["max_classes_per_detection"] // each
    for number, (corners, kind, score) in zip(range(0, len(best), gap), expected, strict=False):
        assert np.allclose(found[number], corners, atol=1e-5)
        assert (classes[number], best[number]) == (kind, score)
    assert not found[len(expected) * gap :].any()


@pytest.mark.parametrize("cut", range(0, 120, 7))
def test_options_of_detections_that_are_damaged_end_in_one_message(cut):
    content, values, *_ = detection_case(0)
    options = options_of(**values)
    random = np.random.default_rng(cut)
    damaged = bytearray(options)
    damaged[int(random.integers(len(options)))] ^= int(random.integers(1, 256))
    damaged[-1 - cut % 3] ^= int(random.integers(1, 256))
    begin = content.find(options)
    content = content[:begin] + bytes(damaged) + content[begin + len(options) :]
    with suppress(CsdfError):
        parse_tflite(content, "a")
