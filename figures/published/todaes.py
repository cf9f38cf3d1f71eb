"""The numbers that TODAES 2022 prints: Tables 6.4 to 6.8.

Source: Minakova and Stefanov, Memory-Throughput Trade-off for CNN-based Applications at the Edge,
ACM TODAES 28(1), 2022; numbers of tables are those of chapter 6 of Minakova's thesis.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

CHROMOSOME = "0 0 1 1 1 | 0 0 0 0"  # Table 6.4: of Table 6.3's phases
PROPERTIES = (  # Table 6.5: [65], [76], theirs
    ("reuses buffers", "no", "yes", "yes"),
    ("works by parts", "yes", "no", "yes"),
    ("knows pipelines", "no", "no", "yes"),
    ("reuses among networks", "no", "no", "yes"),
    ("trade-off", "unbalanced", "no", "balanced"),
)


class Printed(NamedTuple):
    """A row of Table 6.6: MB, and frames a second of each network in order.

    ours: for each constraint, None is the smallest, memory and speeds.
    """

    none: float
    reuse: float
    parts: float
    speeds: Mapping[str, tuple[float, ...]]
    ours: tuple[tuple[int | None, float, tuple[float, ...]], ...]


def _speeds(*each: tuple[float, ...]) -> Mapping[str, tuple[float, ...]]:
    return MappingProxyType(dict(zip(("none", "[76]", "[65]"), each, strict=True)))


TABLE_6_6: Mapping[str, Printed] = MappingProxyType(
    {
        "application 1": Printed(
            58.63, 20.32, 16.2, _speeds((46,), (46,), (40,)),
            ((25, 20.32, (46,)), (15, 14.98, (41,)), (None, 14.90, (40.5,))),
        ),
        "application 2": Printed(
            161.33, 39.14, 42.97, _speeds((168.35,), (168.35,), (98,)),
            ((150, 39.14, (168.35,)), (40, 39.14, (168.35,)), (None, 27.30, (128.5,))),
        ),
        "application 3": Printed(
            61.69, 20.32, 17.38, _speeds((49,), (46,), (43,)),
            ((30, 30, (49,)), (15, 15.92, (43.65,)), (None, 15.92, (43.65,))),
        ),
        "application 4": Printed(
            163.65, 39.14, 44.18, _speeds((170.3,), (168.35,), (98.8,)),
            ((150, 45, (170.3,)), (50, 45, (170.3,)), (None, 31.34, (124.24,))),
        ),
        "application 5": Printed(
            380, 175, 226, _speeds((94, 432, 55), (94, 432, 55), (67, 183, 46)),
            ((200, 175, (94, 432, 55)), (None, 162, (75, 244, 47))),
        ),
        "application 6": Printed(
            625, 291, 184, _speeds((52, 59, 55), (52, 59, 55), (37, 50, 46)),
            ((500, 161, (52, 59, 55)), (None, 155, (41, 54, 49))),
        ),
    }
)  # fmt: skip
NEEDS = (  # Table 6.7: application, its networks, frames a second of each, MB
    ("MobileNet-sequential", ("MobileNetV2",), 75, 8),
    ("ResNet-sequential", ("ResNet-50",), 75, 26),
    ("MobileNet-pipelined", ("MobileNetV2",), 80, 30),
    ("multi-CNN", ("MobileNetV2", "ResNet-50"), 32, 30),
)
PRECISIONS = (  # Table 6.8: name, bytes of an element and of a parameter
    ("baseline", 4, 4),
    ("half", 2, 2),
    ("mixed", 2, 1),
    ("int", 1, 1),
)
