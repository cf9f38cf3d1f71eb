// ap_float: a floating-point number of W bits with E of them for the exponent, rounded to the nearest
// after each operation; without subnormal numbers. Written for csdf.
#pragma once
#include <cmath>
#include <iostream>
#include <type_traits>

template <int W, int E>
class ap_float {
  public:
    static constexpr unsigned csdf_bits = W;
    static constexpr int width = W, exp_width = E;
    ap_float() = default;
    template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
    ap_float(T x) : value_(rounded(double(x))) {}
    template <int W2, int E2>
    ap_float(const ap_float<W2, E2>& x) : value_(rounded(double(x))) {}
    operator double() const { return value_; }
    ap_float operator-() const { return ap_float(-value_); }
    ap_float& operator+=(ap_float x) { return *this = ap_float(value_ + x.value_); }
    ap_float& operator-=(ap_float x) { return *this = ap_float(value_ - x.value_); }
    ap_float& operator*=(ap_float x) { return *this = ap_float(value_ * x.value_); }
    ap_float& operator/=(ap_float x) { return *this = ap_float(value_ / x.value_); }
    friend ap_float operator+(ap_float a, ap_float b) { return a += b; }
    friend ap_float operator-(ap_float a, ap_float b) { return a -= b; }
    friend ap_float operator*(ap_float a, ap_float b) { return a *= b; }
    friend ap_float operator/(ap_float a, ap_float b) { return a /= b; }

  private:
    static double rounded(double x) {
        if (x == 0 || std::isnan(x) || std::isinf(x)) {
            return x;
        }
        int exponent;
        constexpr int digits = W - E;  // with the hidden one
        double part = std::ldexp(std::nearbyint(std::ldexp(std::frexp(x, &exponent), digits)), -digits);
        x = std::ldexp(part, exponent);
        std::frexp(x, &exponent);
        constexpr int bias = (1 << (E - 1)) - 1;
        if (exponent - 1 > bias) {
            return std::copysign(INFINITY, x);
        }
        return exponent - 1 < 1 - bias ? std::copysign(0.0, x) : x;
    }
    double value_ = 0;
};
