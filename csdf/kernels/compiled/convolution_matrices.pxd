cimport cython

@cython.locals(
    c=cython.Py_ssize_t, down=cython.Py_ssize_t, across=cython.Py_ssize_t,
    row_dilation=cython.Py_ssize_t, column_dilation=cython.Py_ssize_t,
    top=cython.Py_ssize_t, left=cython.Py_ssize_t, channels=cython.Py_ssize_t,
    kernel_rows=cython.Py_ssize_t, kernel_columns=cython.Py_ssize_t, rows=cython.Py_ssize_t,
    places=cython.Py_ssize_t, height=cython.Py_ssize_t, width=cython.Py_ssize_t,
    i=cython.Py_ssize_t, j=cython.Py_ssize_t, shift=cython.Py_ssize_t,
    begin=cython.Py_ssize_t, end=cython.Py_ssize_t, y=cython.Py_ssize_t,
    row=cython.Py_ssize_t, x=cython.Py_ssize_t,
)
cpdef columns(
    const float[:, :, :] source, steps, Py_ssize_t first, float[:, :, :, :, :] lowered,
)

@cython.locals(
    y=cython.Py_ssize_t, down=cython.Py_ssize_t, across=cython.Py_ssize_t,
    row_dilation=cython.Py_ssize_t, column_dilation=cython.Py_ssize_t,
    top=cython.Py_ssize_t, left=cython.Py_ssize_t, places=cython.Py_ssize_t,
    columns_out=cython.Py_ssize_t, kernel_rows=cython.Py_ssize_t,
    kernel_columns=cython.Py_ssize_t, channels=cython.Py_ssize_t, height=cython.Py_ssize_t,
    width=cython.Py_ssize_t, x=cython.Py_ssize_t, i=cython.Py_ssize_t,
    row=cython.Py_ssize_t, j=cython.Py_ssize_t, column=cython.Py_ssize_t,
    c=cython.Py_ssize_t,
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
