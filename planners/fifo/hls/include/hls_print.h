// hls::print: printf of one value. Written for csdf.
#pragma once
#include <cstdio>

namespace hls {
inline void print(const char* text) { std::printf("%s", text); }
template <class T>
void print(const char* format, T value) {
    std::printf(format, value);
}
}  // namespace hls
