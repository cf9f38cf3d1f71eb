"""Windows over images: which word of the input each step of a sliding window takes."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from planners.fifo.finn.nodes import Node
from planners.fifo.timing.cluster import Numbers, counting, require_few


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A window that slides over an image, row by row; a pixel has `folds` words."""

    image: tuple[int, int]
    made: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    folds: int
    is_depthwise: bool
    is_parallel: bool

    @property
    def read(self) -> int:
        """Words read in a frame."""
        return prod(self.image) * self.folds

    @property
    def written(self) -> int:
        """Words written in a frame."""
        return prod(self.made) * self.folds * (1 if self.is_parallel else prod(self.kernel))

    @property
    def span(self) -> int:
        """Words from the first to the last of a window, both counted."""
        rows = (self.kernel[0] - 1) * self.dilation[0] * self.image[1]
        return (rows + (self.kernel[1] - 1) * self.dilation[1] + 1) * self.folds

    @property
    def room(self) -> int:
        """Words that the buffer holds. Source: get_buffer_depth of the RTL generator."""
        size = prod(self.kernel)
        across = max(0, self.stride[1] - 1 - size) * self.folds
        down = max(0, (self.stride[0] - 1) * self.image[1] - size) * self.folds
        return self.span + across + down

    def starts(self) -> Numbers:
        """Return the first word of each window."""
        # With one window along an axis its stride moves nothing, and may be of any size.
        down, across = map(min, self.stride, self.image)
        rows = counting(self.made[0]) * down * self.image[1]
        columns = counting(self.made[1]) * across
        return np.ravel(rows[:, None] + columns[None, :]) * self.folds

    def last_words(self) -> Numbers:
        """Return the word that completes each window, for each fold of it."""
        end = (self.span // self.folds - 1) * self.folds
        return np.ravel(self.starts()[:, None] + end + counting(self.folds)[None, :])

    def fetches(self) -> tuple[Numbers, Numbers]:
        """Return the word of each step, and the first that is still needed after it."""
        inside = self._inside()
        starts = self.starts()
        fetched = np.ravel(starts[:, None] + inside[None, :])
        following = np.append(starts[1:], starts[-1] + self.span - 1)
        if self.is_depthwise and self.folds > 1:
            return fetched, self._depthwise_needs(starts, following)
        return fetched, np.repeat(following, len(inside))

    def _inside(self) -> Numbers:
        """Places of a window's words after its first, in the order in which they are fetched."""
        down, across = map(min, self.dilation, self.image)  # likewise with a kernel of one
        rows = counting(self.kernel[0]) * down * self.image[1] * self.folds
        columns = counting(self.kernel[1]) * across * self.folds
        pixels = np.ravel(rows[:, None] + columns[None, :])
        folds = counting(self.folds)
        if self.is_depthwise:
            return np.ravel(folds[:, None] + pixels[None, :])
        return np.ravel(pixels[:, None] + folds[None, :])

    def _depthwise_needs(self, starts: Numbers, following: Numbers) -> Numbers:
        """Return the first word that is still needed after each step, where folds come one by one.

        The first step of a fold reads its first word for the last time, and so frees it. After the last
        fold only words of the following window are needed.
        """
        fold = np.repeat(counting(self.folds), prod(self.kernel))
        within = starts[:, None] + (fold + 1)[None, :]
        within[:, fold == self.folds - 1] = following[:, None]
        return np.ravel(within)


def window_of(node: Node) -> Window:
    """Return the window of a ConvolutionInputGenerator."""
    image, kernel = node.wholes("IFMDim", 2), node.wholes("ConvKernelDim", 2)
    stride, dilation = node.wholes("Stride", 2), node.wholes("Dilation", 2)
    made = node.wholes("OFMDim", 2)
    for axis in range(2):
        reach = (kernel[axis] - 1) * dilation[axis] + (made[axis] - 1) * stride[axis] + 1
        if reach > image[axis]:
            raise node.refusal(f"windows reach to {reach} of {image[axis]} pixels along an axis")
    return Window(
        image=(image[0], image[1]),
        made=(made[0], made[1]),
        kernel=(kernel[0], kernel[1]),
        stride=(stride[0], stride[1]),
        dilation=(dilation[0], dilation[1]),
        folds=node.divided(node.whole("IFMChannels"), "SIMD", "IFMChannels"),
        is_depthwise=bool(node["depthwise"]),
        is_parallel=bool(node["parallel_window"]) or prod(kernel) == 1,
    )


def inner_positions(node: Node) -> Numbers:
    """Return for each word that an FMPadding writes whether it is one that it read."""
    size = node.wholes("ImgDim", 2)
    folds = node.divided(node.whole("NumChannels"), "SIMD", "NumChannels")
    frames = node.vectors if node.has("numInputVectors") else 1
    if node.operator == "FMPaddingPixel":
        stride = node.wholes("Stride", 2)
        grown = ((one - 1) * step + 1 for one, step in zip(size, stride, strict=True))
        require_few(prod(grown) * folds * frames)
        axes = [
            np.arange((one - 1) * step + 1) % step == 0
            for one, step in zip(size, stride, strict=True)
        ]
    else:
        top, left, bottom, right = node.wholes("Padding", 4, least=0)
        require_few((size[0] + top + bottom) * (size[1] + left + right) * folds * frames)
        axes = [
            np.pad(np.ones(one, dtype=bool), edges)
            for one, edges in zip(size, ((top, bottom), (left, right)), strict=True)
        ]
    image = np.ravel(axes[0][:, None] & axes[1][None, :])
    return np.tile(np.repeat(image, folds), frames)


def resized(node: Node) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the sizes before and after an UpsampleNearestNeighbour."""
    if node.has("HI"):
        before = node.whole("HI"), node.whole("WI")
        after = node.whole("HO"), node.whole("WO")
    else:
        small, large = node.wholes("IFMDim", 2), node.wholes("OFMDim", 2)
        before, after = (small[0], small[1]), (large[0], large[1])
    if any(large % small for small, large in zip(before, after, strict=True)):
        raise node.refusal(f"{after} is not a multiple of {before}")
    return before, after
