"""YOLOv2 and tiny YOLOv2.

Source: Redmon and Farhadi, YOLO9000: Better, Faster, Stronger, CVPR 2017, table 6 (Darknet-19) and
section 2 (five anchors; finer maps through a 1x1 convolution of 64 filters and a reorganisation,
as in the authors' configuration files yolov2.cfg and yolov2-tiny-voc.cfg).
"""

from __future__ import annotations

from cnn2csdf import operators as op
from cnn2csdf.catalogue.blocks import (
    LEAKY_RELU,
    CatalogueBuilder,
    centred,
    unpadded,
)
from cnn2csdf.network import Network
from csdf.errors import InvalidNetwork

Plan = tuple[tuple[int, int] | None, ...]  # filters and kernel of a convolution; None: a pooling

ANCHORS = 5
DARKNET19: Plan = (
    (32, 3),
    None,
    (64, 3),
    None,
    *((128, 3), (64, 1), (128, 3)),
    None,
    *((256, 3), (128, 1), (256, 3)),
    None,
    *((512, 3), (256, 1), (512, 3), (256, 1), (512, 3)),
    None,
    *((1024, 3), (512, 1), (1024, 3), (512, 1), (1024, 3)),
)
FINE_LAYERS = 17  # Darknet-19 up to its last pooling: maps twice as fine as the last ones
TINY: Plan = ((16, 3), None, (32, 3), None, (64, 3), None, (128, 3), None, (256, 3), None, (512, 3))


STRIDES = 32  # product of the strides of Darknet-19


def _require_multiple(resolution: int) -> None:
    """Refuse a resolution that the strides of Darknet-19 do not divide."""
    if resolution < 1 or resolution % STRIDES:
        raise InvalidNetwork(f"resolution {resolution} is not a positive multiple of {STRIDES}")


def yolo_v2(*, classes: int = 80, resolution: int = 416) -> Network:
    """Return YOLOv2; the output holds 5 boxes of 5 + classes numbers at each place."""
    _require_multiple(resolution)
    builder = CatalogueBuilder("yolo_v2")
    image = builder.input((3, resolution, resolution))
    fine = _planned(builder, image, DARKNET19[:FINE_LAYERS], 0)
    coarse = _planned(builder, fine, DARKNET19[FINE_LAYERS:], FINE_LAYERS)
    for number in (23, 24):
        coarse = _convolved(builder, coarse, f"conv{number}", 1024, 3)
    narrow = _convolved(builder, fine, "conv26", 64, 1)
    reorganised = builder.add(op.SpaceToDepth(block=2, order="darknet"), narrow, name="reorg27")
    joined = builder.add(op.Concatenation(), reorganised, coarse, name="route28")
    _detected(builder, _convolved(builder, joined, "conv29", 1024, 3), "conv30", classes)
    return builder.network()


def yolo_v2_beginning(*, layers: int = 16, resolution: int = 608) -> Network:
    """Return the first layers of YOLOv2: convolutions (with what follows them) and poolings.

    At most the 23 of Darknet-19; 16 are those of Farley and Gerstlauer, MAFAT: Memory-Aware Fusing
    and Tiling of Neural Networks for Accelerated Edge Inference, 2021, table 2.1.
    """
    _require_multiple(resolution)
    if not 1 <= layers <= len(DARKNET19):
        raise InvalidNetwork(f"{layers} layers; YOLOv2 begins with 1 to {len(DARKNET19)}")
    builder = CatalogueBuilder("yolo_v2_beginning")
    image = builder.input((3, resolution, resolution))
    builder.output(_planned(builder, image, DARKNET19[:layers], 0))
    return builder.network()


def tiny_yolo_v2(*, classes: int = 20, resolution: int = 416) -> Network:
    """Return tiny YOLOv2; the output holds 5 boxes of 5 + classes numbers at each place."""
    _require_multiple(resolution)
    builder = CatalogueBuilder("tiny_yolo_v2")
    features = _planned(builder, builder.input((3, resolution, resolution)), TINY, 0)
    dense = op.Window(kernel=(2, 2), padding=(0, 0, 1, 1))
    features = builder.max_pooling(features, "pool11", dense)
    for number in (12, 13):
        features = _convolved(builder, features, f"conv{number}", 1024, 3)
    _detected(builder, features, "conv14", classes)
    return builder.network()


def _planned(builder: CatalogueBuilder, source: str, plan: Plan, first: int) -> str:
    """Layers are numbered from `first`, as in the configuration file."""
    for number, layer in enumerate(plan, start=first):
        if layer is None:
            window = unpadded(2, 2)
            source = builder.max_pooling(source, f"pool{number}", window)
        else:
            source = _convolved(builder, source, f"conv{number}", *layer)
    return source


def _convolved(builder: CatalogueBuilder, source: str, name: str, filters: int, kernel: int) -> str:
    return builder.normalized_convolution(
        source, name, filters, centred(kernel), activation=LEAKY_RELU
    )


def _detected(builder: CatalogueBuilder, source: str, name: str, classes: int) -> None:
    boxes = builder.biased_convolution(
        source, name, ANCHORS * (5 + classes), unpadded(1), activation=None
    )
    builder.output(boxes)
