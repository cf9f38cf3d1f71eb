cimport cython

cdef Py_ssize_t MAXIMUM, MEAN

@cython.locals(
    f=cython.Py_ssize_t, shift=cython.float, y=cython.Py_ssize_t, x=cython.Py_ssize_t,
    value=cython.float,
)
cpdef finish_by_channels(
    float[:, :, ::1] output, const float[::1] bias, float slope, float low, float high,
)

@cython.locals(
    y=cython.Py_ssize_t, x=cython.Py_ssize_t, f=cython.Py_ssize_t, value=cython.float,
)
cpdef finish_by_places(
    float[:, :, ::1] output, const float[::1] bias, float slope, float low, float high,
)

@cython.locals(
    c=cython.Py_ssize_t, y=cython.Py_ssize_t, x=cython.Py_ssize_t,
)
cpdef scale_by_channels(
    const float[:, :, ::1] source, const float[::1] factor, const float[::1] shift,
    float[:, :, ::1] output,
)

@cython.locals(
    y=cython.Py_ssize_t, x=cython.Py_ssize_t, c=cython.Py_ssize_t,
)
cpdef scale_by_places(
    const float[:, :, ::1] source, const float[::1] factor, const float[::1] shift,
    float[:, :, ::1] output,
)

@cython.locals(
    c=cython.Py_ssize_t, down=cython.Py_ssize_t, across=cython.Py_ssize_t,
    row_dilation=cython.Py_ssize_t, column_dilation=cython.Py_ssize_t, top=cython.Py_ssize_t,
    left=cython.Py_ssize_t, height=cython.Py_ssize_t, width=cython.Py_ssize_t,
    y=cython.Py_ssize_t, x=cython.Py_ssize_t, i=cython.Py_ssize_t, row=cython.Py_ssize_t,
    j=cython.Py_ssize_t, shift=cython.Py_ssize_t, first=cython.Py_ssize_t,
    end=cython.Py_ssize_t,
)
cpdef pool_by_channels(
    const float[:, :, ::1] source, kernel, steps, Py_ssize_t function, float outside,
    const float[:, ::1] counts, float[:, :, ::1] output,
)

@cython.locals(
    y=cython.Py_ssize_t, down=cython.Py_ssize_t, across=cython.Py_ssize_t,
    row_dilation=cython.Py_ssize_t, column_dilation=cython.Py_ssize_t, top=cython.Py_ssize_t,
    left=cython.Py_ssize_t, height=cython.Py_ssize_t, width=cython.Py_ssize_t,
    x=cython.Py_ssize_t, c=cython.Py_ssize_t, i=cython.Py_ssize_t, row=cython.Py_ssize_t,
    j=cython.Py_ssize_t, column=cython.Py_ssize_t,
)
cpdef pool_by_places(
    const float[:, :, ::1] source, kernel, steps, Py_ssize_t function, float outside,
    const float[:, ::1] counts, float[:, :, ::1] output,
)

@cython.locals(
    channels=cython.Py_ssize_t, c=cython.Py_ssize_t, y=cython.Py_ssize_t, x=cython.Py_ssize_t,
    near=cython.Py_ssize_t,
)
cpdef neighbour_squares_by_channels(
    const float[:, :, ::1] source, Py_ssize_t before, Py_ssize_t after, float[:, :, ::1] output,
)

@cython.locals(
    channels=cython.Py_ssize_t, y=cython.Py_ssize_t, x=cython.Py_ssize_t, c=cython.Py_ssize_t,
    near=cython.Py_ssize_t,
)
cpdef neighbour_squares_by_places(
    const float[:, :, ::1] source, Py_ssize_t before, Py_ssize_t after, float[:, :, ::1] output,
)

@cython.locals(
    top=cython.Py_ssize_t, height=cython.Py_ssize_t, width=cython.Py_ssize_t,
    left=cython.Py_ssize_t, j=cython.Py_ssize_t, i=cython.Py_ssize_t,
)
cpdef transpose(
    const float[:, ::1] source, float[:, ::1] output, Py_ssize_t block,
)

@cython.locals(
    c=cython.Py_ssize_t, down=cython.Py_ssize_t, across=cython.Py_ssize_t,
    row_dilation=cython.Py_ssize_t, column_dilation=cython.Py_ssize_t, top=cython.Py_ssize_t,
    left=cython.Py_ssize_t, places=cython.Py_ssize_t, height=cython.Py_ssize_t,
    width=cython.Py_ssize_t, i=cython.Py_ssize_t, j=cython.Py_ssize_t, shift=cython.Py_ssize_t,
    begin=cython.Py_ssize_t, end=cython.Py_ssize_t, y=cython.Py_ssize_t, row=cython.Py_ssize_t,
    x=cython.Py_ssize_t,
)
cpdef columns(
    const float[:, :, :] source, steps, Py_ssize_t first, float[:, :, :, :, :] lowered,
)

@cython.locals(
    y=cython.Py_ssize_t, down=cython.Py_ssize_t, across=cython.Py_ssize_t,
    row_dilation=cython.Py_ssize_t, column_dilation=cython.Py_ssize_t, top=cython.Py_ssize_t,
    left=cython.Py_ssize_t, channels=cython.Py_ssize_t, height=cython.Py_ssize_t,
    width=cython.Py_ssize_t, x=cython.Py_ssize_t, i=cython.Py_ssize_t, row=cython.Py_ssize_t,
    j=cython.Py_ssize_t, column=cython.Py_ssize_t, c=cython.Py_ssize_t,
)
cpdef rows(
    const float[:, :, :] source, steps, Py_ssize_t first, float[:, :, :, :, :] lowered,
)

@cython.locals(
    f=cython.Py_ssize_t, top=cython.Py_ssize_t, bottom=cython.Py_ssize_t,
    left=cython.Py_ssize_t, right=cython.Py_ssize_t, down=cython.Py_ssize_t,
    across=cython.Py_ssize_t, y=cython.Py_ssize_t, x=cython.Py_ssize_t,
)
cpdef add_by_channels(
    const float[:, :, :, ::1] products, Py_ssize_t tap, part, float[:, :, ::1] output,
)

@cython.locals(
    y=cython.Py_ssize_t, top=cython.Py_ssize_t, bottom=cython.Py_ssize_t,
    left=cython.Py_ssize_t, right=cython.Py_ssize_t, down=cython.Py_ssize_t,
    across=cython.Py_ssize_t, x=cython.Py_ssize_t, f=cython.Py_ssize_t,
)
cpdef add_by_places(
    const float[:, :, :, ::1] products, Py_ssize_t tap, part, float[:, :, ::1] output,
)
