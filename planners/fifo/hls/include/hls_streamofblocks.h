// hls::stream_of_blocks: a FIFO whose words are arrays. A block counts as written when its write_lock
// ends, and as read when its read_lock begins. Written for csdf.
#pragma once
#include <memory>

#include "hls_stream.h"

namespace csdf_trace {
template <class Block>
struct Held {  // a block that the FIFO moves
    Block data{};
};
template <class Block>
constexpr unsigned bits_of_block() {
    if constexpr (std::is_array_v<Block>) {
        return std::extent_v<Block> * bits_of_block<std::remove_extent_t<Block>>();
    } else {
        return bits_of<Block>::value;
    }
}
template <class Block>
struct bits_of<std::shared_ptr<Held<Block>>, void> {
    static constexpr unsigned value = bits_of_block<Block>();
};
}  // namespace csdf_trace

namespace hls {

template <class Block, int DEPTH = 0>
class stream_of_blocks;

template <class Block>
class stream_of_blocks<Block, 0> {
  public:
    explicit stream_of_blocks(const char* name = "", int depth = 2) : channel_(name, depth) {}
    bool empty() { return channel_.asked_empty(); }
    bool full() {
        csdf_trace::ask(channel_.fifo());
        return false;
    }
    csdf_trace::Channel<std::shared_ptr<csdf_trace::Held<Block>>>& csdf_channel() { return channel_; }

  private:
    csdf_trace::Channel<std::shared_ptr<csdf_trace::Held<Block>>> channel_;
};

template <class Block, int DEPTH>
class stream_of_blocks : public stream_of_blocks<Block, 0> {
  public:
    explicit stream_of_blocks(const char* name = "") : stream_of_blocks<Block, 0>(name, DEPTH) {}
};

template <class Block>
class csdf_lock {
  public:
    template <class I>
    auto& operator[](I i) {
        return block_->data[i];
    }
    operator Block&() { return block_->data; }
    Block& operator*() { return block_->data; }
    csdf_lock(const csdf_lock&) = delete;

  protected:
    csdf_lock() = default;
    std::shared_ptr<csdf_trace::Held<Block>> block_;
};

template <class Block>
class read_lock : public csdf_lock<Block> {
  public:
    read_lock(stream_of_blocks<Block>& blocks) {
        this->block_ = blocks.csdf_channel().take();
        if (!this->block_) {  // of a port where there is no test bench
            this->block_ = std::make_shared<csdf_trace::Held<Block>>();
        }
    }
};

template <class Block>
class write_lock : public csdf_lock<Block> {
  public:
    write_lock(stream_of_blocks<Block>& blocks) : blocks_(blocks) {
        this->block_ = std::make_shared<csdf_trace::Held<Block>>();
    }
    ~write_lock() { blocks_.csdf_channel().put(this->block_); }

  private:
    stream_of_blocks<Block>& blocks_;
};

}  // namespace hls
