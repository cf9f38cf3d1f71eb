cimport cython

ctypedef fused number:
    float
    float complex

@cython.locals(
    height=cython.Py_ssize_t, width=cython.Py_ssize_t, down=cython.Py_ssize_t,
    across=cython.Py_ssize_t, above=cython.Py_ssize_t, before=cython.Py_ssize_t,
    p=cython.Py_ssize_t, x=cython.Py_ssize_t, a=cython.Py_ssize_t, q=cython.Py_ssize_t,
    row=cython.Py_ssize_t, factor=number, b=cython.Py_ssize_t, channel=cython.Py_ssize_t,
    tile_row=cython.Py_ssize_t, tile=cython.Py_ssize_t,
)
cpdef forwards_by_channels(
    const float[:, :, ::1] source, const number[:, ::1] row_points,
    const number[:, ::1] column_points, spacing, corner, number[::1] line,
    number[:, :, :, :, :] transformed,
)

@cython.locals(
    height=cython.Py_ssize_t, width=cython.Py_ssize_t, channels=cython.Py_ssize_t,
    down=cython.Py_ssize_t, across=cython.Py_ssize_t, above=cython.Py_ssize_t,
    before=cython.Py_ssize_t, p=cython.Py_ssize_t, x=cython.Py_ssize_t, a=cython.Py_ssize_t,
    q=cython.Py_ssize_t, row=cython.Py_ssize_t, factor=number, b=cython.Py_ssize_t,
    tile_row=cython.Py_ssize_t, channel=cython.Py_ssize_t, tile=cython.Py_ssize_t,
)
cpdef forwards_by_places(
    const float[:, :, ::1] source, const number[:, ::1] row_points,
    const number[:, ::1] column_points, spacing, corner, number[:, ::1] line,
    number[:, :, :, :, :] transformed,
)

@cython.locals(
    width=cython.Py_ssize_t, m=cython.Py_ssize_t, y=cython.Py_ssize_t, q=cython.Py_ssize_t,
    n=cython.Py_ssize_t, p=cython.Py_ssize_t, tiles=cython.Py_ssize_t, factor=number,
    part=cython.floatcomplex, filter_=cython.Py_ssize_t, down=cython.Py_ssize_t,
    across=cython.Py_ssize_t, tile_row=cython.Py_ssize_t, tile=cython.Py_ssize_t,
)
cpdef backwards_by_channels(
    const number[:, :, :, :, :] products, const number[:, ::1] row_results,
    const number[:, ::1] column_results, Py_ssize_t first, number[:, ::1] line,
    float[:, :, ::1] output,
)

@cython.locals(
    filters=cython.Py_ssize_t, m=cython.Py_ssize_t, y=cython.Py_ssize_t, q=cython.Py_ssize_t,
    n=cython.Py_ssize_t, p=cython.Py_ssize_t, x=cython.Py_ssize_t, factor=number,
    part=cython.floatcomplex, tile_row=cython.Py_ssize_t, down=cython.Py_ssize_t,
    across=cython.Py_ssize_t, tile=cython.Py_ssize_t, filter_=cython.Py_ssize_t,
)
cpdef backwards_by_places(
    const number[:, :, :, :, :] products, const number[:, ::1] row_results,
    const number[:, ::1] column_results, Py_ssize_t first, number[:, ::1] line,
    float[:, :, ::1] output,
)
