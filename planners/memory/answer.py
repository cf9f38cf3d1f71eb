"""Result values of a memory-fit analysis: plans with their RAM, MACs and time, and the verdict.

The central class is Fit: whether a network fits, the reason, the Pareto front of plans, and the
slow-memory traffic of a plan in several memories.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from cnn2csdf.platforms import NANOSECONDS, BoardMemory, Core, Platform
from csdf.model.shown import Tabular
from csdf.status import Ended, Reason, Status, Why
from csdf.units import bytes_in_words, needed_bytes_in_words
from planners.plan.plan import StreamingPlan

if TYPE_CHECKING:  # or the help of a command would load the operators of networks
    from planners.plan.ram import RamBeside

RESIDENT = "resident"  # the input is stored whole in the arena before the first layer
ROWS = "rows"  # the input comes row by row
EXTERNAL = "external"  # inputs are read from, outputs written to memory that is not the arena's
INPUTS = (RESIDENT, ROWS, EXTERNAL)
OUTPUT_MEMORIES = (RESIDENT, EXTERNAL)

WHOLE_LAYERS = "layer by layer"
BY_ROWS = "row by row"
LINES = "line buffers, no recomputation"
LINES_AGAIN = "line buffers, normalisations again"
HEADS = "head by head"
STRIPS = "line buffers + strips"
IN_PARTS = "strips, channel blocking"
TWICE = "strips, squeeze-and-excitation rematerialised"
TWO_MEMORIES = "groups in fast and slow memory"
GIVEN = "loaded plan"
SEARCHED = (LINES, STRIPS, IN_PARTS, TWICE)
SEARCHED_FIRST = (LINES, STRIPS)  # of which there are far fewer
PLAIN = (WHOLE_LAYERS, BY_ROWS)


class GroupMode(Enum):
    """Execution mode of a fused group: layer by layer, in tiles with or without halo cache, or by rows.

    WHOLE: layer by layer, on whole tensors.
    RECOMPUTED: tile by tile; each tile recomputes its whole halo, as in MAFAT.
    CACHED: tile by tile; each tile stores the halo that later tiles read.
    ROWS: row by row, in line buffers.
    """

    WHOLE = "whole"
    RECOMPUTED = "halo-recomputed"
    CACHED = "halo-cached"
    ROWS = "rows"


class ScratchCount(Enum):
    """Scratch memory of a convolution that is counted in addition to the operands.

    IM2COL: the im2col matrix of one filter group at a time, as Darknet allocates the matrix and
        Farley and Gerstlauer count it.
    NONE: no scratch, as for a direct convolution.
    """

    IM2COL = "im2col"
    NONE = "none"


class FitWhy(Why):
    """Reasons for the answer to whether a network fits."""

    FLASH = "the parameters need {needed} bytes of flash, the limit is {flash}"
    LEAST_WORK = "fewest MACs; searched: layer by layer, row by row, line buffers, strips"
    FASTEST = (
        "fewest MACs within the RAM, then fastest; searched: layer by layer, row by row, line buffers, "
        "strips"
    )
    BALANCED = (
        "fewest MACs; searched: layer by layer, row by row, line buffers, strips; {name!r} saves "
        "{saved} and takes {factor} times as long: --ram {least} chooses it"
    )
    FAST_TOGETHER = "fastest plan found, so that a frame of each network is within the time limit"
    LEAST_BY_THEN = (
        "fewest MACs; searched: layer by layer, row by row, line buffers, strips; "
        "the search ended early: {end}"
    )
    TOO_SLOW = "the fastest plan found is too slow{end}: {time} a frame {basis}, {longest} allowed"
    STACK = "stack and reserve need {needed} bytes of {name}, its size is {size}"
    STACK_AND_STATE = (
        "stack, reserve and execution state need {needed} bytes of {name}, its size is {size}"
    )
    ENDS = "in every plan input and output take {least} bytes{beside}"
    REAL_ENDS = (
        "in every plan input and output take {least} bytes{beside}; input {name!r} is "
        "{element} and at once converted to {other}; an export with {other} input would take {bytes} "
        "bytes"
    )
    TOO_LARGE_BY_THEN = "{end}; the smallest plan found by then needs {least} bytes"
    KEEPS_STATE = "layer by layer; RAM holds the state and the buffers of a frame"
    KEEPS_STATE_IN_SLOW = (
        "layer by layer; of the state, a greedy choice puts {slow} bytes into slow memory"
    )
    SLOW_TOO_SMALL = (
        "the state has {kept} bytes, slow memory {slow}; fast memory lacks room for the rest of the "
        "state and a frame layer by layer; give larger memories"
    )
    STATE_TOO_LARGE = "the state and a frame layer by layer need {least} bytes"
    FRAME_TOO_LARGE = (
        "with the {kept} bytes of the state in slow memory, a frame layer by layer "
        "still needs {least} bytes of fast memory; give larger memories"
    )
    BESIDE_STATES = (
        "with the {kept} bytes that all networks retain between frames, "
        "the smallest plan found needs {least} bytes"
    )
    TOO_LARGE = (
        "the smallest plan found needs {least} bytes; searched: layer by layer, row by row, line "
        "buffers, strips; not proved to be the minimum"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FitMethod:
    """Memory plan of a network by one execution strategy, with its MACs and predicted time.

    name: execution strategy, such as "layer by layer".
    plan: schedule and buffer offsets in the arena.
    mac_ratio: MACs of a frame divided by the MACs without recomputation; 5/4 means 25% recomputed
        MACs.
    nanoseconds: predicted time of a frame; None without a platform.
    state_bytes: upper bound on the bytes of the execution state in C; 0 if only the arena counts.
    stage_stack_bytes: bytes that the stages of the plan add to the stack in C; 0 likewise.
    beside_bytes: bytes of the stack without the stages, and of the reserve; 0 likewise.
    """

    name: str
    plan: StreamingPlan
    mac_ratio: Fraction
    nanoseconds: int | None
    state_bytes: int = 0
    stage_stack_bytes: int = 0
    beside_bytes: int = 0

    def __repr__(self) -> str:
        work = f"{float(self.mac_ratio):.4g}x MACs"
        return f"FitMethod({self.name}: {bytes_in_words(self.ram_bytes)} RAM, {work})"

    @property
    def ram_bytes(self) -> int:
        """Bytes of the arena."""
        return self.plan.arena_bytes

    @property
    def with_state(self) -> int:
        """Bytes of arena, execution state, and the stack of the stages."""
        return self.ram_bytes + self.state_bytes + self.stage_stack_bytes

    @property
    def needed_ram(self) -> int:
        """Bytes of RAM: arena, execution state, and stack and reserve if these count."""
        return self.with_state + self.beside_bytes


class Hop(NamedTuple):
    """Incremental inference on a sliding window: cost of a hop, compared with the whole window.

    rows: new input rows of a hop.
    multiply_accumulates: MACs of a hop.
    window_multiply_accumulates: MACs of the whole window.
    window_ram: bytes of RAM of the whole-window plan with the fewest MACs.
    hops_before: hops without a result, until the window is full.
    """

    rows: int
    multiply_accumulates: int
    window_multiply_accumulates: int
    window_ram: int
    hops_before: int


class SlowTraffic(NamedTuple):
    """Slow-memory traffic of a frame, in bytes, compared with a lower bound and two baselines.

    memories: memories of the board, with their sizes.
    moved: bytes that the plan moves; None without a plan.
    lower_bound: bytes that any schedule moves that keeps input and output whole.
    all_slow: baseline, layer by layer with all tensors in slow memory; each consumer reads its
        input once.
    greedy: baseline, layer by layer; the largest tensors are in slow memory until the remaining
        tensors fit.
    weights: bytes of the counted weights, which both baselines read once.
    nanoseconds: time of a frame of the plan, if the rates of the memories are known.
    """

    memories: tuple[BoardMemory, ...]
    moved: int | None
    lower_bound: int
    all_slow: int
    greedy: int
    weights: int = 0
    nanoseconds: int | None = None

    def to_json(self, plan: StreamingPlan) -> dict[str, Any]:
        """Return memories, with their use by a plan, and slow-memory traffic as a JSON value."""
        taken = {memory.name: memory.size for memory in plan.memories}
        return {
            "memories": [
                {
                    "name": memory.name,
                    "bytes": memory.size,
                    "is_slow": memory.is_slow,
                    "used_bytes": taken.get(memory.name),
                }
                for memory in self.memories
            ],
            "slow_bytes": self.moved,
            "traffic": {
                traffic.memory: {"read": traffic.read, "written": traffic.written}
                for traffic in plan.traffic
            },
            "slow_lower_bound_bytes": self.lower_bound,
            "slow_bytes_greedy": self.greedy,
            "slow_bytes_all_slow": self.all_slow,
        }


class Alternative(NamedTuple):
    """Relaxed request after a negative answer, with the RAM of the relaxed request.

    options: command-line options of the relaxed request.
    ram_bytes: minimum RAM that the search of the relaxed request has reached.
    fits: whether the relaxed request fits.
    is_complete: whether the request fits or the search was complete; otherwise a longer search may
        need less.
    """

    options: str
    ram_bytes: int
    fits: bool
    is_complete: bool

    @property
    def ram_in_words(self) -> str:
        """The RAM, marked as an upper bound if the search ended early."""
        words = f"{needed_bytes_in_words(self.ram_bytes)} of RAM"
        return words if self.is_complete else f"at most {words} (the search ended early)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit(Tabular):
    """Verdict of a memory-fit analysis: whether a network fits, with the Pareto front of plans.

    network: name of the network.
    input, output: memory of the inputs and of the results.
    ram: limit in bytes on all RAM of the network, or, if `beside` is None, on the arena alone; None
        for no limit.
    flash: limit in bytes on the parameters; None for no limit.
    flash_bytes: bytes of the parameters as a C library stores them, with requantisation factors.
    methods: plans in order of RAM, each with fewer MACs than all smaller plans; the baselines are
        always included.
    best: plan with the fewest MACs within the limits, the fastest among equals; None if no plan
        fits.
    lower_bound: bytes of RAM below which no plan exists, searched or not: input and output are
        stored whole.
    status: FEASIBLE with a plan that fits. INFEASIBLE if RAM is below the lower bound or flash below
        the parameters, so no plan exists; of a loaded plan, or of a network with a state, if this plan
        or all plans layer by layer are too large. UNKNOWN otherwise.
    reason: cause of the status, for a message.
    hop: incremental inference on a sliding window; None for a plan of whole frames.
    alternatives: relaxed requests after a negative answer: fitting requests first, then in order of
        RAM.
    slow: slow-memory traffic of a plan in several memories, whose RAM is the sum over all memories.
    platform: platform of the predicted times; None if layers were measured, or no times are
        predicted.
    uncounted: kernels whose instructions are estimated.
    beside: bytes of stack and reserve; None if only the arena counts.

    Example: methods of (20 kB, mac_ratio 3/2), (30 kB, 1) with ram = 32 kB: the best plan is the
    second. With ram = 24 kB the best plan is the first, with 50% more MACs.
    """

    FLOATS: ClassVar[tuple[str, ...]] = ("mac_ratio",)

    network: str
    input: str
    output: str
    ram: int | None
    flash: int | None
    flash_bytes: int
    methods: tuple[FitMethod, ...]
    best: FitMethod | None
    lower_bound: int
    status: Status
    reason: Reason
    hop: Hop | None = None
    alternatives: tuple[Alternative, ...] = ()
    slow: SlowTraffic | None = None
    platform: Platform | None = None
    uncounted: tuple[str, ...] = ()
    beside: RamBeside | None = None

    def __repr__(self) -> str:
        plan = f"{self.shown!r}, {self.flash_bytes} bytes of flash"
        return f"Fit({self.network}: {self.status}, {plan})"

    def rows(self) -> list[dict[str, Any]]:
        """Return an exact row for each method."""
        return [
            {
                "method": method.name,
                "ram_bytes": method.ram_bytes,
                "mac_ratio": method.mac_ratio,
                "nanoseconds": method.nanoseconds,
            }
            for method in self.methods
        ]

    @property
    def is_short_of_ram(self) -> bool:
        """Whether no plan fits into the RAM."""
        return self.ram is not None and self.least.needed_ram > self.ram

    @property
    def is_cut_short(self) -> bool:
        """Whether the budget ended the search of an unproved answer."""
        return self.status is not Status.INFEASIBLE and self.reason.has(Ended.TIME_LIMIT)

    @property
    def least(self) -> FitMethod:
        """The plan with the minimum RAM."""
        return min(self.methods, key=lambda method: (method.with_state, method.mac_ratio))

    @property
    def shown(self) -> FitMethod:
        """The best plan; the smallest plan if no plan fits."""
        return self.best or self.least

    @property
    def core(self) -> Core | None:
        """The core whose instructions are predicted."""
        return None if self.platform is None else self.platform.core

    def instructions(self, method: FitMethod) -> int | None:
        """The predicted instructions of a frame; None without a core model, or if copies take time."""
        if self.core is None or method.nanoseconds is None or self.slow is not None:
            return None
        return int(method.nanoseconds * Fraction(self.core.hertz, NANOSECONDS) / self.core.most)

    @property
    def roofline(self) -> dict[str, int | None] | None:
        """The roofline model of the predicted times, if no instructions are counted."""
        platform = self.platform
        if platform is None or platform.core is not None:
            return None
        return {
            "operations_per_second": int(platform.operations_per_second),
            "bytes_per_second": int(platform.bytes_per_second),
            "hertz": platform.hertz,
        }

    def _at_best(self, method: FitMethod) -> dict[str, int]:
        """The predicted instructions of a frame, and the lower end of its predicted time."""
        instructions = self.instructions(method)
        if instructions is None or self.core is None or method.nanoseconds is None:
            return {}
        fast = self.core.at_best(method.nanoseconds)
        return {"predicted_instructions": instructions, "predicted_nanoseconds_at_best": fast}

    def _needed(self, method: FitMethod) -> dict[str, int]:
        """The RAM of a plan and its execution state, if they count."""
        if self.beside is None:
            return {}
        return {"needed_ram_bytes": method.needed_ram, "state_bytes": method.state_bytes}

    def to_json(self) -> dict[str, Any]:
        """Return the answer as a JSON value."""
        shown = self.shown
        nearby = [alternative._asdict() for alternative in self.alternatives]
        return {
            "network": self.network,
            "fits": {Status.FEASIBLE: True, Status.INFEASIBLE: False}.get(self.status),
            "ram_bytes": shown.ram_bytes,
            **self._needed(shown),
            **({} if self.beside is None else self.beside.to_json(shown.stage_stack_bytes)),
            **({"kept_bytes": kept} if (kept := shown.plan.kept_bytes) else {}),
            "flash_bytes": self.flash_bytes,
            "mac_ratio": str(shown.mac_ratio),
            "lower_bound_bytes": self.lower_bound,
            "status": str(self.status),
            "reason": str(self.reason),
            **({} if self.hop is None else {"hop": self.hop._asdict()}),
            "input": self.input,
            "output_memory": self.output,
            "methods": [
                {
                    "name": method.name,
                    "ram_bytes": method.ram_bytes,
                    **self._needed(method),
                    "mac_ratio": str(method.mac_ratio),
                    "predicted_nanoseconds": method.nanoseconds,
                    **self._at_best(method),
                }
                for method in self.methods
            ],
            **(
                {}
                if self.core is None
                else {
                    "not_calibrated": {
                        **self.core.to_json(),
                        "uncounted_kernels": list(self.uncounted),
                    }
                }
            ),
            **({} if self.roofline is None else {"roofline": self.roofline}),
            **({"alternatives": nearby} if nearby else {}),
            **({} if self.slow is None else self.slow.to_json(shown.plan)),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLimits:
    """Memory limits in bytes; None for no limit.

    ram: limit on all buffers.
    flash: limit on all parameters, which then use no RAM.
    memory: limit on buffers and parameters together, as in the published comparisons.
    """

    ram: int | None = None
    flash: int | None = None
    memory: int | None = None

    @property
    def is_given(self) -> bool:
        """Whether any limit is set."""
        return (self.ram, self.flash, self.memory) != (None, None, None)

    def room(self, parameters: int, stored: int) -> int | None:
        """Return the bytes left for buffers after `parameters` bytes of parameters; None: no limit.

        stored: bytes of the parameters in flash, as C stores them. Negative if the parameters alone
        are too large.
        """
        limits = [] if self.ram is None else [self.ram]
        if self.memory is not None:
            limits.append(self.memory - parameters)
        if self.flash is not None and stored > self.flash:
            limits.append(self.flash - stored)
        return min(limits, default=None)

    def __str__(self) -> str:
        parts = [
            f"{bytes_in_words(size)} {what}"
            for size, what in (
                (self.memory, "for buffers and parameters"),
                (self.ram, "of RAM"),
                (self.flash, "of flash for parameters"),
            )
            if size is not None
        ]
        return ", ".join(parts) or "no limit"
