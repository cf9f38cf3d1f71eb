// ap_wait and its like do nothing in C simulation. Written for csdf.
#pragma once
inline void ap_wait() {}
inline void ap_wait_n(int) {}
inline void ap_wait_until(bool) {}
