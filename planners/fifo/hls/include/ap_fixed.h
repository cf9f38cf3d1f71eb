// ap_fixed and ap_ufixed. Written for csdf from their public documentation.
#pragma once
#include "ap_int.h"

template <int W, int I, ap_q_mode Q = AP_TRN, ap_o_mode O = AP_WRAP, int N = 0>
struct ap_fixed : ap_fixed_base<W, I, true, Q, O, N> {
    using Base = ap_fixed_base<W, I, true, Q, O, N>;
    using Base::Base;
    using Base::operator=;
    ap_fixed() = default;
    ap_fixed(const ap_fixed&) = default;
    ap_fixed& operator=(const ap_fixed&) = default;
    ap_fixed(const Base& x) : Base(x) {}
};

template <int W, int I, ap_q_mode Q = AP_TRN, ap_o_mode O = AP_WRAP, int N = 0>
struct ap_ufixed : ap_fixed_base<W, I, false, Q, O, N> {
    using Base = ap_fixed_base<W, I, false, Q, O, N>;
    using Base::Base;
    using Base::operator=;
    ap_ufixed() = default;
    ap_ufixed(const ap_ufixed&) = default;
    ap_ufixed& operator=(const ap_ufixed&) = default;
    ap_ufixed(const Base& x) : Base(x) {}
};
