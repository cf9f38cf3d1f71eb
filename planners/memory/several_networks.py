"""Several networks in one arena or in the same memories: shared RAM, and sums of flash and time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from math import inf

from cnn2csdf.platforms import STACK
from csdf.arguments import public
from csdf.errors import InvalidPlan
from csdf.status import Status, because
from csdf.units import nanoseconds_in_words
from planners.memory.answer import GIVEN, Fit, FitMethod, FitWhy
from planners.plan.plan import StreamingPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """The best plan of each network, all in the same arena or the same memories.

    For each frame the networks are executed sequentially, unless loaded plans declare that groups of
    several networks may be executed concurrently.

    flash: limit in bytes on the parameters of all networks. longest: limit in nanoseconds on a frame
    of all networks.
    """

    fits: tuple[Fit, ...]
    flash: int | None
    longest: Fraction | None

    def __post_init__(self) -> None:
        plans = [fit.best.plan for fit in self.fits if fit.best is not None]
        if len(plans) == len(self.fits):  # else no network is executed
            require_same_memories(plans)

    @property
    def ram_bytes(self) -> int:
        """Bytes of the arena: the maximum over the networks."""
        return max(fit.shown.ram_bytes for fit in self.fits)

    @property
    def state_bytes(self) -> int:
        """Bytes of the execution states of all networks, which are not shared."""
        return sum(fit.shown.state_bytes for fit in self.fits)

    @property
    def needed_ram(self) -> int:
        """Bytes of RAM: the arena, all execution states, and one stack and reserve."""
        return self.ram_bytes + self.state_bytes + max(map(stack_and_reserve, self.fits))

    @property
    def stage_stack_bytes(self) -> int:
        """Bytes that the stages of the plans add to the stack."""
        return max(fit.shown.stage_stack_bytes for fit in self.fits)

    @property
    def is_concurrent(self) -> bool:
        """Whether groups of two networks may be executed concurrently."""
        labels = [
            {group.concurrent for group in fit.shown.plan.groups} - {None} for fit in self.fits
        ]
        return any(first & second for first, second in combinations(labels, 2))

    @property
    def flash_bytes(self) -> int:
        """Bytes of the parameters of all networks."""
        return sum(fit.flash_bytes for fit in self.fits)

    @property
    def lower_bound(self) -> int:
        """Lower bound on the RAM of any plan in one arena."""
        return max(fit.lower_bound for fit in self.fits)

    @property
    def nanoseconds(self) -> int | None:
        """Predicted time of a frame of each network; None if the time of a network is unknown."""
        times = [fit.shown.nanoseconds for fit in self.fits]
        times_known = [time for time in times if time is not None]
        return sum(times_known) if len(times_known) == len(times) else None

    def _memories_needed(self) -> Iterator[tuple[str, int, int]]:
        """Yield the name and size of each memory, and the bytes of it that the networks need."""
        first, traffic = self.fits[0], self.fits[0].slow
        if traffic is None or first.best is None:
            return
        used = {memory.name: memory.size for memory in first.best.plan.memories}
        for memory in traffic.memories:
            needed = used.get(memory.name, 0)
            if STACK in memory.holds and first.beside is not None:
                needed += max(map(stack_and_reserve, self.fits)) + self.state_bytes
            yield memory.name, memory.size, needed

    @property
    def verdict(self) -> tuple[Status, str]:
        """Whether the networks fit together: a status, and the reason.

        Plans that are together too large or too slow exclude no other plans, unless all are loaded.
        """
        are_loaded = all(fit.least.name == GIVEN for fit in self.fits)
        exceeding = Status.INFEASIBLE if are_loaded else Status.UNKNOWN
        for status in (Status.INFEASIBLE, Status.UNKNOWN):
            for fit in self.fits:
                if fit.status == status:
                    return status, f"{fit.network}: {fit.reason}"
        if self.flash is not None and self.flash_bytes > self.flash:
            return Status.INFEASIBLE, (
                f"the parameters of all need {self.flash_bytes} bytes of flash, "
                f"the limit is {self.flash}"
            )
        ram = self.fits[0].ram
        if ram is not None and self.needed_ram > ram:
            return exceeding, (
                f"with the execution states of all, {self.needed_ram} bytes of RAM are needed, "
                f"the limit is {ram}"
            )
        for name, size, needed in self._memories_needed():
            if needed > size:
                return exceeding, (
                    f"with the states of all networks, {needed} bytes of {name} are needed, "
                    f"its size is {size}"
                )
        time = self.nanoseconds
        if self.longest is not None and (time is None or time > self.longest):
            return exceeding, (
                "too slow: a frame of each network takes "
                f"{'an unknown time' if time is None else nanoseconds_in_words(time)}, "
                f"the limit is {nanoseconds_in_words(int(self.longest))}"
            )
        if self.is_concurrent:
            return Status.FEASIBLE, "the arena that the plans share sets the RAM"
        return Status.FEASIBLE, "the maximum over the networks, plus the states of all"


def within_time(together: Together) -> Together:
    """Return the answer with faster plans, if a frame of each network takes longer than the limit.

    Chosen plans are replaced by the fastest that fit, those with the largest gain first; a plan that
    exceeds the memory of all is skipped. Unchanged if these plans together are too slow.
    """
    longest = together.longest
    times = [fit.best.nanoseconds or 0 for fit in together.fits if fit.best is not None]
    if longest is None or len(times) < len(together.fits) or sum(times) <= longest:
        return together
    fastest = [_fastest(fit) for fit in together.fits]
    gains = [
        time - (method.nanoseconds or time) for time, method in zip(times, fastest, strict=True)
    ]
    faster = together
    for number in sorted(range(len(gains)), key=lambda number: -gains[number]):
        if gains[number] <= 0:
            break
        fits, fit = list(faster.fits), faster.fits[number]
        has_ended_early = fit.reason.kind is FitWhy.LEAST_BY_THEN
        reason = fit.reason if has_ended_early else because(FitWhy.FAST_TOGETHER)
        fits[number] = replace(fit, best=fastest[number], reason=reason)
        candidate = replace(faster, fits=tuple(fits))
        if replace(candidate, longest=None).verdict[0] is Status.FEASIBLE:
            faster = candidate
        if faster.verdict[0] is Status.FEASIBLE:
            return faster
    return together


def _fastest(fit: Fit) -> FitMethod:
    """The fastest plan that fits into the RAM; of equal plans the smallest."""
    methods = (method for method in fit.methods if fit.ram is None or method.needed_ram <= fit.ram)
    return min(methods, key=lambda method: (method.nanoseconds or inf, method.ram_bytes))


def require_same_memories(plans: Sequence[StreamingPlan]) -> None:
    """Raise InvalidPlan if networks that take turns have plans for different memories."""
    for plan in plans[1:]:
        if plan.memories != plans[0].memories:
            raise InvalidPlan(
                f"networks {plans[0].network!r} and {plan.network!r} are planned in different "
                "memories; sequential networks share all memories: plan them in one command"
            )


def stack_and_reserve(fit: Fit) -> int:
    """Bytes of the stack of the plan of a network, and of the reserve."""
    beside = 0 if fit.beside is None else fit.beside.bytes
    return beside + fit.shown.stage_stack_bytes


Replan = Callable[[int, int], Fit]  # the answer for a network, by its number, with bytes of RAM


def within_one_ram(fits: Sequence[Fit], replan: Replan) -> list[Fit]:
    """Return the answers for networks in one arena, each with room for the execution states of all.

    replan: called if the states of the other networks leave too few bytes.
    """
    states = [fit.shown.state_bytes for fit in fits]
    stacks = [stack_and_reserve(fit) for fit in fits]
    answers = []
    for number, fit in enumerate(fits):
        state_bytes = sum(states) - states[number]
        if fit.best is not None and fit.ram is not None:
            left = fit.ram - state_bytes - (max(stacks) - stacks[number])
            if fit.best.needed_ram > left:
                fit = replace(replan(number, left), ram=fit.ram, hop=fit.hop)
                # Other plans of the other networks may have smaller states.
                fit = replace(fit, status=Status.UNKNOWN) if fit.best is None else fit
        answers.append(fit)
    return answers


@public
def with_states_apart(fits: Sequence[Fit], again: Replan | None = None) -> list[Fit]:
    """Return the answers for networks in one arena, in which each network has its own state bytes.

    State buffers of all networks are at the bottom of the arena; the transient buffers above them
    share bytes as before. again: computes the answer for a network, by its number, with this many
    bytes of RAM. It is called if a network without a state needs more than the states leave; if that
    plan is too large as well, the network no longer fits.

    Example: states of 100 and 40 bytes are at bytes 0 and 104; transient buffers begin at byte 144.
    """
    if len(fits) < 2:
        return list(fits)
    tops = [_top(fit.shown.plan) for fit in fits]
    states = [top + -top % ALIGNMENT for top in tops]
    if not any(states):
        return list(fits)
    answers, base, kept = [], 0, sum(states)
    largest = max(map(stack_and_reserve, fits))
    for number, fit in enumerate(fits):
        shown, state = fit.shown, states[number]
        stack = largest - shown.stage_stack_bytes
        left = None if fit.ram is None else fit.ram - kept - stack
        transient = shown.with_state - _transient_begin(shown.plan)
        is_too_large = left is not None and fit.best is not None and transient > left
        if is_too_large and not state and again is not None and left is not None and left > 0:
            fit = replace(again(number, left + stack), ram=fit.ram, hop=fit.hop)
            is_too_large = fit.best is None
        methods = tuple(
            replace(method, plan=_moved(method.plan, base, kept)) for method in fit.methods
        )
        base += state
        chosen = (new for old, new in zip(fit.methods, methods, strict=True) if old is fit.best)
        best = None if is_too_large else next(chosen, None)
        answer = replace(fit, methods=methods, best=best)
        if is_too_large:
            least = answer.least.needed_ram
            reason = because(FitWhy.BESIDE_STATES, kept=kept, least=least)
            answer = replace(answer, status=Status.UNKNOWN, reason=reason)
        answers.append(answer)
    return answers


ALIGNMENT = 8  # bytes: the largest element, so that shifted buffers of all networks are aligned


def _top(plan: StreamingPlan) -> int:
    """Return the end of the last buffer that is retained between frames."""
    return max((buffer.end_byte for buffer in plan.buffers if buffer.persists), default=0)


def _transient_begin(plan: StreamingPlan) -> int:
    """Return the byte from which on a plan has the buffers that are not retained.

    It is a multiple of ALIGNMENT, if such a byte is between the retained buffers and the others.
    """
    transient = (b.offset for b in plan.buffers if b.is_in_arena and not b.persists)
    lowest = min(transient, default=_top(plan))
    aligned = lowest - lowest % ALIGNMENT
    return aligned if aligned >= _top(plan) else lowest


def _moved(plan: StreamingPlan, base: int, transient: int) -> StreamingPlan:
    """The plan with its retained buffers from byte `base` on, all others from byte `transient` on."""
    shift = transient - _transient_begin(plan)
    buffers = tuple(
        replace(
            buffer,
            offset=buffer.offset + (base if buffer.persists else shift if buffer.size else 0),
        )
        for buffer in plan.buffers
    )
    return replace(plan, buffers=buffers, arena_bytes=max(plan.arena_bytes + shift, transient))
