// hls::burst_maxi: an AXI memory, read and written by requests. Written for csdf.
#pragma once
#include <cstddef>
#include <deque>
#include <memory>
#include <utility>

namespace hls {

template <class T>
class burst_maxi {
  public:
    burst_maxi(T* memory) : memory_(memory), state_(std::make_shared<State>()) {}
    void read_request(std::size_t offset, std::size_t length) { state_->reads.push_back({offset, length}); }
    T read() { return memory_[next(state_->reads)]; }
    void write_request(std::size_t offset, std::size_t length) { state_->writes.push_back({offset, length}); }
    void write(const T& value) { memory_[next(state_->writes)] = value; }
    template <class Keep>
    void write(const T& value, Keep) {
        write(value);
    }
    void write_response() {}

  private:
    using Requests = std::deque<std::pair<std::size_t, std::size_t>>;
    struct State {
        Requests reads, writes;
    };
    static std::size_t next(Requests& requests) {
        if (requests.empty()) {
            return 0;
        }
        std::size_t at = requests.front().first++;
        if (--requests.front().second == 0) {
            requests.pop_front();
        }
        return at;
    }
    T* memory_;
    std::shared_ptr<State> state_;
};

}  // namespace hls
