// Integers and fixed-point numbers of any width, with the widths of results, the rounding and the
// overflow that the documentation of ap_int and ap_fixed states. Written for csdf.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <string>
#include <type_traits>

enum ap_q_mode { AP_RND, AP_RND_ZERO, AP_RND_MIN_INF, AP_RND_INF, AP_RND_CONV, AP_TRN, AP_TRN_ZERO };
enum ap_o_mode { AP_SAT, AP_SAT_ZERO, AP_SAT_SYM, AP_WRAP, AP_WRAP_SM };

template <int W, bool S>
struct ap_int_base;
template <int W, int I, bool S, ap_q_mode Q, ap_o_mode O, int N>
struct ap_fixed_base;
template <int W, bool S>
struct ap_range_ref;
template <int W, bool S>
struct ap_bit_ref;
template <class A, class B>
struct ap_concat_ref;

namespace csdf_bits {

using Limb = std::uint64_t;
constexpr int most(int a, int b) { return a > b ? a : b; }
constexpr int least(int a, int b) { return a < b ? a : b; }

// The number that an operand stands for: an ap_int_base, an ap_fixed_base, or a float.
template <int W, bool S>
const ap_int_base<W, S>& number(const ap_int_base<W, S>& x) {
    return x;
}
template <int W, int I, bool S, ap_q_mode Q, ap_o_mode O, int N>
const ap_fixed_base<W, I, S, Q, O, N>& number(const ap_fixed_base<W, I, S, Q, O, N>& x) {
    return x;
}
template <int W, bool S>
ap_int_base<W, false> number(const ap_range_ref<W, S>& x) {
    return x.get();
}
template <int W, bool S, int ONE = 1>
ap_int_base<ONE, false> number(const ap_bit_ref<W, S>& x) {
    return ap_int_base<ONE, false>(x.get());
}
template <class A, class B>
ap_int_base<ap_concat_ref<A, B>::width, false> number(const ap_concat_ref<A, B>& x) {
    return x.get();
}
template <class T, std::enable_if_t<std::is_integral_v<T> || std::is_enum_v<T>, int> = 0>
auto number(T x) {
    if constexpr (std::is_same_v<T, bool>) {
        return ap_int_base<1, false>(x);
    } else if constexpr (std::is_enum_v<T>) {
        return number(static_cast<std::underlying_type_t<T>>(x));
    } else {
        return ap_int_base<int(sizeof(T)) * 8, (T(-1) < T(0))>(x);
    }
}
template <class T, std::enable_if_t<std::is_floating_point_v<T>, int> = 0>
T number(T x) {
    return x;
}

enum { NONE = 0, WHOLE = 1, FIXED = 2, FLOAT = 3 };

template <class T>
struct kind_of_number {
    static constexpr int value = NONE;
};
template <int W, bool S>
struct kind_of_number<ap_int_base<W, S>> {
    static constexpr int value = WHOLE;
};
template <int W, int I, bool S, ap_q_mode Q, ap_o_mode O, int N>
struct kind_of_number<ap_fixed_base<W, I, S, Q, O, N>> {
    static constexpr int value = FIXED;
};
template <class T, class = void>
struct kind {
    static constexpr int value = NONE;
};
template <class T>
struct kind<T, std::enable_if_t<std::is_arithmetic_v<T> || std::is_enum_v<T>>> {
    static constexpr int value = std::is_floating_point_v<T> ? FLOAT : WHOLE;
};
template <class T, class = void>
struct kind_of_class {
    static constexpr int value = NONE;
};
template <class T>
struct kind_of_class<T, std::void_t<decltype(number(std::declval<const T&>()))>> {
    static constexpr int value = kind_of_number<std::decay_t<decltype(number(std::declval<const T&>()))>>::value;
};
template <class T>
struct kind<T, std::enable_if_t<std::is_class_v<T>>> : kind_of_class<T> {};

template <class T>
constexpr bool is_built_in = std::is_arithmetic_v<T> || std::is_enum_v<T>;
template <class T>
constexpr bool is_ours = !is_built_in<T> && kind<T>::value != NONE;
template <class A, class B>
constexpr bool are_operands = (is_ours<A> || is_ours<B>) && kind<A>::value != NONE && kind<B>::value != NONE;

// An integer as a fixed-point number.
template <int W, bool S>
ap_fixed_base<W, W, S, AP_TRN, AP_WRAP, 0> fixed(const ap_int_base<W, S>& x) {
    ap_fixed_base<W, W, S, AP_TRN, AP_WRAP, 0> result;
    result.V = x;
    return result;
}
template <int W, int I, bool S, ap_q_mode Q, ap_o_mode O, int N>
const ap_fixed_base<W, I, S, Q, O, N>& fixed(const ap_fixed_base<W, I, S, Q, O, N>& x) {
    return x;
}
inline double floating(double x) { return x; }
template <int W, bool S>
double floating(const ap_int_base<W, S>& x) {
    return x.to_double();
}
template <int W, int I, bool S, ap_q_mode Q, ap_o_mode O, int N>
double floating(const ap_fixed_base<W, I, S, Q, O, N>& x) {
    return x.to_double();
}

}  // namespace csdf_bits

// ---------------------------------------------------------------------------------------------------
// Integers: two's complement in limbs of 64 bits, extended to whole limbs by their sign or by zeros.

template <int W, bool S>
struct ap_int_base {
    static_assert(W > 0, "a width is a positive number of bits");
    using Limb = csdf_bits::Limb;
    static constexpr int LIMBS = (W + 63) / 64;
    static constexpr int width = W;
    static constexpr bool sign_flag = S;
    static constexpr unsigned csdf_bits = W;

    Limb v[LIMBS] = {};

    ap_int_base() = default;
    ap_int_base(const ap_int_base&) = default;
    ap_int_base& operator=(const ap_int_base&) = default;
    template <class T, std::enable_if_t<::csdf_bits::kind<T>::value != 0 || ::csdf_bits::is_built_in<T>, int> = 0>
    ap_int_base(const T& x) {
        assign(x);
    }
    ap_int_base(const char* text, signed char radix = 10) { read(text, radix); }
    template <class T, std::enable_if_t<::csdf_bits::kind<T>::value != 0 || ::csdf_bits::is_built_in<T>, int> = 0>
    ap_int_base& operator=(const T& x) {
        assign(x);
        return *this;
    }
    ap_int_base& operator=(const char* text) {
        read(text, 10);
        return *this;
    }

    // ---- limbs
    Limb fill() const { return S && (v[LIMBS - 1] >> 63) ? ~Limb(0) : 0; }
    Limb limb(int i) const { return i < LIMBS ? v[i] : fill(); }
    void settle() {
        if constexpr (W % 64 != 0) {
            constexpr int spare = 64 - W % 64;
            Limb& top = v[LIMBS - 1];
            top = S ? Limb(std::int64_t(top << spare) >> spare) : (top << spare) >> spare;
        }
    }
    template <class T>
    void assign(const T& x) {
        if constexpr (std::is_same_v<T, bool>) {
            std::memset(v, 0, sizeof v);
            v[0] = x;
            settle();
        } else if constexpr (std::is_enum_v<T>) {
            assign(static_cast<std::underlying_type_t<T>>(x));
        } else if constexpr (std::is_floating_point_v<T>) {
            int exponent;
            double part = std::frexp(double(x), &exponent);  // |part| in [1/2, 1)
            if (x != x || std::isinf(double(x))) {
                part = 0;
            }
            std::int64_t whole = std::int64_t(std::ldexp(std::fabs(part), 53));
            exponent -= 53;
            ap_int_base<W + 66, true> wide(exponent <= -64 ? std::int64_t(0) : exponent < 0 ? whole >> -exponent : whole);
            if (exponent > 0) {
                wide = wide << ::csdf_bits::least(exponent, W + 65);
            }
            if (part < 0) {
                wide.negate();
            }
            copy(wide);
        } else if constexpr (std::is_integral_v<T>) {
            v[0] = Limb(x);
            if constexpr (LIMBS > 1) {
                constexpr bool is_wide = sizeof(T) > 8;
                bool is_negative = x < T(0);
                v[1] = is_wide ? Limb(x >> (is_wide ? 64 : 0)) : is_negative ? ~Limb(0) : 0;
                for (int i = 2; i < LIMBS; i++) {
                    v[i] = is_negative ? ~Limb(0) : 0;
                }
            }
            settle();
        } else {
            const auto& y = ::csdf_bits::number(x);
            if constexpr (::csdf_bits::kind<T>::value == ::csdf_bits::FIXED) {
                copy(y.to_ap_int_base());
            } else {
                copy(y);
            }
        }
    }
    template <int W2, bool S2>
    void copy(const ap_int_base<W2, S2>& x) {
        constexpr int common = ::csdf_bits::least(LIMBS, ap_int_base<W2, S2>::LIMBS);
        const Limb rest = x.fill();
        for (int i = 0; i < common; i++) {
            v[i] = x.v[i];
        }
        for (int i = common; i < LIMBS; i++) {
            v[i] = rest;
        }
        settle();
    }
    void negate() {
        Limb carry = 1;
        for (int i = 0; i < LIMBS; i++) {
            v[i] = ~v[i] + carry;
            carry = carry && v[i] == 0;
        }
        settle();
    }
    void read(const char* text, int radix) {
        bool is_negative = false;
        std::memset(v, 0, sizeof v);
        if (*text == '-' || *text == '+') {
            is_negative = *text++ == '-';
        }
        if (text[0] == '0' && text[1]) {
            int found = text[1] == 'x' || text[1] == 'X'   ? 16
                        : text[1] == 'b' || text[1] == 'B' ? 2
                        : text[1] == 'o' || text[1] == 'O' ? 8
                        : text[1] == 'd' || text[1] == 'D' ? 10
                                                           : 0;
            if (found && (radix == 10 || radix == found)) {
                radix = found;
                text += 2;
            }
        }
        ap_int_base<W, false> sum;
        for (; *text; text++) {
            int digit = *text >= '0' && *text <= '9'   ? *text - '0'
                        : *text >= 'a' && *text <= 'z' ? *text - 'a' + 10
                        : *text >= 'A' && *text <= 'Z' ? *text - 'A' + 10
                                                       : 99;
            if (digit < radix) {
                unsigned __int128 carry = digit;
                for (int i = 0; i < LIMBS; i++) {
                    carry += (unsigned __int128)sum.v[i] * unsigned(radix);
                    sum.v[i] = Limb(carry);
                    carry >>= 64;
                }
            }
        }
        copy(sum);
        if (is_negative) {
            negate();
        }
    }

    // ---- as values of C
    using Native = std::conditional_t<S, long long, unsigned long long>;
    operator Native() const { return Native(v[0]); }
    bool to_bool() const { return !iszero(); }
    char to_char() const { return char(v[0]); }
    signed char to_schar() const { return (signed char)(v[0]); }
    unsigned char to_uchar() const { return (unsigned char)(v[0]); }
    short to_short() const { return short(v[0]); }
    unsigned short to_ushort() const { return (unsigned short)(v[0]); }
    int to_int() const { return int(v[0]); }
    unsigned to_uint() const { return unsigned(v[0]); }
    long to_long() const { return long(v[0]); }
    unsigned long to_ulong() const { return (unsigned long)(v[0]); }
    long long to_int64() const { return (long long)(v[0]); }
    unsigned long long to_uint64() const { return v[0]; }
    double to_double() const {
        ap_int_base<W + 1, true> size(*this);
        if (is_negative()) {
            size.negate();
        }
        int top = size.LIMBS - 1;
        while (top > 0 && !size.v[top]) {
            top--;
        }
        // Rounded once: the lower limbs only matter as whether one of them is not zero.
        double result;
        if (top == 0) {
            result = double(size.v[0]);
        } else {
            int shift = __builtin_clzll(size.v[top]);
            Limb head = shift ? size.v[top] << shift | size.v[top - 1] >> (64 - shift) : size.v[top];
            Limb rest = shift ? size.v[top - 1] << shift : size.v[top - 1];
            for (int i = 0; i < top - 1; i++) {
                rest |= size.v[i];
            }
            result = std::ldexp(double(head | (rest != 0)), 64 * top - shift);
        }
        return is_negative() ? -result : result;
    }
    float to_float() const { return float(to_double()); }
    std::string to_string(signed char radix = 2, bool is_signed = S) const {
        std::string digits;
        ap_int_base<W + 1, false> rest(*this);
        bool has_minus = radix == 10 && is_signed && is_negative();
        if (has_minus) {
            ap_int_base<W + 1, true> size(*this);
            size.negate();
            rest = size;
        } else if (W % 64) {
            rest.v[LIMBS - 1] &= (Limb(1) << W % 64) - 1;
            for (int i = LIMBS; i < rest.LIMBS; i++) {
                rest.v[i] = 0;
            }
        } else {
            rest.v[rest.LIMBS - 1] = 0;
        }
        do {
            unsigned __int128 carry = 0;
            for (int i = rest.LIMBS - 1; i >= 0; i--) {
                carry = carry << 64 | rest.v[i];
                rest.v[i] = Limb(carry / unsigned(radix));
                carry %= unsigned(radix);
            }
            digits += "0123456789abcdefghijklmnopqrstuvwxyz"[int(carry)];
        } while (!rest.iszero());
        digits += radix == 16 ? "x0" : radix == 2 ? "b0" : radix == 8 ? "o0" : has_minus ? "-" : "";
        return std::string(digits.rbegin(), digits.rend());
    }

    // ---- bits
    int length() const { return W; }
    bool iszero() const {
        Limb all = 0;
        for (int i = 0; i < LIMBS; i++) {
            all |= v[i];
        }
        return all == 0;
    }
    bool is_zero() const { return iszero(); }
    bool is_negative() const { return S && (v[LIMBS - 1] >> 63); }
    bool is_neg() const { return is_negative(); }
    bool sign() const { return is_negative(); }
    bool get(int i) const { return i >= 0 && (i < W ? v[i / 64] >> i % 64 & 1 : fill() & 1); }
    void put(int i, bool bit) {
        if (i >= 0 && i < W) {
            Limb mask = Limb(1) << i % 64;
            v[i / 64] = bit ? v[i / 64] | mask : v[i / 64] & ~mask;
            if (i == W - 1) {
                settle();
            }
        }
    }
    ap_bit_ref<W, S> operator[](int i) { return {*this, i}; }
    bool operator[](int i) const { return get(i); }
    ap_bit_ref<W, S> bit(int i) { return {*this, i}; }
    bool bit(int i) const { return get(i); }
    bool test(int i) const { return get(i); }
    bool get_bit(int i) const { return get(i); }
    void set(int i, bool bit) { put(i, bit); }
    void set_bit(int i, bool bit) { put(i, bit); }
    void set(int i) { put(i, true); }
    void clear(int i) { put(i, false); }
    void clear() { std::memset(v, 0, sizeof v); }
    void invert(int i) { put(i, !get(i)); }
    void invert() { *this = ~*this; }
    void reverse() {
        ap_int_base old(*this);
        for (int i = 0; i < W; i++) {
            put(i, old.get(W - 1 - i));
        }
    }
    void lrotate(int n) { rotate(n); }
    void rrotate(int n) { rotate(-n); }
    void b_not() { invert(); }
    bool and_reduce() const {
        for (int i = 0; i < W; i++) {
            if (!get(i)) {
                return false;
            }
        }
        return true;
    }
    bool or_reduce() const { return !iszero(); }
    bool xor_reduce() const {
        bool odd = false;
        for (int i = 0; i < W; i++) {
            odd ^= get(i);
        }
        return odd;
    }
    bool nand_reduce() const { return !and_reduce(); }
    bool nor_reduce() const { return !or_reduce(); }
    bool xnor_reduce() const { return !xor_reduce(); }
    int countLeadingZeros() const {
        int count = 0;
        while (count < W && !get(W - 1 - count)) {
            count++;
        }
        return count;
    }
    ap_range_ref<W, S> range(int high, int low) const { return {*const_cast<ap_int_base*>(this), high, low}; }
    ap_range_ref<W, S> operator()(int high, int low) const { return range(high, low); }
    ap_range_ref<W, S> range() const { return range(W - 1, 0); }
    template <class T>
    ap_concat_ref<ap_int_base, T> concat(T& low) {
        return {*this, low};
    }

    // ---- with a result of the same width
    ap_int_base<W, S> operator~() const {
        ap_int_base result;
        for (int i = 0; i < LIMBS; i++) {
            result.v[i] = ~v[i];
        }
        result.settle();
        return result;
    }
    bool operator!() const { return iszero(); }
    ap_int_base<W, S> operator+() const { return *this; }
    auto operator-() const {
        ap_int_base<W + 1, true> result(*this);
        result.negate();
        return result;
    }
    ap_int_base shifted_left(int n) const {
        ap_int_base result;
        if (n >= W) {
            return result;
        }
        for (int i = LIMBS - 1, from = n / 64, by = n % 64; i >= from; i--) {
            result.v[i] = v[i - from] << by | (by && i > from ? v[i - from - 1] >> (64 - by) : 0);
        }
        result.settle();
        return result;
    }
    ap_int_base shifted_right(int n) const {  // arithmetic where signed
        ap_int_base result;
        for (int i = 0, from = n / 64, by = n % 64; i < LIMBS; i++) {
            result.v[i] = limb(i + from) >> by | (by ? limb(i + from + 1) << (64 - by) : 0);
        }
        result.settle();
        return result;
    }
    ap_int_base& operator++() {
        for (int i = 0; i < LIMBS && ++v[i] == 0; i++) {
        }
        settle();
        return *this;
    }
    ap_int_base& operator--() {
        for (int i = 0; i < LIMBS && v[i]-- == 0; i++) {
        }
        settle();
        return *this;
    }
    ap_int_base operator++(int) {
        ap_int_base old(*this);
        ++*this;
        return old;
    }
    ap_int_base operator--(int) {
        ap_int_base old(*this);
        --*this;
        return old;
    }

  private:
    void rotate(int n) {
        ap_int_base old(*this);
        for (int i = 0; i < W; i++) {
            put(((i + n) % W + W) % W, old.get(i));
        }
    }
};

// ---------------------------------------------------------------------------------------------------
// References to bits

template <int W, bool S>
struct ap_bit_ref {
    ap_int_base<W, S>& of;
    int index;
    ap_bit_ref(ap_int_base<W, S>& x, int i) : of(x), index(i) {}
    ap_bit_ref(const ap_bit_ref&) = default;
    bool get() const { return of.get(index); }
    operator bool() const { return get(); }
    bool to_bool() const { return get(); }
    bool operator~() const { return !get(); }
    int length() const { return 1; }
    template <class T>
    ap_bit_ref& operator=(const T& x) {
        of.put(index, bool(x & 1));
        return *this;
    }
    ap_bit_ref& operator=(bool x) {
        of.put(index, x);
        return *this;
    }
    ap_bit_ref& operator=(const ap_bit_ref& x) { return *this = x.get(); }
    template <int W2, bool S2>
    ap_bit_ref& operator=(const ap_bit_ref<W2, S2>& x) {
        return *this = x.get();
    }
    template <int W2, bool S2>
    ap_bit_ref& operator=(const ap_int_base<W2, S2>& x) {
        return *this = x.get(0);
    }
    template <int W2, bool S2>
    ap_bit_ref& operator=(const ap_range_ref<W2, S2>& x) {
        return *this = x.get().get(0);
    }
    template <class T>
    ap_bit_ref& operator|=(const T& x) {
        return *this = bool(get() | bool(x));
    }
    template <class T>
    ap_bit_ref& operator&=(const T& x) {
        return *this = bool(get() & bool(x));
    }
    template <class T>
    ap_bit_ref& operator^=(const T& x) {
        return *this = bool(get() ^ bool(x));
    }
};

template <int W, bool S>
struct ap_range_ref {
    ap_int_base<W, S>& of;
    int high, low;
    ap_range_ref(ap_int_base<W, S>& x, int h, int l) : of(x), high(h), low(l) {}
    ap_range_ref(const ap_range_ref&) = default;

    ap_int_base<W, false> get() const {
        ap_int_base<W, false> result;
        if (high < low) {  // the other way round
            for (int i = 0; i <= low - high; i++) {
                result.put(i, of.get(low - i));
            }
            return result;
        }
        ap_int_base<W, false> all;
        all.copy(of);
        all = all.shifted_right(low);
        return cut(all, high - low + 1);
    }
    template <class T>
    ap_range_ref& operator=(const T& x) {
        ap_int_base<W, false> word(x);
        put(word);
        return *this;
    }
    ap_range_ref& operator=(const ap_range_ref& x) {
        put(ap_int_base<W, false>(x.get()));
        return *this;
    }
    ap_range_ref& operator=(const char* text) {
        put(ap_int_base<W, false>(text));
        return *this;
    }
    operator unsigned long long() const { return get().v[0]; }
    int length() const { return (high < low ? low - high : high - low) + 1; }
    int to_int() const { return get().to_int(); }
    unsigned to_uint() const { return get().to_uint(); }
    long to_long() const { return get().to_long(); }
    unsigned long to_ulong() const { return get().to_ulong(); }
    long long to_int64() const { return get().to_int64(); }
    unsigned long long to_uint64() const { return get().to_uint64(); }
    double to_double() const { return get().to_double(); }
    std::string to_string(signed char radix = 2) const { return get().to_string(radix); }
    bool and_reduce() const {
        for (int i = 0; i < length(); i++) {
            if (!get().get(i)) {
                return false;
            }
        }
        return true;
    }
    bool or_reduce() const { return !get().iszero(); }
    bool xor_reduce() const { return get().xor_reduce(); }
    auto operator~() const { return cut(~get(), length()); }
    auto operator-() const { return -get(); }
    bool operator!() const { return get().iszero(); }

  private:
    static ap_int_base<W, false> cut(ap_int_base<W, false> x, int bits) {
        for (int i = 0; i < x.LIMBS; i++) {
            int here = bits - 64 * i;
            if (here <= 0) {
                x.v[i] = 0;
            } else if (here < 64) {
                x.v[i] &= (csdf_bits::Limb(1) << here) - 1;
            }
        }
        return x;
    }
    void put(const ap_int_base<W, false>& word) {
        if (high < low) {
            for (int i = 0; i <= low - high; i++) {
                of.put(low - i, word.get(i));
            }
            return;
        }
        ap_int_base<W, false> mask = cut(~ap_int_base<W, false>(), length()).shifted_left(low);
        ap_int_base<W, false> bits = word.shifted_left(low);
        for (int i = 0; i < of.LIMBS; i++) {
            of.v[i] = (of.v[i] & ~mask.v[i]) | (bits.v[i] & mask.v[i]);
        }
        of.settle();
    }
};

namespace csdf_bits {
template <class T>
struct width_of {
    static constexpr int value = std::decay_t<decltype(number(std::declval<const T&>()))>::width;
};
template <class T>
int bits_in(const T& x) {
    if constexpr (is_built_in<T>) {
        return width_of<T>::value;
    } else {
        return x.length();
    }
}
}  // namespace csdf_bits

template <class A, class B>
struct ap_concat_ref {  // A above B
    A a;
    B b;
    static constexpr int width =
        csdf_bits::width_of<std::decay_t<A>>::value + csdf_bits::width_of<std::decay_t<B>>::value;
    int length() const { return csdf_bits::bits_in(a) + csdf_bits::bits_in(b); }
    ap_int_base<width, false> get() const {
        const int low = csdf_bits::bits_in(b);
        ap_int_base<width, false> high(csdf_bits::number(a)), rest(csdf_bits::number(b));
        high = high.shifted_left(low);
        rest = ap_int_base<width, false>(rest.range(low - 1, 0).get());
        for (int i = 0; i < high.LIMBS; i++) {
            high.v[i] |= rest.v[i];
        }
        ap_int_base<width, false> result;
        return ap_int_base<width, false>(high.range(length() - 1, 0).get());
    }
    template <class T>
    ap_concat_ref& operator=(const T& x) {
        ap_int_base<width, false> word(x);
        const int low = csdf_bits::bits_in(b);
        b = word.range(low - 1, 0).get();
        a = word.shifted_right(low);
        return *this;
    }
    ap_concat_ref& operator=(const ap_concat_ref& x) { return *this = x.get(); }
    ap_concat_ref(A x, B y) : a(x), b(y) {}
    ap_concat_ref(const ap_concat_ref&) = default;
    operator unsigned long long() const { return get().v[0]; }
    int to_int() const { return get().to_int(); }
    unsigned to_uint() const { return get().to_uint(); }
    unsigned long long to_uint64() const { return get().to_uint64(); }
    std::string to_string(signed char radix = 2) const { return get().to_string(radix); }
    auto operator~() const { return ~get(); }
};

namespace csdf_bits {
template <class T>
using part_of_concat = std::conditional_t<
    is_built_in<std::decay_t<T>> || !std::is_lvalue_reference_v<T> || std::is_const_v<std::remove_reference_t<T>>,
    std::decay_t<T>, T>;  // only what can be written is held by reference
}  // namespace csdf_bits

template <class A, class B,
          std::enable_if_t<csdf_bits::are_operands<std::decay_t<A>, std::decay_t<B>> &&
                               csdf_bits::kind<std::decay_t<A>>::value == csdf_bits::WHOLE &&
                               csdf_bits::kind<std::decay_t<B>>::value == csdf_bits::WHOLE,
                           int> = 0>
ap_concat_ref<csdf_bits::part_of_concat<A&&>, csdf_bits::part_of_concat<B&&>> operator,(A&& a, B&& b) {
    return {a, b};
}

// ---------------------------------------------------------------------------------------------------
// Arithmetic of integers

namespace csdf_bits {

template <int R, bool SR, int W1, bool S1, int W2, bool S2>
ap_int_base<R, SR> sum(const ap_int_base<W1, S1>& a, const ap_int_base<W2, S2>& b, bool is_difference) {
    ap_int_base<R, SR> result;
    if constexpr (result.LIMBS == 1) {
        result.v[0] = is_difference ? a.v[0] - b.v[0] : a.v[0] + b.v[0];
    } else {
        unsigned __int128 carry = is_difference;
        for (int i = 0; i < result.LIMBS; i++) {
            carry += (unsigned __int128)a.limb(i) + (is_difference ? ~b.limb(i) : b.limb(i));
            result.v[i] = Limb(carry);
            carry >>= 64;
        }
    }
    result.settle();
    return result;
}

template <int R, bool SR, int W1, bool S1, int W2, bool S2>
ap_int_base<R, SR> product(const ap_int_base<W1, S1>& a, const ap_int_base<W2, S2>& b) {
    ap_int_base<R, SR> result;
    if constexpr (result.LIMBS == 1) {
        result.v[0] = a.v[0] * b.v[0];
    } else {
        for (int i = 0; i < result.LIMBS; i++) {
            unsigned __int128 carry = 0;
            Limb x = a.limb(i);
            if (!x) {
                continue;
            }
            for (int k = 0; i + k < result.LIMBS; k++) {
                carry += (unsigned __int128)x * b.limb(k) + result.v[i + k];
                result.v[i + k] = Limb(carry);
                carry >>= 64;
            }
        }
    }
    result.settle();
    return result;
}

template <int W>
int compare(const ap_int_base<W, true>& a, const ap_int_base<W, true>& b) {
    if (std::int64_t(a.v[a.LIMBS - 1]) != std::int64_t(b.v[b.LIMBS - 1])) {
        return std::int64_t(a.v[a.LIMBS - 1]) < std::int64_t(b.v[b.LIMBS - 1]) ? -1 : 1;
    }
    for (int i = a.LIMBS - 2; i >= 0; i--) {
        if (a.v[i] != b.v[i]) {
            return a.v[i] < b.v[i] ? -1 : 1;
        }
    }
    return 0;
}

// Quotient and remainder as in C: the quotient towards zero. Division by zero gives 0 and the dividend.
template <int W>
void divide(ap_int_base<W, true> a, ap_int_base<W, true> b, ap_int_base<W, true>& quotient,
            ap_int_base<W, true>& remainder) {
    const bool minus_a = a.is_negative(), minus_b = b.is_negative();
    if (minus_a) {
        a.negate();
    }
    if (minus_b) {
        b.negate();
    }
    quotient = ap_int_base<W, true>();
    remainder = a;
    if (b.iszero()) {
        remainder = a;
    } else if constexpr (W <= 64) {
        quotient.v[0] = a.v[0] / b.v[0];
        remainder.v[0] = a.v[0] % b.v[0];
    } else {
        remainder = ap_int_base<W, true>();
        for (int i = W - 1; i >= 0; i--) {
            remainder = remainder.shifted_left(1);
            remainder.v[0] |= Limb(a.get(i));
            if (compare(remainder, b) >= 0) {
                remainder = sum<W, true>(remainder, b, true);
                quotient.put(i, true);
            }
        }
    }
    if (minus_a != minus_b) {
        quotient.negate();
    }
    if (minus_a) {
        remainder.negate();
    }
}

template <int W1, bool S1, int W2, bool S2>
struct widths {
    static constexpr int common = most(W1 + (S2 && !S1), W2 + (S1 && !S2));
    static constexpr int both = most(W1 + !S1, W2 + !S2) + 1;  // signed, holds either and its negative
};

template <int W1, bool S1, int W2, bool S2>
int order(const ap_int_base<W1, S1>& a, const ap_int_base<W2, S2>& b) {
    constexpr int W = widths<W1, S1, W2, S2>::both;
    return compare<W>(ap_int_base<W, true>(a), ap_int_base<W, true>(b));
}

template <int W1, bool S1, int W2, bool S2>
auto add(const ap_int_base<W1, S1>& a, const ap_int_base<W2, S2>& b) {
    return sum<widths<W1, S1, W2, S2>::common + 1, S1 || S2>(a, b, false);
}
template <int W1, bool S1, int W2, bool S2>
auto subtract(const ap_int_base<W1, S1>& a, const ap_int_base<W2, S2>& b) {
    return sum<widths<W1, S1, W2, S2>::common + 1, true>(a, b, true);
}
template <int W1, bool S1, int W2, bool S2>
auto multiply(const ap_int_base<W1, S1>& a, const ap_int_base<W2, S2>& b) {
    return product<W1 + W2, S1 || S2>(a, b);
}
template <int W1, bool S1, int W2, bool S2>
auto quotient(const ap_int_base<W1, S1>& a, const ap_int_base<W2, S2>& b) {
    constexpr int W = widths<W1, S1, W2, S2>::both;
    ap_int_base<W, true> result, rest;
    divide<W>(a, b, result, rest);
    return ap_int_base<W1 + S2, S1 || S2>(result);
}
template <int W1, bool S1, int W2, bool S2>
auto remainder(const ap_int_base<W1, S1>& a, const ap_int_base<W2, S2>& b) {
    constexpr int W = widths<W1, S1, W2, S2>::both;
    ap_int_base<W, true> result, rest;
    divide<W>(a, b, result, rest);
    return ap_int_base<least(W1, W2 + (!S2 && S1)), S1>(rest);
}
template <int W1, bool S1, int W2, bool S2, class Deed>
auto by_bits(const ap_int_base<W1, S1>& a, const ap_int_base<W2, S2>& b, Deed deed) {
    ap_int_base<widths<W1, S1, W2, S2>::common, S1 || S2> result;
    for (int i = 0; i < result.LIMBS; i++) {
        result.v[i] = deed(a.limb(i), b.limb(i));
    }
    result.settle();
    return result;
}

}  // namespace csdf_bits

// ---------------------------------------------------------------------------------------------------
// Fixed-point numbers: V / 2^(W - I)

template <int W, int I, bool S, ap_q_mode Q = AP_TRN, ap_o_mode O = AP_WRAP, int N = 0>
struct ap_fixed_base {
    static_assert(W > 0, "a width is a positive number of bits");
    static constexpr int F = W - I;
    static constexpr int width = W, iwidth = I;
    static constexpr ap_q_mode qmode = Q;
    static constexpr ap_o_mode omode = O;
    static constexpr bool sign_flag = S;
    static constexpr unsigned csdf_bits = W;

    ap_int_base<W, S> V;

    ap_fixed_base() = default;
    ap_fixed_base(const ap_fixed_base&) = default;
    ap_fixed_base& operator=(const ap_fixed_base&) = default;
    template <class T, std::enable_if_t<::csdf_bits::kind<T>::value != 0 || ::csdf_bits::is_built_in<T>, int> = 0>
    ap_fixed_base(const T& x) {
        set(x);
    }
    template <class T, std::enable_if_t<::csdf_bits::kind<T>::value != 0 || ::csdf_bits::is_built_in<T>, int> = 0>
    ap_fixed_base& operator=(const T& x) {
        set(x);
        return *this;
    }
    ap_fixed_base(const char* text) { set(std::strtod(text, nullptr)); }

    template <class T>
    void set(const T& x) {
        if constexpr (std::is_floating_point_v<T>) {
            set_double(double(x));
        } else {
            set_fixed(::csdf_bits::fixed(::csdf_bits::number(x)));
        }
    }

    template <int W2, int I2, bool S2, ap_q_mode Q2, ap_o_mode O2, int N2>
    void set_fixed(const ap_fixed_base<W2, I2, S2, Q2, O2, N2>& x) {
        constexpr int F2 = W2 - I2;
        constexpr int by = F - F2;  // to the left
        constexpr int wide = ::csdf_bits::most(W2 + 2 + (by > 0 ? by : 0), W + 2);
        ap_int_base<wide, true> value(x.V);
        if constexpr (by >= 0) {
            value = value.shifted_left(by);
            limit(value);
        } else {
            const bool half = value.get(-by - 1);
            bool rest = false;
            if constexpr (Q != AP_TRN && Q != AP_RND) {
                for (int i = 0; i < -by - 1 && !rest; i++) {
                    rest = value.get(i);
                }
            }
            const bool is_negative = value.is_negative();
            value = value.shifted_right(-by);
            if (goes_up(is_negative, half, rest, value.get(0))) {
                ++value;
            }
            limit(value);
        }
    }

    void set_double(double x) {
        int exponent;
        double part = std::frexp(x, &exponent);
        if (x != x || std::isinf(x)) {
            part = 0;
        }
        std::int64_t whole = std::int64_t(std::ldexp(part, 53));
        const int by = exponent - 53 + F;
        ap_int_base<W + 130, true> value(whole);
        if (by >= 0) {
            value = value.shifted_left(::csdf_bits::least(by, W + 66));
        } else {
            const int drop = ::csdf_bits::least(-by, 62);  // 53 bits and a sign
            const bool half = drop == -by && (whole >> (drop - 1) & 1);
            const bool rest = drop == -by ? (whole & ((std::int64_t(1) << (drop - 1)) - 1)) != 0 : whole != 0;
            value = ap_int_base<W + 130, true>(whole >> drop);
            if (goes_up(whole < 0, half || (drop != -by && whole < 0), rest, value.get(0))) {
                ++value;
            }
        }
        limit(value);
    }

    // Whether the floor is raised by one; half: the first bit dropped; rest: whether any other is set.
    static bool goes_up(bool is_negative, bool half, bool rest, bool is_odd) {
        switch (Q) {
            case AP_TRN: return false;
            case AP_TRN_ZERO: return is_negative && (half || rest);
            case AP_RND: return half;
            case AP_RND_ZERO: return half && (rest || is_negative);
            case AP_RND_INF: return half && (rest || !is_negative);
            case AP_RND_MIN_INF: return half && rest;
            case AP_RND_CONV: return half && (rest || is_odd);
        }
        return false;
    }

    template <int W2>
    void limit(const ap_int_base<W2, true>& value) {
        V.copy(value);
        ap_int_base<W2, true> back;
        back.copy(V);
        const bool is_symmetric = O == AP_SAT_SYM && S;
        const bool fits = csdf_bits_compare(back, value) == 0;
        if (O == AP_WRAP && N == 0) {
            return;
        }
        const bool is_negative = value.is_negative();
        if (is_symmetric && W > 1 && is_negative && (!fits || is_lowest())) {
            lowest();
            ++V;
            return;
        }
        if (fits) {
            return;
        }
        if (O == AP_SAT_ZERO) {
            V = ap_int_base<W, S>();
        } else if (O == AP_SAT || O == AP_SAT_SYM) {
            if (is_negative) {
                lowest();
            } else {
                highest();
            }
        } else if (O == AP_WRAP) {  // the N highest bits saturate, the sign stays
            for (int i = W - 1; i >= W - N && i >= 0; i--) {
                V.put(i, S && i == W - 1 ? is_negative : !is_negative);
            }
        } else if (S && N == 0) {  // sign and magnitude: the sign is the lowest of the bits lost
            const bool sign = value.get(W);
            if (sign != V.get(W - 1)) {
                V = ~V;
            }
        } else if (S) {
            const bool kept = !is_negative;
            const bool flips = kept != V.get(W - N);
            for (int i = 0; i < W; i++) {
                V.put(i, i == W - 1 ? is_negative : i >= W - N ? kept : V.get(i) != flips);
            }
        } else {
            for (int i = W - 1; i >= W - N && i >= 0; i--) {
                V.put(i, true);
            }
        }
    }

    bool is_lowest() const {
        ap_int_base<W, S> x;
        x.put(W - 1, S);
        return std::memcmp(x.v, V.v, sizeof x.v) == 0;
    }
    void lowest() {
        V = ap_int_base<W, S>();
        V.put(W - 1, S);
    }
    void highest() {
        lowest();
        V = ~V;
    }

    // ---- as other values
    operator double() const { return to_double(); }
    double to_double() const { return std::ldexp(V.to_double(), -F); }
    float to_float() const { return float(to_double()); }
    // Towards zero, as C does it.
    auto to_ap_int_base() const {
        constexpr int bits = ::csdf_bits::most(I, 1) + 1;
        if constexpr (F <= 0) {
            ap_int_base<::csdf_bits::most(I, W) + 1, S> whole(V);
            return whole.shifted_left(-F);
        } else {
            ap_int_base<W + 1, S> whole = ap_int_base<W + 1, S>(V).shifted_right(F);
            if (V.is_negative()) {
                for (int i = 0; i < F; i++) {
                    if (V.get(i)) {
                        ++whole;
                        break;
                    }
                }
            }
            return ap_int_base<bits, S>(whole);
        }
    }
    bool to_bool() const { return !V.iszero(); }
    char to_char() const { return to_ap_int_base().to_char(); }
    short to_short() const { return to_ap_int_base().to_short(); }
    int to_int() const { return to_ap_int_base().to_int(); }
    unsigned to_uint() const { return to_ap_int_base().to_uint(); }
    long to_long() const { return to_ap_int_base().to_long(); }
    unsigned long to_ulong() const { return to_ap_int_base().to_ulong(); }
    long long to_int64() const { return to_ap_int_base().to_int64(); }
    unsigned long long to_uint64() const { return to_ap_int_base().to_uint64(); }
    std::string to_string(signed char radix = 10) const {
        if (radix != 10) {
            return V.to_string(radix);
        }
        // All digits: there are no more than binary places.
        constexpr int wide = ::csdf_bits::most(W, I) + ::csdf_bits::most(F, 0) + 5;
        ap_int_base<wide, true> size(V);
        if constexpr (F < 0) {
            size = size.shifted_left(-F);
        }
        const bool has_minus = size.is_negative();
        if (has_minus) {
            size.negate();
        }
        constexpr int places = ::csdf_bits::most(F, 0);
        std::string text = (has_minus ? "-" : "") + size.shifted_right(places).to_string(10);
        ap_int_base<wide, true> rest = size - ap_int_base<wide, true>(size.shifted_right(places).shifted_left(places));
        for (int i = 0; !rest.iszero(); i++) {
            text += i ? "" : ".";
            rest = rest * ap_int_base<5, true>(10);
            text += char('0' + rest.shifted_right(places).to_int());
            rest = rest - ap_int_base<wide, true>(rest.shifted_right(places).shifted_left(places));
        }
        return text;
    }
    // The bits as a number of their own.
    unsigned long long bits_to_uint64() const { return V.to_uint64(); }

    int length() const { return W; }
    bool is_neg() const { return V.is_negative(); }
    bool is_negative() const { return V.is_negative(); }
    bool is_zero() const { return V.iszero(); }
    bool overflow_neg() const { return false; }
    ap_bit_ref<W, S> operator[](int i) { return {V, i}; }
    bool operator[](int i) const { return V.get(i); }
    ap_bit_ref<W, S> bit(int i) { return {V, i}; }
    ap_range_ref<W, S> range(int high, int low) const { return V.range(high, low); }
    ap_range_ref<W, S> range() const { return V.range(); }
    ap_range_ref<W, S> operator()(int high, int low) const { return V.range(high, low); }

    bool operator!() const { return V.iszero(); }
    ap_fixed_base<W, I, S> operator~() const {
        ap_fixed_base<W, I, S> result;
        result.V = ~V;
        return result;
    }
    auto operator-() const {
        ap_fixed_base<W + 1, I + 1, true> result;
        result.V = -V;
        return result;
    }
    auto operator+() const { return *this; }
    ap_fixed_base& operator++() {
        *this = *this + ap_int_base<2, true>(1);
        return *this;
    }
    ap_fixed_base& operator--() {
        *this = *this - ap_int_base<2, true>(1);
        return *this;
    }
    ap_fixed_base operator++(int) {
        ap_fixed_base old(*this);
        ++*this;
        return old;
    }
    ap_fixed_base operator--(int) {
        ap_fixed_base old(*this);
        --*this;
        return old;
    }

  private:
    template <int W2>
    static int csdf_bits_compare(const ap_int_base<W2, true>& a, const ap_int_base<W2, true>& b) {
        return std::memcmp(a.v, b.v, sizeof a.v);
    }
};

namespace csdf_bits {

// Two numbers at the same binary point.
template <int W1, int I1, bool S1, int W2, int I2, bool S2>
struct aligned {
    static constexpr int F = most(W1 - I1, W2 - I2);
    static constexpr int A = I1 + F, B = I2 + F;  // widths there
    static constexpr int whole = most(I1 + (S2 && !S1), I2 + (S1 && !S2));
};

#define CSDF_FIXED_PAIR                                                                                \
    template <int W1, int I1, bool S1, ap_q_mode Q1, ap_o_mode O1, int N1, int W2, int I2, bool S2, \
              ap_q_mode Q2, ap_o_mode O2, int N2>
#define CSDF_FIXED_ARGUMENTS \
    const ap_fixed_base<W1, I1, S1, Q1, O1, N1>&a, const ap_fixed_base<W2, I2, S2, Q2, O2, N2>&b

template <int F, int W1, int I1, bool S1, ap_q_mode Q1, ap_o_mode O1, int N1>
auto raised(const ap_fixed_base<W1, I1, S1, Q1, O1, N1>& a) {
    constexpr int by = F - (W1 - I1);
    return ap_int_base<W1 + by, S1>(a.V).shifted_left(by);
}

CSDF_FIXED_PAIR auto add(CSDF_FIXED_ARGUMENTS) {
    using at = aligned<W1, I1, S1, W2, I2, S2>;
    ap_fixed_base<at::whole + 1 + at::F, at::whole + 1, S1 || S2> result;
    result.V.copy(add(raised<at::F>(a), raised<at::F>(b)));
    return result;
}
CSDF_FIXED_PAIR auto subtract(CSDF_FIXED_ARGUMENTS) {
    using at = aligned<W1, I1, S1, W2, I2, S2>;
    ap_fixed_base<at::whole + 1 + at::F, at::whole + 1, true> result;
    result.V.copy(subtract(raised<at::F>(a), raised<at::F>(b)));
    return result;
}
CSDF_FIXED_PAIR auto multiply(CSDF_FIXED_ARGUMENTS) {
    ap_fixed_base<W1 + W2, I1 + I2, S1 || S2> result;
    result.V.copy(multiply(a.V, b.V));
    return result;
}
CSDF_FIXED_PAIR auto quotient(CSDF_FIXED_ARGUMENTS) {
    constexpr int F2 = W2 - I2, up = most(F2, 0);
    ap_fixed_base<S2 + W1 + up, S2 + I1 + F2, S1 || S2> result;
    result.V.copy(quotient(ap_int_base<W1 + up, S1>(a.V).shifted_left(up), b.V));
    return result;
}
CSDF_FIXED_PAIR auto remainder(CSDF_FIXED_ARGUMENTS) {
    using at = aligned<W1, I1, S1, W2, I2, S2>;
    auto rest = remainder(raised<at::F>(a), raised<at::F>(b));
    ap_fixed_base<decltype(rest)::width, decltype(rest)::width - at::F, S1> result;
    result.V.copy(rest);
    return result;
}
template <int W1, int I1, bool S1, ap_q_mode Q1, ap_o_mode O1, int N1, int W2, int I2, bool S2, ap_q_mode Q2,
          ap_o_mode O2, int N2, class Deed>
auto by_bits(CSDF_FIXED_ARGUMENTS, Deed deed) {
    using at = aligned<W1, I1, S1, W2, I2, S2>;
    ap_fixed_base<at::whole + at::F, at::whole, S1 || S2> result;
    result.V.copy(by_bits(raised<at::F>(a), raised<at::F>(b), deed));
    return result;
}
CSDF_FIXED_PAIR int order(CSDF_FIXED_ARGUMENTS) {
    using at = aligned<W1, I1, S1, W2, I2, S2>;
    return order(raised<at::F>(a), raised<at::F>(b));
}

// Calls `deed` with two integers, two fixed-point numbers, or two doubles.
template <class A, class B, class Deed>
auto meet(const A& a, const B& b, Deed deed) {
    constexpr int ka = kind<A>::value, kb = kind<B>::value;
    if constexpr (ka == FLOAT || kb == FLOAT) {
        return deed(floating(number(a)), floating(number(b)));
    } else if constexpr (ka == FIXED || kb == FIXED) {
        return deed(fixed(number(a)), fixed(number(b)));
    } else {
        return deed(number(a), number(b));
    }
}

inline double add(double a, double b) { return a + b; }
inline double subtract(double a, double b) { return a - b; }
inline double multiply(double a, double b) { return a * b; }
inline double quotient(double a, double b) { return a / b; }
inline double remainder(double a, double b) { return std::fmod(a, b); }
inline int order(double a, double b) { return a < b ? -1 : a > b; }

template <class T>
int count_of(const T& x) {  // of bits to shift by
    if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
        return int(x);
    } else {
        return int(number(x).to_int());
    }
}

template <class A>
auto shifted(const A& a, int by) {
    if constexpr (kind<A>::value == FIXED) {
        std::decay_t<decltype(number(a))> result;
        result.V = by >= 0 ? number(a).V.shifted_left(by) : number(a).V.shifted_right(-by);
        return result;
    } else {
        using Number = std::decay_t<decltype(number(a))>;
        // A range is shifted as a value of C: it may grow up to 64 bits.
        constexpr bool is_part = !std::is_base_of_v<Number, A>;
        ap_int_base<is_part ? most(Number::width, 64) : Number::width, Number::sign_flag> x(number(a));
        return by >= 0 ? x.shifted_left(by) : x.shifted_right(-by);
    }
}

}  // namespace csdf_bits

#define CSDF_OPERANDS \
    template <class A, class B, std::enable_if_t<csdf_bits::are_operands<A, B>, int> = 0>
#define CSDF_ARITHMETIC(sign, deed)                                                                \
    CSDF_OPERANDS auto operator sign(const A& a, const B& b) {                                     \
        return csdf_bits::meet(a, b, [](const auto& x, const auto& y) { return csdf_bits::deed(x, y); }); \
    }                                                                                              \
    template <class A, class B,                                                                    \
              std::enable_if_t<csdf_bits::are_operands<A, B> && csdf_bits::is_ours<A>, int> = 0>   \
    A& operator sign##=(A & a, const B& b) {                                                       \
        a = A(a sign b);                                                                           \
        return a;                                                                                  \
    }
CSDF_ARITHMETIC(+, add)
CSDF_ARITHMETIC(-, subtract)
CSDF_ARITHMETIC(*, multiply)
CSDF_ARITHMETIC(/, quotient)
CSDF_ARITHMETIC(%, remainder)

#define CSDF_LOGIC(sign)                                                                           \
    CSDF_OPERANDS auto operator sign(const A& a, const B& b) {                                     \
        return csdf_bits::meet(a, b, [](const auto& x, const auto& y) {                            \
            return csdf_bits::by_bits(x, y, [](csdf_bits::Limb p, csdf_bits::Limb q) { return p sign q; }); \
        });                                                                                        \
    }                                                                                              \
    template <class A, class B,                                                                    \
              std::enable_if_t<csdf_bits::are_operands<A, B> && csdf_bits::is_ours<A>, int> = 0>   \
    A& operator sign##=(A & a, const B& b) {                                                       \
        a = A(a sign b);                                                                           \
        return a;                                                                                  \
    }
CSDF_LOGIC(&)
CSDF_LOGIC(|)
CSDF_LOGIC(^)

#define CSDF_ORDER(sign)                                                                           \
    CSDF_OPERANDS bool operator sign(const A& a, const B& b) {                                     \
        return csdf_bits::meet(a, b, [](const auto& x, const auto& y) { return csdf_bits::order(x, y); }) sign 0; \
    }
CSDF_ORDER(==)
CSDF_ORDER(!=)
CSDF_ORDER(<)
CSDF_ORDER(<=)
CSDF_ORDER(>)
CSDF_ORDER(>=)

#define CSDF_SHIFT(sign, direction)                                                                \
    template <class A, class B,                                                                    \
              std::enable_if_t<csdf_bits::is_ours<A> && (csdf_bits::kind<B>::value == csdf_bits::WHOLE), int> = 0> \
    auto operator sign(const A& a, const B& by) {                                                  \
        return csdf_bits::shifted(a, direction csdf_bits::count_of(by));                           \
    }                                                                                              \
    template <class A, class B,                                                                    \
              std::enable_if_t<csdf_bits::is_built_in<A> && std::is_integral_v<A> && csdf_bits::is_ours<B> && \
                                   csdf_bits::kind<B>::value == csdf_bits::WHOLE,                  \
                               int> = 0>                                                           \
    auto operator sign(A a, const B& by) {                                                         \
        return a sign csdf_bits::count_of(by);                                                     \
    }                                                                                              \
    template <class A, class B,                                                                    \
              std::enable_if_t<csdf_bits::is_ours<A> && (csdf_bits::kind<B>::value == csdf_bits::WHOLE), int> = 0> \
    A& operator sign##=(A & a, const B& by) {                                                      \
        a = A(csdf_bits::shifted(a, direction csdf_bits::count_of(by)));                           \
        return a;                                                                                  \
    }
CSDF_SHIFT(<<, +)
CSDF_SHIFT(>>, -)

#define CSDF_BUILT_IN(sign)                                                                        \
    template <class A, class B,                                                                    \
              std::enable_if_t<csdf_bits::is_built_in<A> && csdf_bits::is_ours<B>, int> = 0>       \
    A& operator sign##=(A & a, const B& b) {                                                       \
        return a = A(a sign b);                                                                    \
    }
CSDF_BUILT_IN(+)
CSDF_BUILT_IN(-)
CSDF_BUILT_IN(*)
CSDF_BUILT_IN(/)
CSDF_BUILT_IN(%)
CSDF_BUILT_IN(&)
CSDF_BUILT_IN(|)
CSDF_BUILT_IN(^)

template <int W, bool S>
std::ostream& operator<<(std::ostream& out, const ap_int_base<W, S>& x) {
    const auto base = out.flags() & std::ios::basefield;
    std::string text = x.to_string(base == std::ios::hex ? 16 : base == std::ios::oct ? 8 : 10);
    return out << (base == std::ios::hex || base == std::ios::oct ? text.substr(2) : text);
}
template <int W, int I, bool S, ap_q_mode Q, ap_o_mode O, int N>
std::ostream& operator<<(std::ostream& out, const ap_fixed_base<W, I, S, Q, O, N>& x) {
    return out << x.to_string(10);
}
template <int W, bool S>
std::ostream& operator<<(std::ostream& out, const ap_range_ref<W, S>& x) {
    return out << x.get();
}
template <int W, bool S>
std::ostream& operator<<(std::ostream& out, const ap_bit_ref<W, S>& x) {
    return out << x.get();
}
template <int W, bool S>
std::istream& operator>>(std::istream& in, ap_int_base<W, S>& x) {
    std::string text;
    in >> text;
    x = text.c_str();
    return in;
}
template <int W, int I, bool S, ap_q_mode Q, ap_o_mode O, int N>
std::istream& operator>>(std::istream& in, ap_fixed_base<W, I, S, Q, O, N>& x) {
    double value;
    in >> value;
    x = value;
    return in;
}
