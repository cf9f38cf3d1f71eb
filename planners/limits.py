"""Memories of a device: RAM for buffers, flash for trained parameters, or one memory for both."""

from __future__ import annotations

from dataclasses import dataclass

from csdf.words import bytes_in_words


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bytes that a network must fit; None where nothing is said.

    ram: of all buffers. flash: of all parameters, which then lie in no RAM. memory: of both together,
    as the papers count.
    """

    ram: int | None = None
    flash: int | None = None
    memory: int | None = None

    @property
    def is_given(self) -> bool:
        """Whether there is any limit."""
        return (self.ram, self.flash, self.memory) != (None, None, None)

    def room(self, parameters: int, stored: int) -> int | None:
        """Return the bytes left for buffers beside so many bytes of parameters; None: no limit.

        stored: bytes that they take in flash, as C has them. Below 0 where the parameters alone are
        too large.
        """
        found = [] if self.ram is None else [self.ram]
        if self.memory is not None:
            found.append(self.memory - parameters)
        if self.flash is not None and stored > self.flash:
            found.append(self.flash - stored)
        return min(found, default=None)

    def __str__(self) -> str:
        parts = [
            f"{bytes_in_words(size)} {what}"
            for size, what in (
                (self.memory, "for buffers and parameters"),
                (self.ram, "of RAM for buffers"),
                (self.flash, "of flash for parameters"),
            )
            if size is not None
        ]
        return ", ".join(parts) or "no limit"
