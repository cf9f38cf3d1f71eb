"""The arena of TensorFlow Lite Micro for a file: tensors, scratch, and its own objects.

The arena has two ends. The head holds tensors and the scratch of kernels, at offsets of a greedy
planner or of the file. The tail holds persistent data: a struct for each tensor and node, options and
data of each kernel, variables. During initialisation, lists of requests and of lifetimes are between
them. Sizes are those of the allocator, with the reference kernels or the kernels of a library.

Source: tflite-micro 90b983c, tensorflow/lite/micro: micro_allocator.cc, micro_allocation_info.cc,
micro_interpreter.cc, memory_planner/greedy_memory_planner.cc, kernels/. The sizes of structs are those
of gcc for its headers (TF_LITE_STATIC_MEMORY), on two machines. The device has 32 bits with short
enumerations, as in compilers for Arm. The package tflite-micro for Python has 64 bits, compression and
records of allocations (options of FULLY_CONNECTED and SVDF: measured).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from cnn2csdf.readers.tflite.model_file import Tensor, TfliteGraph, TfliteNode, graphs_of
from csdf.errors import UnreadableFile
from csdf.status import Status, Why, because
from planners.arena.problem import Buffer, MemoryPlan, Problem
from planners.formats.kernel_libraries import KernelLibrary, Request

ALIGNMENT = 16  # MicroArenaBufferAlignment
MOST_REQUESTS = 12  # kMaxScratchBuffersPerOp: entries reserved for the requests of the next kernel
PLANNER_BYTES = 40  # GreedyMemoryPlanner::per_buffer_size
TABLE = 513  # entries of a table of int16_t, LUTSize<int16_t>
METHODS = {  # of MicroMutableOpResolver, whose names are not those of the operators in words
    "BATCH_MATMUL": "AddBatchMatMul",
    "CUMSUM": "AddCumSum",
    "PADV2": "AddPadV2",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "AddUnidirectionalSequenceLSTM",
}
CUSTOM_METHODS = {
    "CIRCULAR_BUFFER": "AddCircularBuffer",
    "TFLite_Detection_PostProcess": "AddDetectionPostprocess",
    "ethos-u": "AddEthosU",
}
Pair = tuple[int, int]  # bytes on a device, bytes in the package
DEVICE, PACKAGE = 0, 1  # their indices

# Objects of the interpreter: arena, planner, allocator, and allocator of options.
ARENA_BUFFER, MEMORY_PLANNER, ALLOCATOR, OPTIONS_ALLOCATOR = (36, 104), (44, 72), (36, 272), (8, 16)
GRAPH, EVAL_TENSOR, NODE = (8, 24), (12, 24), (32, 64)
TENSOR, QUANTIZATION, HANDLE = (32, 64), (12, 24), (4, 8)
REQUEST, LIFETIME, POINTER = (12, 16), (24, 32), (4, 8)
VARIABLES, VARIABLE = (12, 16), (20, 40)

KERNELS: Mapping[str, tuple[Pair, Pair]] = {  # options, and data; each on a device, in the package
    "ABS": ((0, 0), (28, 28)), "ADD": ((2, 8), (60, 60)), "ARG_MAX": ((1, 4), (0, 0)),
    "ARG_MIN": ((1, 4), (0, 0)), "ASSIGN_VARIABLE": ((0, 0), (4, 4)),
    "AVERAGE_POOL_2D": ((40, 40), (32, 32)), "CALL_ONCE": ((4, 4), (8, 8)),
    "CAST": ((2, 8), (0, 0)), "CONCATENATION": ((8, 8), (24, 80)), "CONV_2D": ((28, 28), (56, 80)),
    "DEPTHWISE_CONV_2D": ((28, 28), (56, 80)), "DEPTH_TO_SPACE": ((4, 4), (20, 20)),
    "DEQUANTIZE": ((0, 0), (32, 32)), "DIV": ((1, 4), (28, 28)), "ELU": ((0, 0), (256, 256)),
    "EQUAL": ((0, 0), (32, 32)), "FULLY_CONNECTED": ((5, 32), (48, 72)),
    "GREATER": ((0, 0), (32, 32)), "GREATER_EQUAL": ((0, 0), (32, 32)),
    "HARD_SWISH": ((0, 0), (20, 20)), "L2_NORMALIZATION": ((1, 4), (4, 4)),
    "LEAKY_RELU": ((4, 4), (24, 24)), "LESS": ((0, 0), (32, 32)), "LESS_EQUAL": ((0, 0), (32, 32)),
    "LOGISTIC": ((0, 0), (16, 16)), "LOG_SOFTMAX": ((0, 0), (28, 40)),
    "MAX_POOL_2D": ((40, 40), (32, 32)), "MEAN": ((1, 1), (44, 44)),
    "MIRROR_PAD": ((1, 4), (20, 20)), "MUL": ((1, 4), (36, 36)), "NOT_EQUAL": ((0, 0), (32, 32)),
    "PACK": ((8, 8), (0, 0)), "PAD": ((0, 0), (56, 56)), "PADV2": ((0, 0), (56, 56)),
    "PRELU": ((0, 0), (28, 28)), "QUANTIZE": ((0, 0), (32, 32)), "REDUCE_MAX": ((1, 1), (44, 44)),
    "REDUCE_MIN": ((1, 1), (44, 44)), "RELU": ((0, 0), (28, 28)), "RELU6": ((0, 0), (8, 8)),
    "RESHAPE": ((36, 36), (0, 0)), "RESIZE_BILINEAR": ((2, 2), (0, 0)),
    "RESIZE_NEAREST_NEIGHBOR": ((2, 2), (0, 0)), "RSQRT": ((0, 0), (28, 28)),
    "SELECT_V2": ((0, 0), (1, 1)), "SHAPE": ((1, 4), (0, 0)), "SOFTMAX": ((4, 4), (56, 80)),
    "SPACE_TO_BATCH_ND": ((0, 0), (4, 4)), "SPACE_TO_DEPTH": ((4, 4), (20, 20)),
    "SPLIT": ((4, 4), (0, 0)), "SPLIT_V": ((4, 4), (0, 0)),
    "SQUARED_DIFFERENCE": ((0, 0), (112, 112)), "SQUEEZE": ((36, 36), (0, 0)),
    "STRIDED_SLICE": ((24, 24), (84, 84)), "SUB": ((2, 8), (52, 52)), "SUM": ((1, 1), (44, 44)),
    "SVDF": ((8, 16), (36, 36)), "TANH": ((0, 0), (16, 16)), "TRANSPOSE_CONV": ((16, 20), (72, 88)),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": ((16, 16), (688, 688)), "UNPACK": ((8, 8), (0, 0)),
    "VAR_HANDLE": ((8, 16), (4, 4)),
    **dict.fromkeys((
        "BATCH_TO_SPACE_ND", "BROADCAST_ARGS", "BROADCAST_TO", "CEIL", "COS",
        "DYNAMIC_UPDATE_SLICE", "EXP", "EXPAND_DIMS", "FILL", "FLOOR", "FLOOR_DIV", "FLOOR_MOD",
        "GATHER_ND", "LOG", "LOGICAL_AND", "LOGICAL_NOT", "LOGICAL_OR", "MAXIMUM", "MINIMUM", "NEG",
        "READ_VARIABLE", "REVERSE_V2", "ROUND", "SIN", "SLICE", "SQRT", "SQUARE", "TRANSPOSE",
        "ZEROS_LIKE",
    ), ((0, 0), (0, 0))),
}  # fmt: skip
UNKNOWN = ((16, 16), (64, 64))  # a guess for other kernels: about the average of the list
CHANNELS = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3, "TRANSPOSE_CONV": 0}  # axis of the filter
REDUCTIONS = ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN")
CALLS = {"CALL_ONCE": (0,), "IF": (0, 1), "WHILE": (0, 1)}  # fields of options: numbers of graphs


@dataclass(frozen=True, slots=True, kw_only=True)
class InterpreterArena:
    """Sizes of all objects of one file in the arena, without the offsets of its tensors.

    problem: tensors by their numbers, graph after graph, and scratch by kernel; sizes are rounded up
    to the alignment. tensors: number of tensors in the file. persistent: bytes at the tail. temporary:
    bytes before the tail that must be free while the arena is filled. not_known: kinds of kernels whose
    data is a guess. kinds: of all operators, which a program registers.
    """

    problem: Problem
    tensors: int
    persistent: int
    temporary: int
    not_known: tuple[str, ...]
    kinds: tuple[str, ...]

    def size(self, head: int) -> int:
        """Return the smallest arena in which tensors and scratch take `head` bytes."""
        return aligned(self.persistent + max(head, self.temporary))

    def to_json(self, head: int) -> dict[str, Any]:
        """Return the least arena and its parts, for tensors and scratch in `head` bytes."""
        return {
            "arena_bytes": self.size(head),
            "head_bytes": head,
            "greedy_head_bytes": self.head(self.placed({})),
            "own_bytes": self.persistent,
            "filling_bytes": self.temporary,
            "guessed": list(self.not_known),
            "register": [registration(kind) for kind in self.kinds],
        }

    @property
    def scratch(self) -> int:
        """The bytes of scratch of the operator that requests most."""
        totals: Counter[int] = Counter()
        for buffer in self.problem.buffers:
            totals[buffer.start] += 0 if buffer.name.isdigit() else buffer.size
        return max(totals.values(), default=0)

    def in_words(self, head: int) -> str:
        """Return the least arena and its parts in one line."""
        summary = self.to_json(head)
        by_greedy = f" ({summary['greedy_head_bytes']} by its own planner)"
        text = f"arena of {summary['arena_bytes']} bytes on a 32-bit device: tensors and scratch {head}"
        text += f"{by_greedy}, its own objects {self.persistent}"
        if self.temporary > head:
            text += f"; while the arena is filled, {self.temporary} instead of tensors and scratch"
        return text + (f"; a guess for {', '.join(self.not_known)}" if self.not_known else "")

    def resolver_in_words(self) -> str:
        """Return the methods of MicroMutableOpResolver that register the operators of the file."""
        methods = ", ".join(f"{registration(kind)}()" for kind in self.kinds)
        return f"MicroMutableOpResolver<{len(self.kinds)}>: {methods}"

    def placed(self, offsets: Mapping[str, int]) -> dict[str, int]:
        """Return the offsets of the interpreter's planner for tensors without an offset in the file.

        The largest buffer first, of equal ones the last; each in the first gap between buffers that
        live at some of its times. Without offsets it is its own plan.
        """
        free = [buffer for buffer in reversed(self.problem.buffers) if buffer.name not in offsets]
        placed = dict(offsets)
        for buffer in sorted(free, key=lambda buffer: -buffer.size):
            near = (
                b for b in self.problem.buffers if b.start < buffer.end and buffer.start < b.end
            )
            begin = 0
            for low, size in sorted((placed[b.name], b.size) for b in near if b.name in placed):
                if low - begin >= buffer.size:
                    break
                begin = max(begin, low + size)
            placed[buffer.name] = begin
        return placed

    def head(self, offsets: Mapping[str, int]) -> int:
        """Return the bytes to the end of the highest buffer."""
        return max(
            (offsets[buffer.name] + buffer.size for buffer in self.problem.buffers), default=0
        )

    def settled(self, plan: MemoryPlan) -> MemoryPlan:
        """Return the plan as it will be: only tensors have offsets in the file, scratch has not.

        It is not larger than the interpreter's own, which is taken where it is smaller.
        """
        if not plan.has_offsets:
            return plan
        fixed = {name: at for name, at in plan.offsets.items() if name.isdigit()}
        offsets = min(self.placed(fixed), self.placed({}), key=self.head)
        if self.head(offsets) == plan.lower_bound:
            return replace(plan, offsets=offsets)
        status, reason = Status.FEASIBLE, because(InterpreterWhy.SCRATCH, end=plan.reason)
        if self.head(offsets) == plan.peak:
            status, reason = plan.status, plan.reason
        return replace(plan, offsets=offsets, status=status, reason=reason)


class InterpreterWhy(Why):
    """The reasons for the status of a plan that an interpreter completes."""

    SCRATCH = "the interpreter places scratch by itself; before: {end}"


def registration(kind: str) -> str:
    """Return the method of MicroMutableOpResolver that registers an operator, or AddCustom.

    Source: tflite-micro, tensorflow/lite/micro/micro_mutable_op_resolver.h.
    """
    if kind.startswith("CUSTOM:"):
        name = kind.removeprefix("CUSTOM:").strip("'")
        return CUSTOM_METHODS.get(name, f'AddCustom "{name}"')
    words = [word if word[0].isdigit() else word.capitalize() for word in kind.split("_")]
    return METHODS.get(kind, f"Add{''.join(words)}")


def interpreter_arena(
    content: bytes, name: str, build: int = DEVICE, library: KernelLibrary | None = None
) -> InterpreterArena:
    """Return the arena of TensorFlow Lite Micro for a file, on a DEVICE or in its PACKAGE for Python.

    library: whose kernels it has on the DEVICE; None: the reference kernels. Raises UnreadableFile,
    with the name, for a damaged file and tensors of unknown sizes.
    """
    try:
        return _ArenaCount(graphs_of(content), build, library).arena(name)
    except UnreadableFile as error:
        raise UnreadableFile(f"{name}: {error}") from None


class _Tail:
    """The tail of the arena, which grows downwards."""

    def __init__(self) -> None:
        self.used = 0

    def take(self, size: int, alignment: int = ALIGNMENT) -> None:
        self.used = -(-(self.used + size) // alignment) * alignment


class _ArenaCount:
    """The allocations of the interpreter for the graphs of a file, in its order."""

    def __init__(
        self, graphs: Sequence[TfliteGraph], build: int, library: KernelLibrary | None
    ) -> None:
        self._graphs, self._build, self._library = graphs, build, library
        self._firsts = [sum(len(g.tensors) for g in graphs[:n]) for n in range(len(graphs))]
        self._first_use: dict[str, int] = {}  # times, by buffer
        self._last_use: dict[str, int] = {}
        self._sizes: dict[str, int] = {}
        self._time = 0

    def arena(self, name: str) -> InterpreterArena:
        self._run(0, callers=())
        persistent, temporary = self._tail()
        buffers = tuple(
            Buffer(name=name, size=size, start=self._first_use[name], end=self._last_use[name] + 1)
            for name, size in self._sizes.items()
        )
        kinds, library = {node.kind for _, node in self._nodes()}, self._library
        guesses = {
            node.kind for graph, node in self._nodes() if library and library.is_guess(node, graph)
        }
        return InterpreterArena(
            problem=Problem(name=name, buffers=buffers),
            tensors=sum(len(graph.tensors) for graph in self._graphs),
            persistent=persistent,
            temporary=temporary,
            not_known=tuple(sorted(kinds - set(KERNELS) | guesses)),
            kinds=tuple(sorted(kinds)),
        )

    def _run(self, number: int, callers: Collection[int]) -> None:
        """Note sizes, and times of first and last use, of what a graph and those that it calls use."""
        if number >= len(self._graphs) or number in callers:
            raise UnreadableFile(
                f"graph {number} of {len(self._graphs)} is called in a circle or missing"
            )
        graph = self._graphs[number]
        for tensor in graph.inputs:
            self._touch(number, tensor)
        for node in graph.nodes:
            self._time += 1
            begin = self._time
            for tensor in node.outputs:
                self._touch(number, tensor)
            for called in _called(node):
                self._time += 1
                self._run(called, (*callers, number))
            for tensor in (*node.inputs, *node.outputs):
                if tensor >= 0:
                    self._touch(number, tensor)
            for index, size in enumerate(self._request(node, graph).scratch):
                name = f"scratch {index} of operator {node.number}"
                name += f" of graph {number}" if number else ""
                self._sizes[name] = aligned(size)
                self._first_use[name], self._last_use[name] = begin, self._time
        for tensor in graph.outputs:
            self._touch(number, tensor)

    def _touch(self, graph: int, tensor: int) -> None:
        """Extend the life of a tensor to the present time, unless its bytes are elsewhere."""
        used = self._graphs[graph].tensors[tensor]
        is_elsewhere = used.is_constant or used.is_variable or tensor in self._graphs[graph].handles
        if is_elsewhere or not _bytes(used):
            return
        name = str(self._firsts[graph] + tensor)
        self._sizes[name] = aligned(_bytes(used))
        self._first_use.setdefault(name, self._time)
        self._last_use[name] = self._time

    def _request(self, node: TfliteNode, graph: TfliteGraph) -> Request:
        """Return what the kernel of a node requests, with the kernels of the library."""
        added = Request() if self._library is None else self._library.request(node, graph)
        return Request(
            scratch=scratch_of(node, graph) + added.scratch,
            persistent=persistent_of(node, graph) + added.persistent,
        )

    def _tail(self) -> tuple[int, int]:
        """Return the persistent bytes, and the bytes of temporary data at the peak of allocation."""
        graphs, tail, pointer = self._graphs, _Tail(), POINTER[self._build]
        variables = {name for graph in graphs for name in graph.handles.values()}
        self._take_structs(tail, len(variables))
        self._take_data_of_kernels(tail)
        requests, peak_while_preparing = self._prepare_kernels(tail, variables)
        tail.take(HANDLE[self._build] * requests, pointer)
        for graph in graphs:
            for tensor in graph.tensors:
                if tensor.is_variable:
                    tail.take(_bytes(tensor))
        peak = max(peak_while_preparing, tail.used + self._planning_bytes(requests))
        for ends in (graphs[0].inputs, graphs[0].outputs):
            tail.take(pointer * len(ends))
            for number in ends:
                for size in self._records(graphs[0].tensors[number]):
                    tail.take(size, pointer if size % pointer == 0 else 4)
        return tail.used, peak - tail.used

    def _take_structs(self, tail: _Tail, variables: int) -> None:
        build, graphs, pointer = self._build, self._graphs, POINTER[self._build]
        for sizes in (ARENA_BUFFER, MEMORY_PLANNER, ALLOCATOR, OPTIONS_ALLOCATOR):
            tail.take(sizes[build], pointer)
        if variables:
            tail.take(VARIABLES[build])
            tail.take(VARIABLE[build] * variables)
        tail.take(GRAPH[build] * len(graphs), pointer)
        for graph in graphs:
            tail.take(EVAL_TENSOR[build] * len(graph.tensors), pointer)
        for graph in graphs:
            tail.take(NODE[build] * len(graph.nodes), pointer)

    def _nodes(self) -> Iterator[tuple[TfliteGraph, TfliteNode]]:
        return ((graph, node) for graph in self._graphs for node in graph.nodes)

    def _take_data_of_kernels(self, tail: _Tail) -> None:
        build = self._build
        for _, node in self._nodes():
            options, _ = (sizes[build] for sizes in KERNELS.get(node.kind, UNKNOWN))
            if options:
                maximum = POINTER[build] if node.kind == "VAR_HANDLE" else 4
                tail.take(options, min(maximum, options & -options))
        for graph, node in self._nodes():
            is_float = node.kind == "LOG_SOFTMAX" and graph.tensors[node.inputs[0]].width == 4
            _, data = (sizes[build] for sizes in KERNELS.get(node.kind, UNKNOWN))
            if self._library is not None:
                data = self._library.data.get(node.kind, data)
            if data and not is_float:
                tail.take(data)

    def _prepare_kernels(self, tail: _Tail, variables: Collection[str]) -> tuple[int, int]:
        """Take what kernels keep; return the requests for scratch, and the peak with temporary data."""
        requests, peak, without_bytes = 0, 0, set(variables)
        for graph, node in self._nodes():
            request = self._request(node, graph)
            for size in request.persistent:
                tail.take(size)
            if node.kind == "ASSIGN_VARIABLE":
                variable = graph.handles.get(node.inputs[0])
                if variable in without_bytes:
                    without_bytes.remove(variable)
                    tail.take(_bytes(graph.tensors[node.inputs[1]]))
            requests += len(request.scratch)
            tensors = [graph.tensors[n] for n in (*node.inputs, *node.outputs) if n >= 0]
            read = sum(sum(self._records(tensor)) for tensor in tensors)
            peak = max(peak, tail.used + self._request_bytes(requests) + read)
        return requests, peak

    def _request_bytes(self, requests: int) -> int:
        return REQUEST[self._build] * (requests + MOST_REQUESTS)

    def _planning_bytes(self, requests: int) -> int:
        """Return the bytes of the lists from which the planner computes offsets, and of its own."""
        tensors = sum(len(graph.tensors) for graph in self._graphs)
        lists = self._request_bytes(requests) + POINTER[self._build] * len(self._graphs)
        lists += LIFETIME[self._build] * (tensors + requests)
        return aligned(lists) + PLANNER_BYTES * len(self._sizes)

    def _records(self, tensor: Tensor) -> Iterator[int]:
        """Yield the sizes of what describes a tensor to a kernel or to the caller."""
        yield TENSOR[self._build]
        if tensor.scales.size and tensor.zero_points.size:
            yield QUANTIZATION[self._build]
            yield 4 + 4 * tensor.scales.size


def _called(node: TfliteNode) -> Iterator[int]:
    """Yield the numbers of the graphs that a node runs."""
    if node.options is not None:
        for field in CALLS.get(node.kind, ()):
            yield node.options.integer(field, "i")


def persistent_of(node: TfliteNode, graph: TfliteGraph) -> tuple[int, ...]:
    """Return the sizes of the persistent objects of a kernel besides its options and its data."""
    tensors = [graph.tensors[number] for number in node.inputs if number >= 0]
    match tensors:
        case _, filters, *_ if node.kind in CHANNELS and len(filters.dims) == 4:
            return (4 * filters.dims[CHANNELS[node.kind]],) * 2  # multipliers and shifts
        case _, weights, *_ if node.kind == "FULLY_CONNECTED" and weights.scales.size > 1:
            return (4 * weights.scales.size,) * 2
        case source, *_ if node.kind == "SOFTMAX" and source.width == 2:
            return (2 * TABLE,) * 2
    return ()


def scratch_of(node: TfliteNode, graph: TfliteGraph) -> tuple[int, ...]:
    """Return the sizes of the scratch that a kernel asks for."""
    tensors = [graph.tensors[number] for number in node.inputs if number >= 0]
    outputs = [graph.tensors[number] for number in node.outputs]
    is_quantized = bool(tensors) and tensors[0].width in (1, 2)
    if node.kind == "UNIDIRECTIONAL_SEQUENCE_LSTM" and len(node.inputs) > CELL:
        return (_bytes(graph.tensors[node.inputs[CELL]]),) * 4
    match tensors:
        case source, axes, *_ if node.kind in REDUCTIONS:
            is_sum = node.kind in ("MEAN", "SUM") and is_quantized
            sums = [4 * prod(outputs[0].dims)] if is_sum else []
            return (*sums, 4 * len(source.dims), 4 * prod(axes.dims))
        case source, weights, *_ if node.kind == "SVDF":
            batch = source.dims[0] if source.dims else 1
            filters, units = 4 * batch * weights.dims[0], 4 * batch * outputs[0].dims[-1]
            return (filters, units) if is_quantized else (filters,)
        case _, _, source, *_ if node.kind == "TRANSPOSE_CONV" and source.width in (1, 2):
            return ((4 if source.width == 1 else 8) * prod(outputs[0].dims),)
        case source, *_ if node.kind == "MIRROR_PAD":
            return (4 * len(source.dims),) * 2
    return ()


CELL = 19  # input of an LSTM: the state of the cell


def _bytes(tensor: Tensor) -> int:
    if tensor.width is None:
        raise UnreadableFile(
            f"tensor {tensor.name!r} is of a type whose elements have no known size"
        )
    return prod(tensor.dims) * tensor.width


def aligned(size: int) -> int:
    """Return the size, rounded up to the alignment of the arena."""
    return -(-size // ALIGNMENT) * ALIGNMENT
