// hls:: mathematics: the functions of <cmath>, also for half and fixed point (computed in double, then
// rounded as on assignment). Written for csdf.
#pragma once
#include <math.h>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <type_traits>

#include "hls_half.h"

namespace hls {

template <class T>
using csdf_result = std::conditional_t<std::is_integral_v<T>, double, T>;

#define CSDF_ONE(name, value)                                            \
    template <class T>                                                   \
    csdf_result<T> name(T x_) {                                          \
        if constexpr (std::is_same_v<T, float>) {                        \
            const float x = x_;                                          \
            return csdf_result<T>(value);                                \
        } else {                                                         \
            const double x = double(x_);                                 \
            return csdf_result<T>(value);                                \
        }                                                                \
    }
#define CSDF_TWO(name, value)                                            \
    template <class T, class U>                                          \
    csdf_result<T> name(T x_, U y_) {                                    \
        if constexpr (std::is_same_v<T, float> && std::is_same_v<U, float>) { \
            const float x = x_, y = y_;                                  \
            return csdf_result<T>(value);                                \
        } else {                                                         \
            const double x = double(x_), y = double(y_);                 \
            return csdf_result<T>(value);                                \
        }                                                                \
    }
#define CSDF_SAME(name) CSDF_ONE(name, std::name(x)) inline float name##f(float x) { return std::name(x); } \
    inline half half_##name(half x) { return half(std::name(float(x))); }
CSDF_SAME(sqrt)
CSDF_SAME(cbrt)
CSDF_SAME(exp)
CSDF_SAME(exp2)
CSDF_SAME(expm1)
CSDF_SAME(log)
CSDF_SAME(log2)
CSDF_SAME(log10)
CSDF_SAME(log1p)
CSDF_SAME(logb)
CSDF_SAME(sin)
CSDF_SAME(cos)
CSDF_SAME(tan)
CSDF_SAME(asin)
CSDF_SAME(acos)
CSDF_SAME(atan)
CSDF_SAME(sinh)
CSDF_SAME(cosh)
CSDF_SAME(tanh)
CSDF_SAME(asinh)
CSDF_SAME(acosh)
CSDF_SAME(atanh)
CSDF_SAME(erf)
CSDF_SAME(erfc)
CSDF_SAME(tgamma)
CSDF_SAME(lgamma)
CSDF_SAME(floor)
CSDF_SAME(ceil)
CSDF_SAME(round)
CSDF_SAME(rint)
CSDF_SAME(nearbyint)
CSDF_SAME(trunc)
CSDF_SAME(fabs)
CSDF_ONE(exp10, std::pow(decltype(x)(10), x))
CSDF_ONE(rsqrt, 1 / std::sqrt(x))
CSDF_ONE(recip, 1 / x)
CSDF_ONE(sinpi, std::sin(x * decltype(x)(3.14159265358979323846)))
CSDF_ONE(cospi, std::cos(x * decltype(x)(3.14159265358979323846)))
CSDF_ONE(tanpi, std::tan(x * decltype(x)(3.14159265358979323846)))
CSDF_TWO(pow, std::pow(x, y))
CSDF_TWO(pown, std::pow(x, y))
CSDF_TWO(powr, std::pow(x, y))
CSDF_TWO(rootn, std::pow(x, 1 / y))
CSDF_TWO(atan2, std::atan2(x, y))
CSDF_TWO(fmod, std::fmod(x, y))
CSDF_TWO(remainder, std::remainder(x, y))
CSDF_TWO(hypot, std::hypot(x, y))
CSDF_TWO(fmax, std::fmax(x, y))
CSDF_TWO(fmin, std::fmin(x, y))
CSDF_TWO(fdim, std::fdim(x, y))
CSDF_TWO(copysign, std::copysign(x, y))
CSDF_TWO(divide, x / y)
inline float powf(float x, float y) { return std::pow(x, y); }
inline float fmaxf(float x, float y) { return std::fmax(x, y); }
inline float fminf(float x, float y) { return std::fmin(x, y); }
inline float fmodf(float x, float y) { return std::fmod(x, y); }
inline float atan2f(float x, float y) { return std::atan2(x, y); }

template <class T>
T abs(T x) {
    return x < T(0) ? T(-x) : x;
}
template <class T>
T max(T x, T y) {
    return x < y ? y : x;
}
template <class T>
T min(T x, T y) {
    return y < x ? y : x;
}
template <class T>
T fma(T x, T y, T z) {
    return T(x * y + z);
}
template <class T>
T mad(T x, T y, T z) {
    return T(x * y + z);
}
template <class T>
void sincos(T x, T* sine, T* cosine) {
    *sine = hls::sin(x);
    *cosine = hls::cos(x);
}
template <class T>
T ldexp(T x, int exponent) {
    return T(std::ldexp(double(x), exponent));
}
template <class T>
T frexp(T x, int* exponent) {
    return T(std::frexp(double(x), exponent));
}
template <class T>
T modf(T x, T* whole) {
    double part;
    double rest = std::modf(double(x), &part);
    *whole = T(part);
    return T(rest);
}
template <class T>
int ilogb(T x) {
    return std::ilogb(double(x));
}
template <class T>
long lround(T x) {
    return std::lround(double(x));
}
template <class T>
long lrint(T x) {
    return std::lrint(double(x));
}
template <class T>
long long llround(T x) {
    return std::llround(double(x));
}
template <class T>
bool isnan(T x) {
    return std::isnan(double(x));
}
template <class T>
bool isinf(T x) {
    return std::isinf(double(x));
}
template <class T>
bool isfinite(T x) {
    return std::isfinite(double(x));
}
template <class T>
bool isnormal(T x) {
    return std::isnormal(double(x));
}
template <class T>
bool signbit(T x) {
    return std::signbit(double(x));
}

#undef CSDF_SAME
#undef CSDF_ONE
#undef CSDF_TWO

}  // namespace hls
