"""Direct convolution: loops over the sums themselves, without workspace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cnn2csdf.weights import Array
from planners.kernels import convolution_direct as kernels
from planners.primitives.library.primitive import (
    ConvolutionSizes,
    Primitive,
    by_channels,
    by_pixels,
    compiled,
)
from planners.primitives.profile import CHW, HWC


@dataclass(frozen=True, slots=True, kw_only=True)
class Direct(Primitive):
    """A kernel that loops in one order.

    loops: the kernel. view: returns a map in the layout of the kernel. arrange: returns the weights in
    the layout of the kernel. condition: on the convolution; None: any.
    """

    loops: Callable[..., None]
    view: Callable[[Array, str], Array]
    arrange: Callable[[Array, ConvolutionSizes], Array]
    condition: Callable[[ConvolutionSizes], bool] | None

    def applies(self, sizes: ConvolutionSizes) -> bool:
        return self.condition is None or self.condition(sizes)

    def prepare(self, sizes: ConvolutionSizes, kernel: Array) -> Array:
        return np.ascontiguousarray(self.arrange(kernel, sizes))

    def run(
        self, sizes: ConvolutionSizes, source: Array, kernel: Array, workspace: Array, output: Array
    ) -> None:
        compiled(self.loops, sizes.largest)(
            self.view(source, self.input_layout),
            kernel,
            sizes.steps,
            self.view(output, self.output_layout),
        )


def _filters_outermost(kernel: Array, _: ConvolutionSizes) -> Array:
    """Return the weights as they are: (filters, channels, rows, columns)."""
    return kernel


def _in_fours(kernel: Array, _: ConvolutionSizes) -> Array:
    """Return (filters / 4, channels, rows, columns, 4 filters)."""
    filters, channels, rows, columns = kernel.shape
    return kernel.reshape(filters // 4, 4, channels, rows, columns).transpose(0, 2, 3, 4, 1)


def _filters_innermost(kernel: Array, sizes: ConvolutionSizes) -> Array:
    """Return (rows, columns, channels, filters of a group)."""
    _, channels, rows, columns = kernel.shape
    grouped = kernel.reshape(sizes.groups, sizes.group_filters, channels, rows, columns)
    innermost = grouped.transpose(3, 4, 0, 2, 1)
    return innermost.reshape(rows, columns, sizes.channels, sizes.group_filters)


def _channels_innermost(kernel: Array, _: ConvolutionSizes) -> Array:
    """Return (rows, columns, channels) of a depthwise convolution."""
    return kernel[:, 0].transpose(1, 2, 0)


def _four_filters(sizes: ConvolutionSizes) -> bool:
    return sizes.groups == 1 and sizes.filters % 4 == 0


def _one_group(sizes: ConvolutionSizes) -> bool:
    return sizes.groups == 1


def _depthwise(sizes: ConvolutionSizes) -> bool:
    return sizes.groups == sizes.channels == sizes.filters


DIRECT = tuple(
    Direct(
        name=f"direct, {name}",
        input_layout=source,
        output_layout=target,
        loops=loops,
        view=by_channels if target == CHW else by_pixels,
        arrange=arrange,
        condition=condition,
    )
    for name, loops, sources, target, arrange, condition in (
        ("map by map", kernels.by_maps, (CHW,), CHW, _filters_outermost, None),
        ("row by row", kernels.by_rows, (CHW, HWC), CHW, _filters_outermost, None),
        (
            "rows of all filters",
            kernels.by_rows_of_all_filters,
            (CHW,),
            CHW,
            _filters_outermost,
            None,
        ),
        ("four filters", kernels.by_four_filters, (CHW, HWC), CHW, _in_fours, _four_filters),
        ("place by place", kernels.by_places, (HWC, CHW), HWC, _filters_innermost, None),
        ("four places", kernels.by_four_places, (HWC, CHW), HWC, _filters_innermost, _one_group),
        ("depthwise", kernels.depthwise_by_places, (HWC,), HWC, _channels_innermost, _depthwise),
    )
    for source in sources
)
