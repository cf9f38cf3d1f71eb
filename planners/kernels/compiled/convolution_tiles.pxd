cimport cython

ctypedef fused number:
    float
    float complex

@cython.locals(
    c=cython.Py_ssize_t, height=cython.Py_ssize_t, width=cython.Py_ssize_t,
    down=cython.Py_ssize_t, across=cython.Py_ssize_t, above=cython.Py_ssize_t,
    before=cython.Py_ssize_t, ty=cython.Py_ssize_t, p=cython.Py_ssize_t,
    x=cython.Py_ssize_t, a=cython.Py_ssize_t, q=cython.Py_ssize_t, row=cython.Py_ssize_t,
    factor=number, tx=cython.Py_ssize_t, b=cython.Py_ssize_t,
)
cpdef forwards_by_channels(
    const float[:, :, ::1] source, const number[:, ::1] row_points,
    const number[:, ::1] column_points, spacing, corner, Py_ssize_t first, number[::1] line,
    number[:, :, :, :, :] transformed,
)

@cython.locals(
    ty=cython.Py_ssize_t, height=cython.Py_ssize_t, width=cython.Py_ssize_t,
    channels=cython.Py_ssize_t, down=cython.Py_ssize_t, across=cython.Py_ssize_t,
    above=cython.Py_ssize_t, before=cython.Py_ssize_t, p=cython.Py_ssize_t,
    x=cython.Py_ssize_t, a=cython.Py_ssize_t, q=cython.Py_ssize_t, c=cython.Py_ssize_t,
    row=cython.Py_ssize_t, factor=number, tx=cython.Py_ssize_t, b=cython.Py_ssize_t,
)
cpdef forwards_by_places(
    const float[:, :, ::1] source, const number[:, ::1] row_points,
    const number[:, ::1] column_points, spacing, corner, Py_ssize_t first, number[:, ::1] line,
    number[:, :, :, :, :] transformed,
)

@cython.locals(
    spacing=cython.Py_ssize_t, width=cython.Py_ssize_t, f=cython.Py_ssize_t,
    ty=cython.Py_ssize_t, m=cython.Py_ssize_t, y=cython.Py_ssize_t, q=cython.Py_ssize_t,
    n=cython.Py_ssize_t, tx=cython.Py_ssize_t, p=cython.Py_ssize_t, tiles=cython.Py_ssize_t,
    factor=number, part=cython.floatcomplex,
)
cpdef backwards_by_channels(
    const number[:, :, :, :, :] products, const number[:, ::1] row_results,
    const number[:, ::1] column_results, Py_ssize_t first, number[:, ::1] line,
    float[:, :, ::1] output,
)

@cython.locals(
    spacing=cython.Py_ssize_t, filters=cython.Py_ssize_t, ty=cython.Py_ssize_t,
    tx=cython.Py_ssize_t, m=cython.Py_ssize_t, y=cython.Py_ssize_t, q=cython.Py_ssize_t,
    n=cython.Py_ssize_t, f=cython.Py_ssize_t, p=cython.Py_ssize_t, x=cython.Py_ssize_t,
    factor=number, part=cython.floatcomplex,
)
cpdef backwards_by_places(
    const number[:, :, :, :, :] products, const number[:, ::1] row_results,
    const number[:, ::1] column_results, Py_ssize_t first, number[:, ::1] line,
    float[:, :, ::1] output,
)
