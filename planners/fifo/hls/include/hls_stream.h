// hls::stream, unbounded, and recorded. Written for csdf from the class's public documentation.
#pragma once
#include <cstddef>
#include <deque>
#include <iostream>
#include <string>
#include <type_traits>
#include <utility>

#include "csdf_trace.h"

#ifndef hls_thread_local
#define hls_thread_local static
#endif

namespace csdf_trace {

// The words of a FIFO, in a ring that doubles.
template <class T>
class Ring {
  public:
    Ring() = default;
    Ring(const Ring&) = delete;
    Ring& operator=(const Ring&) = delete;
    ~Ring() { delete[] words_; }
    bool empty() const { return head_ == tail_; }
    std::size_t size() const { return tail_ - head_; }
    void push(const T& word) {
        if (tail_ - head_ == room_) {
            grow();
        }
        words_[tail_++ & (room_ - 1)] = word;
    }
    T& front() { return words_[head_ & (room_ - 1)]; }
    const T& at(std::size_t i) const { return words_[(head_ + i) & (room_ - 1)]; }
    void pop() { head_++; }

  private:
    void grow() {
        std::size_t room = room_ ? 2 * room_ : 4;
        T* words = new T[room]();
        std::size_t size = tail_ - head_;
        for (std::size_t i = 0; i < size; i++) {
            words[i] = std::move(words_[(head_ + i) & (room_ - 1)]);
        }
        delete[] words_;
        words_ = words;
        head_ = 0;
        tail_ = size;
        room_ = room;
    }
    T* words_ = nullptr;
    std::size_t head_ = 0, tail_ = 0, room_ = 0;
};

// What hls::stream and the streams of TAPA have in common.
template <class T>
class Channel {
  public:
    explicit Channel(const std::string& name, long depth) : fifo_(new Fifo) {
        fifo_->name = fifo_->group = name;
        fifo_->bits = bits_of<T>::value;
        fifo_->depth = depth;
    }
    Channel(const Channel&) = delete;
    Channel& operator=(const Channel&) = delete;
    ~Channel() {
        if (fifo_->number == NOTHING) {
            delete fifo_;
        }
    }

    Fifo* fifo() const { return fifo_; }
    std::size_t size() const { return ring_.size(); }
    bool is_empty() {
        if (ring_.empty() && !fifo_->is_endless) {
            return true;
        }
        return false;
    }
    T& front() {  // waits
        if (ring_.empty()) {
            refill();
        }
        return ring_.front();
    }
    T take(Word flags = 0) {  // waits
        if (ring_.empty()) {
            refill();
        }
        note(fifo_, READ | flags);
        T word = std::move(ring_.front());
        ring_.pop();
        return word;
    }
    void put(const T& word, Word flags = 0) {
        if (ring_.size() >= ahead_ && is_recording) {
            let_others_read();
        }
        note(fifo_, WRITE | flags);
        ring_.push(word);
    }
    // For the questions of the program: what they say depends on the order of the run.
    bool asked_empty() {
        ask(fifo_);
        if (is_empty()) {
            yield();
        }
        return is_empty();
    }

  private:
    // A task that never ends waits when so many words are left; others let the readers have a turn, and
    // again at double the number. In sequence there are no turns: many bytes end that mode.
    static constexpr std::size_t AHEAD = 1 << 12, MANY_BYTES = std::size_t(1) << 28;
    void let_others_read() {
        if (fiber_now && fiber_now->is_detached) {
            wait_until(fifo_, true, [this] { return ring_.size() < AHEAD; });
        } else if (fiber_now) {
            yield();
            while (ahead_ <= ring_.size()) {
                ahead_ *= 2;
            }
        } else if (!has_fibers() && ring_.size() * sizeof(T) >= MANY_BYTES) {
            stop("fibers", fifo_->name);
        }
    }
    void refill() {
        if (fifo_->is_endless) {
            ring_.push(T());
            return;
        }
        wait_to_read(fifo_, [this] { return !ring_.empty(); });
    }
    Fifo* fifo_;
    std::size_t ahead_ = AHEAD;
    Ring<T> ring_;
};

}  // namespace csdf_trace

namespace hls {

template <class T, int DEPTH = 0>
class stream;

template <class T>
class stream<T, 0> {
  public:
    using value_type = T;
    using __STREAM_T__ = T;

    stream() : channel_("", -1) {}
    stream(const char* name) : channel_(name ? name : "", -1) {}
    explicit stream(const std::string& name) : channel_(name, -1) {}
    stream(const stream&) = delete;
    stream& operator=(const stream&) = delete;

    T read() { return channel_.take(); }
    void read(T& word) { word = channel_.take(); }
    void operator>>(T& word) { word = channel_.take(); }
    bool read_nb(T& word) {
        if (channel_.asked_empty()) {
            return false;
        }
        word = channel_.take(csdf_trace::NON_BLOCKING);
        return true;
    }
    bool read_dep(T& word, volatile bool flag) {
        word = channel_.take();
        return flag;
    }
    void write(const T& word) { channel_.put(word); }
    void operator<<(const T& word) { channel_.put(word); }
    bool write_nb(const T& word) {
        csdf_trace::ask(channel_.fifo());
        channel_.put(word, csdf_trace::NON_BLOCKING);
        return true;
    }
    bool write_dep(const T& word, volatile bool flag) {
        channel_.put(word);
        return flag;
    }
    bool empty() { return channel_.asked_empty(); }
    bool full() {
        csdf_trace::ask(channel_.fifo());
        return false;
    }
    unsigned size() {
        csdf_trace::ask(channel_.fifo());
        return unsigned(channel_.size());
    }
    unsigned capacity() const {
        long depth = channel_.fifo()->depth;
        return depth < 0 ? 2 : unsigned(depth);
    }
    void set_name(const char* name) { channel_.fifo()->name = channel_.fifo()->group = name; }
    const char* get_name() const { return channel_.fifo()->name.c_str(); }
    csdf_trace::Channel<T>& csdf_channel() { return channel_; }

  protected:
    stream(const char* name, long depth) : channel_(name ? name : "", depth) {}

  private:
    csdf_trace::Channel<T> channel_;
};

template <class T, int DEPTH>
class stream : public stream<T, 0> {
    static_assert(DEPTH > 0, "the depth of a stream is a positive number");

  public:
    stream() : stream<T, 0>("", long(DEPTH)) {}
    stream(const char* name) : stream<T, 0>(name, long(DEPTH)) {}
    explicit stream(const std::string& name) : stream<T, 0>(name.c_str(), long(DEPTH)) {}
};

}  // namespace hls

// Names, depths and kinds of storage, from the text of the source. Anything but streams is passed over.
namespace csdf_trace {

template <class S, class = void>
struct is_channel : std::false_type {};
template <class S>
struct is_channel<S, std::void_t<decltype(std::declval<S&>().csdf_channel())>> : std::true_type {};

template <class S, class = void>
struct is_row : std::false_type {};  // streams in a class with an index
template <class S>
struct is_row<S, std::void_t<decltype(std::declval<S&>().size()), decltype(std::declval<S&>()[0])>>
    : std::bool_constant<!is_channel<S>::value> {};

template <class S, class = void>
struct is_group : std::false_type {};  // streams as members of a class of ours
struct Nothing {
    template <class S>
    void operator()(S&, const char*) const {}
};
template <class S>
struct is_group<S, std::void_t<decltype(std::declval<S&>().csdf_each(Nothing()))>> : std::true_type {};

template <class S, class Deed>
void each(S& subject, const std::string& suffix, const Deed& deed) {
    if constexpr (is_group<S>::value) {
        subject.csdf_each([&](auto& part, const char* name) { each(part, suffix + name, deed); });
    } else if constexpr (is_channel<S>::value) {
        deed(subject.csdf_channel().fifo(), suffix);
    } else if constexpr (std::is_array_v<S>) {
        for (std::size_t i = 0; i < std::extent_v<S>; i++) {
            each(subject[i], suffix + "[" + std::to_string(i) + "]", deed);
        }
    } else if constexpr (is_row<S>::value) {
        using Inner = std::remove_reference_t<decltype(subject[0])>;
        if constexpr (is_channel<Inner>::value || std::is_array_v<Inner> || is_row<Inner>::value) {
            for (std::size_t i = 0; i < subject.size(); i++) {
                each(subject[i], suffix + "[" + std::to_string(i) + "]", deed);
            }
        }
    }
}

inline void list(Fifo* fifo) {
    if (is_recording && fifo->number == NOTHING) {
        fifo->number = Word(fifos().size());
        fifos().push_back(fifo);
    }
}

template <class S>
void declared(S& subject, const char* name, int line) {
    each(subject, "", [&](Fifo* fifo, const std::string& suffix) {
        if (fifo->line == 0) {
            fifo->name = name + suffix;
            fifo->group = name;
            fifo->line = line;
        }
        list(fifo);
    });
}

template <class S>
void port(S& subject, const char* name, int line) {
    each(subject, "", [&](Fifo* fifo, const std::string& suffix) {
        fifo->name = name + suffix;
        fifo->group = name;
        fifo->line = line;
        fifo->is_port = is_recording;
        list(fifo);
    });
}

template <class S>
void ports(S* subject, std::size_t count, const char* name, int line) {
    for (std::size_t i = 0; i < count; i++) {
        port(subject[i], (name + ("[" + std::to_string(i) + "]")).c_str(), line);
        each(subject[i], "", [&](Fifo* fifo, const std::string&) { fifo->group = name; });
    }
}

template <class S>
void depth(S& subject, long depth, int line) {
    if constexpr (std::is_array_v<S>) {
        if constexpr (!is_channel<std::remove_all_extents_t<S>>::value) {
            remark("line " + std::to_string(line) +
                   ": an array as a FIFO; its accesses are not recorded, it counts as an array");
        }
    }
    each(subject, "", [&](Fifo* fifo, const std::string&) { fifo->depth = depth; });
}

template <class S>
void storage(S& subject, const char* kind) {
    each(subject, "", [&](Fifo* fifo, const std::string&) { fifo->storage = kind; });
}

template <class S, class = void>
struct is_memory : std::false_type {};
template <class S>
struct is_memory<S, std::void_t<decltype(std::declval<S&>().csdf_fill(std::size_t(0)))>> : std::true_type {};
constexpr std::size_t ZEROS = 1 << 16;

template <class S>
void endless(S& subject) {
    if constexpr (is_memory<S>::value) {
        subject.csdf_fill(ZEROS);
    }
    each(subject, "", [&](Fifo* fifo, const std::string&) { fifo->is_endless = true; });
}

}  // namespace csdf_trace
