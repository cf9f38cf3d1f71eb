"""Everything the project raises on purpose; each error carries its evidence, in words."""

from __future__ import annotations

from fractions import Fraction
from os import PathLike

from csdf.status import Reason, told


def counted(count: int | Fraction, noun: str) -> str:
    """Return the count with its noun, in the plural for all but one."""
    return f"{count} {noun}{plural(count)}"


def plural(count: int | Fraction) -> str:
    """Return the s of a noun in the plural: of all counts but one."""
    return "" if count == 1 else "s"


class CsdfError(Exception):
    """The root of all errors: catch it to catch every refusal of this project."""


class Suspicious(UserWarning):
    """Something that can be used, but that may not mean what its author thinks."""


class UncountedSizes(Suspicious):
    """Buffer sizes in a file that are not capacities of the graph; channels: how many have one."""

    def __init__(self, message: str, channels: int) -> None:
        super().__init__(message)
        self.channels = channels


class InvalidArgument(CsdfError, ValueError):
    """A value that a public function cannot take; the message names function and parameter."""


class InvalidGraph(CsdfError):
    """A graph that breaks a rule of the model."""


class NotRead(CsdfError, TypeError):
    """A path, or another value, where a function wants what a reader makes of a file."""

    def __init__(self, found: object, *, expected: str, reader: str) -> None:
        if isinstance(found, str | PathLike):
            path = str(found)
            super().__init__(
                f"expected a {expected}, found the path {path!r}; read it first: {reader}({path!r})"
            )
            return
        kind, part = type(found).__name__, expected.lower()  # a Model has a network
        held = type(getattr(found, part, None)).__name__ == expected
        hint = f"give its {part}, .{part}" if held else f"{reader} makes one of a file"
        super().__init__(f"expected a {expected}, found a {kind}; {hint}")


class InconsistentGraph(CsdfError):
    """A graph without a repetition vector.

    channel: the channel that closes the contradiction; producer, consumer: its actors;
    produced, consumed: tokens an iteration moves by the rates of all channels looked at before.
    """

    def __init__(
        self, channel: str, producer: str, consumer: str, produced: int, consumed: int
    ) -> None:
        self.channel = channel
        self.producer = producer
        self.consumer = consumer
        self.produced = produced
        self.consumed = consumed
        super().__init__(
            f"inconsistent: over one iteration {producer!r} produces {counted(produced, 'token')} "
            f"on channel {channel!r}, but {consumer!r} consumes {consumed}"
        )


class UnreadableFile(CsdfError):
    """A file that is not what its reader expects; the message names the file and the line."""


class MissingFile(UnreadableFile, FileNotFoundError):
    """A missing file: the same error as from `open`, for programs that tell it apart."""


class UnwritableFile(CsdfError):
    """A file that could not be written; nothing was left in its place."""


class Deadlocked(CsdfError):
    """A graph that deadlocks where a property of live graphs was asked for."""


class StuckStart(Deadlocked):
    """A graph that deadlocks before all of its actors have done with their initial phases."""

    def __init__(self, circle: str, where: str = "") -> None:
        self.circle = circle
        super().__init__(f"{where}deadlock in the initial phases: {circle}")


class InvalidSchedule(CsdfError):
    """A schedule that breaks the rules of its graph."""


class GaveUp(CsdfError):
    """An analysis that ended without an answer because its limit was reached.

    reason: why, in words or as a value. low, high: what was proved until then, in the units of the
    user; None where nothing was.
    """

    def __init__(
        self, reason: Reason | str, *, low: Fraction | None = None, high: Fraction | None = None
    ) -> None:
        self.reason: Reason = told(reason) if isinstance(reason, str) else reason
        self.low = low
        self.high = high
        super().__init__(str(reason))


class NoRecurrence(GaveUp):
    """An execution in which no state recurred within its limit."""


class InvalidNetwork(CsdfError):
    """A network, layer or operator that breaks a rule of the model."""


class UnsupportedOperator(CsdfError):
    """An operator that a reader does not know, or knows without what this node asks of it."""


class ExecutionError(CsdfError):
    """A run that left its schedule or its buffers: an access outside, or an order that cannot be."""


class InternalError(Exception):
    """An answer of this program that its own checker refuses: a fault of the program, not of its input.

    No CsdfError: a command ends with exit code 70 and asks for a report.
    """


class InvalidPlan(CsdfError):
    """A memory plan, or the problem it is for, that breaks a rule of the model."""
