"""Direct convolution: loops over the sums themselves, without workspace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cnn2csdf.weights import Array
from planners.kernels import convolution_direct as kernels
from planners.primitives.library.primitive import (
    ConvolutionSizes,
    PlainWeights,
    Prepared,
    by_channels,
    by_places,
    compiled,
    contiguous,
)
from planners.primitives.profile import CHW, HWC


def _any(_: ConvolutionSizes) -> bool:
    return True


def _four_filters(sizes: ConvolutionSizes) -> bool:
    return sizes.groups == 1 and sizes.filters % 4 == 0


def _one_group(sizes: ConvolutionSizes) -> bool:
    return sizes.groups == 1


def _depthwise(sizes: ConvolutionSizes) -> bool:
    return sizes.groups == sizes.channels == sizes.filters


def _filters_outside(kernel: Array, _: ConvolutionSizes) -> Array:
    return kernel


def _in_fours(kernel: Array, _: ConvolutionSizes) -> Array:
    filters, channels, rows, columns = kernel.shape
    return kernel.reshape(filters // 4, 4, channels, rows, columns).transpose(0, 2, 3, 4, 1)


def _filters_inside(kernel: Array, sizes: ConvolutionSizes) -> Array:
    """(rows, columns, channels, filters of a group)."""
    _, channels, rows, columns = kernel.shape
    grouped = kernel.reshape(sizes.groups, sizes.group_filters, channels, rows, columns)
    inside = grouped.transpose(3, 4, 0, 2, 1)
    return inside.reshape(rows, columns, sizes.channels, sizes.group_filters)


def _channels_inside(kernel: Array, _: ConvolutionSizes) -> Array:
    return kernel[:, 0].transpose(1, 2, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Direct(PlainWeights):
    """A kernel that loops in one order.

    view: how the kernel indexes maps. arrange: how it wants its weights.
    """

    name: str
    input_layout: str
    output_layout: str
    loops: Callable[..., None]
    view: Callable[[Array, str], Array]
    arrange: Callable[[Array, ConvolutionSizes], Array]
    condition: Callable[[ConvolutionSizes], bool] = _any

    def applies(self, sizes: ConvolutionSizes) -> bool:
        return self.condition(sizes)

    def workspace_bytes(self, _: ConvolutionSizes) -> int:
        return 0

    def prepare(self, sizes: ConvolutionSizes, kernel: Array) -> Prepared:
        return contiguous(self.arrange(kernel, sizes))

    def run(
        self,
        sizes: ConvolutionSizes,
        source: Array,
        prepared: Prepared,
        _: Array,
        output: Array,
    ) -> None:
        compiled(self.loops, sizes.largest)(
            self.view(source, self.input_layout),
            prepared,
            sizes.steps,
            self.view(output, self.output_layout),
        )


def _by_maps(name: str, loops: Callable[..., None], source: str, **more: Any) -> Direct:
    arrange = more.pop("arrange", _filters_outside)
    return Direct(
        name=name,
        input_layout=source,
        output_layout=CHW,
        loops=loops,
        view=by_channels,
        arrange=arrange,
        **more,
    )


def _by_places(name: str, loops: Callable[..., None], source: str, **more: Any) -> Direct:
    arrange = more.pop("arrange", _filters_inside)
    return Direct(
        name=name,
        input_layout=source,
        output_layout=HWC,
        loops=loops,
        view=by_places,
        arrange=arrange,
        **more,
    )


DIRECT = (
    _by_maps("direct, map by map", kernels.by_maps, CHW),
    _by_maps("direct, row by row", kernels.by_rows, CHW),
    _by_maps("direct, row by row", kernels.by_rows, HWC),
    _by_maps("direct, rows of all filters", kernels.by_rows_of_all_filters, CHW),
    *(
        _by_maps(
            "direct, four filters",
            kernels.by_four_filters,
            source,
            arrange=_in_fours,
            condition=_four_filters,
        )
        for source in (CHW, HWC)
    ),
    *(_by_places("direct, place by place", kernels.by_places, source) for source in (HWC, CHW)),
    *(
        _by_places("direct, four places", kernels.by_four_places, source, condition=_one_group)
        for source in (HWC, CHW)
    ),
    _by_places(
        "direct, depthwise",
        kernels.depthwise_by_places,
        HWC,
        arrange=_channels_inside,
        condition=_depthwise,
    ),
)
