cimport cython
from libc.stdint cimport int64_t

cdef int64_t ENDLESS, SOURCE, SINK


@cython.final
cdef class Tensors:
    cdef int64_t[::1] made_start, made, read_start, read, pair_start, pair, reader_start, reader
    cdef int64_t[::1] size, producer, is_output, result_bytes, live_result_bytes, scratch


@cython.final
cdef class Walk:
    cdef Tensors tensors
    cdef int64_t[::1] is_done, waiting, unread
    cdef readonly int64_t live, count

    @cython.locals(step=int64_t)
    cpdef void load(self, int64_t[::1] mark) noexcept

    @cython.locals(
        tensor=int64_t, begin=int64_t, end=int64_t, maker=int64_t, is_made=cython.bint,
        remaining=int64_t, entry=int64_t, reader=int64_t,
    )
    cdef void count_live(self) noexcept

    @cython.locals(total=int64_t, entry=int64_t, tensor=int64_t)
    cpdef int64_t cost(self, int64_t step) noexcept

    @cython.locals(difference=int64_t, entry=int64_t, tensor=int64_t)
    cdef int64_t change(self, int64_t step) noexcept

    @cython.locals(entry=int64_t, tensor=int64_t, k=int64_t)
    cpdef void run(self, int64_t step) noexcept

    @cython.locals(entry=int64_t, tensor=int64_t, k=int64_t)
    cdef void unrun(self, int64_t step) noexcept


@cython.final
cdef class FlowNetwork:
    cdef Tensors tensors
    cdef int64_t[::1] head, level, arc, queue, path, following, target, room, node, stamp
    cdef int64_t stamped, nodes, edges
    cdef readonly int64_t work

    @cython.locals(node=int64_t, step=int64_t)
    cpdef void least_between(self, int64_t[::1] mark) noexcept

    @cython.locals(step=int64_t)
    cdef void build(self, int64_t[::1] mark) noexcept

    @cython.locals(entry=int64_t)
    cdef void add_results(self, int64_t[::1] mark, int64_t step) noexcept

    @cython.locals(entry=int64_t, tensor=int64_t, maker=int64_t)
    cdef void add_inputs(self, int64_t[::1] mark, int64_t step) noexcept

    @cython.locals(
        begin=int64_t, end=int64_t, is_live=cython.bint, entry=int64_t, net=int64_t,
        reader=int64_t,
    )
    cdef void add_tensor(self, int64_t[::1] mark, int64_t tensor, int64_t node) noexcept

    cdef void add_edge(self, int64_t begin, int64_t end, int64_t room) noexcept

    cdef void add_half(self, int64_t begin, int64_t end, int64_t room) noexcept

    @cython.locals(node=int64_t, first=int64_t, last=int64_t, edge=int64_t, head=int64_t)
    cdef bint levels(self) noexcept

    @cython.locals(depth=int64_t, node=int64_t, edge=int64_t, head=int64_t)
    cdef void augment(self) noexcept

    @cython.locals(most=int64_t, k=int64_t, full=int64_t, edge=int64_t)
    cdef int64_t push(self, int64_t depth) noexcept

    @cython.locals(node=int64_t, first=int64_t, last=int64_t, edge=int64_t, head=int64_t)
    cdef void reach_sink(self) noexcept


cdef int64_t twin(int64_t edge) noexcept
