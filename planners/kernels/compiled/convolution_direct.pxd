cimport cython

@cython.locals(
    group_filters=cython.Py_ssize_t, f=cython.Py_ssize_t, down=cython.Py_ssize_t,
    across=cython.Py_ssize_t, row_dilation=cython.Py_ssize_t, column_dilation=cython.Py_ssize_t,
    top=cython.Py_ssize_t, left=cython.Py_ssize_t, group_channels=cython.Py_ssize_t,
    height=cython.Py_ssize_t, width=cython.Py_ssize_t, first_channel=cython.Py_ssize_t,
    y=cython.Py_ssize_t, c=cython.Py_ssize_t, x=cython.Py_ssize_t, i=cython.Py_ssize_t,
    j=cython.Py_ssize_t, weight=cython.float, shift=cython.Py_ssize_t, first=cython.Py_ssize_t,
    row=cython.Py_ssize_t, end=cython.Py_ssize_t,
)
cpdef by_maps(
    const float[:, :, :] source, const float[:, :, :, ::1] kernel, steps, float[:, :, :] output,
)

cpdef by_rows(
    const float[:, :, :] source, const float[:, :, :, ::1] kernel, steps, float[:, :, :] output,
)

cpdef by_rows_of_all_filters(
    const float[:, :, :] source, const float[:, :, :, ::1] kernel, steps, float[:, :, :] output,
)

@cython.locals(
    group_filters=cython.Py_ssize_t, f=cython.Py_ssize_t, down=cython.Py_ssize_t,
    across=cython.Py_ssize_t, row_dilation=cython.Py_ssize_t, column_dilation=cython.Py_ssize_t,
    top=cython.Py_ssize_t, left=cython.Py_ssize_t, group_channels=cython.Py_ssize_t,
    height=cython.Py_ssize_t, width=cython.Py_ssize_t, first_channel=cython.Py_ssize_t,
    y=cython.Py_ssize_t, x=cython.Py_ssize_t, c=cython.Py_ssize_t, i=cython.Py_ssize_t,
    row=cython.Py_ssize_t, j=cython.Py_ssize_t, weight=cython.float, shift=cython.Py_ssize_t,
    first=cython.Py_ssize_t, turn=cython.Py_ssize_t, end=cython.Py_ssize_t,
)
cdef _row_by_row(
    const float[:, :, :] source, const float[:, :, :, ::1] kernel, steps, float[:, :, :] output,
    Py_ssize_t filter_turns, Py_ssize_t row_turns,
)

@cython.locals(
    block=cython.Py_ssize_t, down=cython.Py_ssize_t, across=cython.Py_ssize_t,
    row_dilation=cython.Py_ssize_t, column_dilation=cython.Py_ssize_t, top=cython.Py_ssize_t,
    left=cython.Py_ssize_t, height=cython.Py_ssize_t, width=cython.Py_ssize_t,
    f=cython.Py_ssize_t, y=cython.Py_ssize_t, x=cython.Py_ssize_t, c=cython.Py_ssize_t,
    i=cython.Py_ssize_t, row=cython.Py_ssize_t, j=cython.Py_ssize_t, shift=cython.Py_ssize_t,
    first=cython.Py_ssize_t, weight0=cython.float, weight1=cython.float, weight2=cython.float,
    weight3=cython.float, element=cython.float, end=cython.Py_ssize_t,
)
cpdef by_four_filters(
    const float[:, :, :] source, const float[:, :, :, :, ::1] kernel, steps,
    float[:, :, ::1] output,
)

@cython.locals(
    group_channels=cython.Py_ssize_t, y=cython.Py_ssize_t, down=cython.Py_ssize_t,
    across=cython.Py_ssize_t, row_dilation=cython.Py_ssize_t, column_dilation=cython.Py_ssize_t,
    top=cython.Py_ssize_t, left=cython.Py_ssize_t, channels=cython.Py_ssize_t,
    group_filters=cython.Py_ssize_t, height=cython.Py_ssize_t, width=cython.Py_ssize_t,
    x=cython.Py_ssize_t, f=cython.Py_ssize_t, i=cython.Py_ssize_t, row=cython.Py_ssize_t,
    j=cython.Py_ssize_t, column=cython.Py_ssize_t, c=cython.Py_ssize_t, element=cython.float,
    first=cython.Py_ssize_t,
)
cpdef by_places(
    const float[:, :, :] source, const float[:, :, :, ::1] kernel, steps,
    float[:, :, ::1] output,
)

@cython.locals(
    y=cython.Py_ssize_t, down=cython.Py_ssize_t, across=cython.Py_ssize_t,
    row_dilation=cython.Py_ssize_t, column_dilation=cython.Py_ssize_t, top=cython.Py_ssize_t,
    left=cython.Py_ssize_t, channels=cython.Py_ssize_t, filters=cython.Py_ssize_t,
    height=cython.Py_ssize_t, width=cython.Py_ssize_t, x=cython.Py_ssize_t,
    places=cython.Py_ssize_t, place=cython.Py_ssize_t, i=cython.Py_ssize_t, f=cython.Py_ssize_t,
    row=cython.Py_ssize_t, j=cython.Py_ssize_t, column=cython.Py_ssize_t, c=cython.Py_ssize_t,
    there=cython.Py_ssize_t, element0=cython.float, element1=cython.float,
    element2=cython.float, element3=cython.float, element=cython.float, weight=cython.float,
)
cpdef by_four_places(
    const float[:, :, :] source, const float[:, :, :, ::1] kernel, steps,
    float[:, :, ::1] output,
)

@cython.locals(
    y=cython.Py_ssize_t, down=cython.Py_ssize_t, across=cython.Py_ssize_t,
    row_dilation=cython.Py_ssize_t, column_dilation=cython.Py_ssize_t, top=cython.Py_ssize_t,
    left=cython.Py_ssize_t, channels=cython.Py_ssize_t, height=cython.Py_ssize_t,
    width=cython.Py_ssize_t, x=cython.Py_ssize_t, c=cython.Py_ssize_t, i=cython.Py_ssize_t,
    row=cython.Py_ssize_t, j=cython.Py_ssize_t, column=cython.Py_ssize_t,
)
cpdef depthwise_by_places(
    const float[:, :, ::1] source, const float[:, :, ::1] kernel, steps, float[:, :, ::1] output,
)
