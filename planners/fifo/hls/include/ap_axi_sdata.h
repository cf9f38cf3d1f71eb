// hls::axis, ap_axis, ap_axiu: words of AXI4-Stream with their side channels. Written for csdf.
#pragma once
#include <cstddef>
#include <type_traits>

#include "ap_fixed.h"
#include "ap_int.h"
#include "csdf_trace.h"

constexpr unsigned AXIS_ENABLE_KEEP = 1, AXIS_ENABLE_LAST = 2, AXIS_ENABLE_STRB = 4, AXIS_ENABLE_USER = 8,
                   AXIS_ENABLE_DEST = 16, AXIS_ENABLE_ID = 32, AXIS_ENABLE_DATA = 64, AXIS_DISABLE_ALL = 0,
                   AXIS_ENABLE_ALL = 127;
using axis_t = unsigned;

namespace hls {

template <std::size_t W>
using csdf_side = ap_uint<(W > 0 ? int(W) : 1)>;

template <class T, std::size_t WUser = 0, std::size_t WId = 0, std::size_t WDest = 0, unsigned ENABLED = AXIS_ENABLE_ALL,
          bool IS_STRICT = false>
struct axis {
    static constexpr unsigned data_bits = csdf_trace::bits_of<T>::value;
    static constexpr unsigned bytes = (data_bits + 7) / 8;
    static constexpr std::size_t width = data_bits;
    static constexpr unsigned csdf_bits = data_bits + (ENABLED & AXIS_ENABLE_KEEP ? bytes : 0) +
                                          (ENABLED & AXIS_ENABLE_STRB ? bytes : 0) +
                                          (ENABLED & AXIS_ENABLE_LAST ? 1 : 0) + WUser + WId + WDest;
    T data{};
    ap_uint<int(bytes)> keep;
    ap_uint<int(bytes)> strb;
    csdf_side<WUser> user;
    ap_uint<1> last;
    csdf_side<WId> id;
    csdf_side<WDest> dest;

    axis() = default;
    axis(const T& x) : data(x) {}
    T get_data() const { return data; }
    void set_data(const T& x) { data = x; }
    auto get_keep() const { return keep; }
    void set_keep(const ap_uint<int(bytes)>& x) { keep = x; }
    auto get_strb() const { return strb; }
    void set_strb(const ap_uint<int(bytes)>& x) { strb = x; }
    auto get_user() const { return user; }
    void set_user(const csdf_side<WUser>& x) { user = x; }
    auto get_last() const { return last; }
    void set_last(const ap_uint<1>& x) { last = x; }
    auto get_id() const { return id; }
    void set_id(const csdf_side<WId>& x) { id = x; }
    auto get_dest() const { return dest; }
    void set_dest(const csdf_side<WDest>& x) { dest = x; }
    void keep_all() { keep = -1; }
    void strb_all() { strb = -1; }
};

template <class T, std::size_t WUser = 0, std::size_t WId = 0, std::size_t WDest = 0, unsigned ENABLED = AXIS_ENABLE_LAST>
using axis_data = axis<T, WUser, WId, WDest, ENABLED>;
template <std::size_t WUser = 0, std::size_t WId = 0, std::size_t WDest = 0, unsigned ENABLED = AXIS_ENABLE_LAST>
using axis_user = axis<ap_uint<1>, WUser, WId, WDest, ENABLED>;

}  // namespace hls

template <std::size_t W, std::size_t WUser = 0, std::size_t WId = 0, std::size_t WDest = 0,
          unsigned ENABLED = AXIS_ENABLE_ALL, bool IS_STRICT = false>
using ap_axis = hls::axis<ap_int<int(W)>, WUser, WId, WDest, ENABLED, IS_STRICT>;
template <std::size_t W, std::size_t WUser = 0, std::size_t WId = 0, std::size_t WDest = 0,
          unsigned ENABLED = AXIS_ENABLE_ALL, bool IS_STRICT = false>
using ap_axiu = hls::axis<ap_uint<int(W)>, WUser, WId, WDest, ENABLED, IS_STRICT>;
template <std::size_t W, std::size_t WUser = 0, std::size_t WId = 0, std::size_t WDest = 0>
using qdma_axis = hls::axis<ap_uint<int(W)>, WUser, WId, WDest>;
