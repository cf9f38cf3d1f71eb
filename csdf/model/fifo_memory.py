"""Costs of a FIFO as a memory of an FPGA: LUTs or block RAMs, by its depth and width.

Up to 256 words a FIFO is a shift register in LUTs; beyond it takes block RAMs of 18 kbit, with a power
of two of words, at most 32768 in one memory. Words are padded to whole bytes. The numbers are the
estimates of FINN's library: custom_op/fpgadataflow/streamingfifo.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

MOST_SHIFTED = 256  # words in a shift register
MOST_VENDOR = 32768  # words in one memory
BLOCK_SHAPES = ((1, 16384), (2, 8192), (4, 4096), (9, 2048), (18, 1024), (36, 512))  # bits, words


def padded(bits: int) -> int:
    """Return the bits of a word on the wire: whole bytes."""
    return -(-bits // 8) * 8


def address_luts(depth: int) -> int:
    """Return the LUTs that count up to a depth, at both ends."""
    return 2 * (depth - 1).bit_length()


def shift_luts(depth: int, bits: int) -> int:
    """Return the LUTs of a shift register of so many words, whatever its depth."""
    return -(-depth // 32) * -(-padded(bits) // 2) + address_luts(max(1, depth))


def blocks(depth: int, width: int) -> int:
    """Return the block RAMs of 18 kbit for a memory: the widest shape that holds it, side by side.

    width: of a word on the wire.
    """
    for bits, words in BLOCK_SHAPES[:-1]:
        if width <= bits or (bits == BLOCK_SHAPES[-2][0] and depth > BLOCK_SHAPES[-1][1]):
            return -(-depth // words) * -(-width // bits)
    bits, words = BLOCK_SHAPES[-1]
    return -(-depth // words) * -(-width // bits)


def fifo_blocks(depth: int, bits: int) -> int:
    """Return the block RAMs of a FIFO: none up to 256 words, then those of a power of two of words."""
    whole, rest = divmod(depth, MOST_VENDOR)
    found = whole * blocks(MOST_VENDOR, padded(bits))
    if rest > MOST_SHIFTED:
        found += blocks(1 << (rest - 1).bit_length(), padded(bits))
    return found


UNITS: Mapping[str, str] = {"bram": "block RAMs of 18 kbit", "lut": "LUTs of shift registers"}
OBJECTIVES: Mapping[str, Callable[[int, int], int]] = {"bram": fifo_blocks, "lut": shift_luts}
