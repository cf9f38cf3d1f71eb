// hls::split and hls::merge: a FIFO with several readers or writers, and a task that deals the words out.
// Where hardware takes the next that is ready (load_balance), this takes the next in turn that is not
// empty. Written for csdf.
#pragma once
#include "hls_stream.h"

namespace hls {

template <class T, int N, int DEPTH>
class csdf_dealer {
  public:
    csdf_dealer(const csdf_dealer&) = delete;

  protected:
    csdf_dealer() = default;
    ~csdf_dealer() {
        if (fiber_) {
            fiber_->is_done = true;
        }
    }
    template <class Deal>
    void start(const char* name, Deal deal) {
        if (csdf_trace::is_recording) {
            fiber_ = csdf_trace::start_task(0, name, true, true, deal);
        }
    }
    int turn_ = 0;

  private:
    csdf_trace::Fiber* fiber_ = nullptr;
};

namespace split {
template <class T, int N, int DEPTH = 2, int DEPTH_OUT = 2>
class round_robin : csdf_dealer<T, N, DEPTH> {
  public:
    stream<T, DEPTH> in;
    stream<T, DEPTH_OUT> out[N];
    round_robin() {
        this->start("split", [this] { out[this->turn_++ % N].write(in.read()); });
    }
    explicit round_robin(const char*) : round_robin() {}
    template <class Deed>
    void csdf_each(const Deed& deed) {
        deed(in, ".in");
        deed(out, ".out");
    }
};
template <class T, int N, int DEPTH = 2, int DEPTH_OUT = 2>
using load_balance = round_robin<T, N, DEPTH, DEPTH_OUT>;
}  // namespace split

namespace merge {
template <class T, int N, int DEPTH = 2, int DEPTH_IN = 2>
class round_robin : csdf_dealer<T, N, DEPTH> {
  public:
    stream<T, DEPTH_IN> in[N];
    stream<T, DEPTH> out;
    round_robin() {
        this->start("merge", [this] { out.write(in[this->turn_++ % N].read()); });
    }
    explicit round_robin(const char*) : round_robin() {}
    template <class Deed>
    void csdf_each(const Deed& deed) {
        deed(in, ".in");
        deed(out, ".out");
    }
};
template <class T, int N, int DEPTH = 2, int DEPTH_IN = 2>
class load_balance : csdf_dealer<T, N, DEPTH> {
  public:
    stream<T, DEPTH_IN> in[N];
    stream<T, DEPTH> out;
    load_balance() {
        this->start("merge", [this] {
            int& turn = this->turn_;
            for (int i = 0; in[turn % N].csdf_channel().is_empty(); i++, turn++) {
                if (i % N == N - 1) {
                    csdf_trace::ask(in[turn % N].csdf_channel().fifo());
                    csdf_trace::yield();
                }
            }
            out.write(in[turn++ % N].read());
        });
    }
    explicit load_balance(const char*) : load_balance() {}
    template <class Deed>
    void csdf_each(const Deed& deed) {
        deed(in, ".in");
        deed(out, ".out");
    }
};
}  // namespace merge

}  // namespace hls
