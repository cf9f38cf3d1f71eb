// hls::vector: N values, with the operations of one on all of them. Written for csdf.
#pragma once
#include <array>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <type_traits>

#include "csdf_trace.h"

namespace hls {

template <class T, std::size_t N>
class vector {
  public:
    static constexpr unsigned csdf_bits = N * csdf_trace::bits_of<T>::value;
    using value_type = T;
    using iterator = T*;
    using const_iterator = const T*;

    vector() = default;
    vector(const T& all) {
        for (T& x : values_) {
            x = all;
        }
    }
    template <class U, std::enable_if_t<std::is_convertible_v<U, T> && !std::is_same_v<U, T>, int> = 0>
    vector(const U& all) : vector(T(all)) {}
    vector(std::initializer_list<T> list) {
        std::size_t i = 0;
        for (const T& x : list) {
            if (i < N) {
                values_[i++] = x;
            }
        }
    }
    vector(const std::array<T, N>& list) : values_(list) {}

    T& operator[](std::size_t i) { return values_[i]; }
    const T& operator[](std::size_t i) const { return values_[i]; }
    static constexpr std::size_t size() { return N; }
    T* begin() { return values_.data(); }
    T* end() { return values_.data() + N; }
    const T* begin() const { return values_.data(); }
    const T* end() const { return values_.data() + N; }

#define CSDF_EACH(sign)                                          \
    vector& operator sign##=(const vector& other) {              \
        for (std::size_t i = 0; i < N; i++) {                    \
            values_[i] = T(values_[i] sign other.values_[i]);    \
        }                                                        \
        return *this;                                            \
    }                                                            \
    friend vector operator sign(const vector& a, const vector& b) { \
        vector result(a);                                        \
        result sign##= b;                                        \
        return result;                                           \
    }
    CSDF_EACH(+)
    CSDF_EACH(-)
    CSDF_EACH(*)
    CSDF_EACH(/)
    CSDF_EACH(%)
    CSDF_EACH(&)
    CSDF_EACH(|)
    CSDF_EACH(^)
    CSDF_EACH(<<)
    CSDF_EACH(>>)
#undef CSDF_EACH
    vector operator-() const {
        vector result;
        for (std::size_t i = 0; i < N; i++) {
            result[i] = T(-values_[i]);
        }
        return result;
    }
    vector operator~() const {
        vector result;
        for (std::size_t i = 0; i < N; i++) {
            result[i] = T(~values_[i]);
        }
        return result;
    }
    vector& operator++() { return *this += vector(T(1)); }
    vector& operator--() { return *this -= vector(T(1)); }
    friend bool operator==(const vector& a, const vector& b) {
        for (std::size_t i = 0; i < N; i++) {
            if (!(a[i] == b[i])) {
                return false;
            }
        }
        return true;
    }
    friend bool operator!=(const vector& a, const vector& b) { return !(a == b); }

    T reduce_add() const { return reduce([](const T& a, const T& b) { return T(a + b); }); }
    T reduce_mult() const { return reduce([](const T& a, const T& b) { return T(a * b); }); }
    T reduce_and() const { return reduce([](const T& a, const T& b) { return T(a & b); }); }
    T reduce_or() const { return reduce([](const T& a, const T& b) { return T(a | b); }); }
    T reduce_xor() const { return reduce([](const T& a, const T& b) { return T(a ^ b); }); }
    vector& lrotate(std::size_t n) {
        vector old(*this);
        for (std::size_t i = 0; i < N; i++) {
            values_[i] = old[(i + n) % N];
        }
        return *this;
    }
    vector& rrotate(std::size_t n) { return lrotate(N - n % N); }

  private:
    template <class Deed>
    T reduce(Deed deed) const {
        T result = values_[0];
        for (std::size_t i = 1; i < N; i++) {
            result = deed(result, values_[i]);
        }
        return result;
    }
    std::array<T, N> values_{};
};

}  // namespace hls
