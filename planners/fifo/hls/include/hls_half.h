// half: binary16, computed in float and rounded after each operation. Written for csdf.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <limits>
#include <type_traits>

class half {
  public:
    static constexpr unsigned csdf_bits = 16;
    half() = default;
    template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
    half(T x) : bits_(rounded(double(x))) {}
    template <class T, std::enable_if_t<std::is_class_v<T> && std::is_convertible_v<T, double> &&
                                            !std::is_same_v<T, half>, int> = 0>
    explicit half(const T& x) : bits_(rounded(double(x))) {}
    operator float() const { return value(); }

    half operator-() const { return from_bits(bits_ ^ 0x8000); }
    half operator+() const { return *this; }
    half& operator+=(half x) { return *this = half(value() + x.value()); }
    half& operator-=(half x) { return *this = half(value() - x.value()); }
    half& operator*=(half x) { return *this = half(value() * x.value()); }
    half& operator/=(half x) { return *this = half(value() / x.value()); }
    half& operator++() { return *this += half(1); }
    half& operator--() { return *this -= half(1); }
    std::uint16_t get_bits() const { return bits_; }
    void set_bits(std::uint16_t bits) { bits_ = bits; }
    static half from_bits(std::uint16_t bits) {
        half x;
        x.bits_ = bits;
        return x;
    }

  private:
    float value() const {
        const int exponent = bits_ >> 10 & 31, fraction = bits_ & 1023;
        float size = exponent == 31 ? (fraction ? NAN : INFINITY)
                     : exponent     ? std::ldexp(float(1024 + fraction), exponent - 25)
                                    : std::ldexp(float(fraction), -24);
        return bits_ & 0x8000 ? -size : size;
    }
    static std::uint16_t rounded(double x) {  // to the nearest, ties to even
        const std::uint16_t sign = std::signbit(x) ? 0x8000 : 0;
        x = std::fabs(x);
        if (x != x) {
            return 0x7e00;
        }
        int exponent;
        std::frexp(x, &exponent);  // x < 2^exponent
        exponent = x < 6.103515625e-05 ? -13 : exponent;
        const double steps = std::isinf(x) ? x : std::nearbyint(std::ldexp(x, 11 - exponent));
        if (std::ldexp(steps, exponent - 11) >= 65536.0) {
            return sign | 0x7c00;
        }
        // In steps of the last place: 1024 of them carry into the exponent by themselves.
        return std::uint16_t(sign + ((exponent + 13) << 10) + int(steps));
    }
    std::uint16_t bits_ = 0;
};

#define CSDF_HALF(sign)                                                              \
    inline half operator sign(half a, half b) { return half(float(a) sign float(b)); } \
    template <class T, std::enable_if_t<std::is_integral_v<T>, int> = 0>             \
    half operator sign(half a, T b) {                                                \
        return a sign half(b);                                                       \
    }                                                                                \
    template <class T, std::enable_if_t<std::is_integral_v<T>, int> = 0>             \
    half operator sign(T a, half b) {                                                \
        return half(a) sign b;                                                       \
    }
CSDF_HALF(+)
CSDF_HALF(-)
CSDF_HALF(*)
CSDF_HALF(/)
#undef CSDF_HALF
inline std::ostream& operator<<(std::ostream& out, half x) { return out << float(x); }
