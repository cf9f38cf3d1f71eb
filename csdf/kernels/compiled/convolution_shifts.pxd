cimport cython

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
