// ap_shift_reg: a shift register that is read at any place. Written for csdf.
#pragma once

template <class T, unsigned DEPTH = 32>
class ap_shift_reg {
  public:
    ap_shift_reg(const char* = nullptr) {}
    T read(unsigned address) const { return values_[address]; }
    T shift(T value, unsigned address = DEPTH - 1, bool enable = true) {
        T result = values_[address];
        if (enable) {
            for (unsigned i = DEPTH - 1; i > 0; i--) {
                values_[i] = values_[i - 1];
            }
            values_[0] = value;
        }
        return result;
    }

  private:
    T values_[DEPTH] = {};
};
