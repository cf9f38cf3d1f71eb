// ap_int and ap_uint. Written for csdf from their public documentation.
#pragma once
#include "csdf_bits.h"

template <int W>
struct ap_int : ap_int_base<W, true> {
    using Base = ap_int_base<W, true>;
    using Base::Base;
    using Base::operator=;
    ap_int() = default;
    ap_int(const ap_int&) = default;
    ap_int& operator=(const ap_int&) = default;
    ap_int(const Base& x) : Base(x) {}
};

template <int W>
struct ap_uint : ap_int_base<W, false> {
    using Base = ap_int_base<W, false>;
    using Base::Base;
    using Base::operator=;
    ap_uint() = default;
    ap_uint(const ap_uint&) = default;
    ap_uint& operator=(const ap_uint&) = default;
    ap_uint(const Base& x) : Base(x) {}
};
