// TAPA's streams, tasks and memories, as far as a recorded run needs them. Written for csdf from the
// public documentation of TAPA.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#if __has_include(<gflags/gflags.h>)  // which comes with TAPA
#include <gflags/gflags.h>
#endif

#include "hls_stream.h"

namespace tapa {

template <class T>
struct csdf_word {  // with the mark of the end of a transaction
    static constexpr unsigned csdf_bits = csdf_trace::bits_of<T>::value + 1;
    T value{};
    bool is_end = false;
};
template <class T>
using csdf_channel_of = csdf_trace::Channel<csdf_word<T>>;

template <class T>
class istream {
  public:
    using element = T;
    bool empty() { return channel_->asked_empty(); }
    T read() { return channel_->take().value; }
    T read(std::nullptr_t) {
        T value{};
        try_read(value);
        return value;
    }
    T read(bool& is_success) {
        T value{};
        is_success = try_read(value);
        return value;
    }
    T read(std::nullptr_t, const T& otherwise) {
        T value = otherwise;
        try_read(value);
        return value;
    }
    bool try_read(T& value) {
        if (channel_->asked_empty()) {
            return false;
        }
        value = channel_->take(csdf_trace::NON_BLOCKING).value;
        return true;
    }
    istream& operator>>(T& value) {
        value = read();
        return *this;
    }
    T peek() { return channel_->front().value; }
    T peek(bool& is_success) {
        T value{};
        is_success = try_peek(value);
        return value;
    }
    T peek(std::nullptr_t) { return channel_->is_empty() ? T{} : channel_->front().value; }
    T peek(bool& is_success, bool& is_end) {
        T value = peek(is_success);
        is_end = is_success && channel_->front().is_end;
        return value;
    }
    bool try_peek(T& value) {
        if (channel_->asked_empty()) {
            return false;
        }
        value = channel_->front().value;
        return true;
    }
    // Waits for a word: a hardware loop that asks in vain does nothing either.
    bool eot(bool& is_success) {
        is_success = true;
        return channel_->front().is_end;
    }
    bool eot(std::nullptr_t = nullptr) { return channel_->front().is_end; }
    bool try_eot(bool& is_end) {
        is_end = channel_->front().is_end;
        return true;
    }
    void open() { channel_->take(); }
    bool try_open() {
        if (channel_->asked_empty()) {
            return false;
        }
        channel_->take(csdf_trace::NON_BLOCKING);
        return true;
    }
    csdf_channel_of<T>& csdf_channel() { return *channel_; }

  protected:
    std::shared_ptr<csdf_channel_of<T>> channel_;
};

template <class T>
class ostream {
  public:
    using element = T;
    bool full() {
        csdf_trace::ask(channel_->fifo());
        return false;
    }
    void write(const T& value) { channel_->put({value, false}); }
    bool try_write(const T& value) {
        csdf_trace::ask(channel_->fifo());
        channel_->put({value, false}, csdf_trace::NON_BLOCKING);
        return true;
    }
    ostream& operator<<(const T& value) {
        write(value);
        return *this;
    }
    void close() { channel_->put({T{}, true}); }
    bool try_close() {
        close();
        return true;
    }
    csdf_channel_of<T>& csdf_channel() { return *channel_; }

  protected:
    std::shared_ptr<csdf_channel_of<T>> channel_;
};

template <class T, std::uint64_t DEPTH = 2>
class stream : public istream<T>, public ostream<T> {
  public:
    using element = T;
    static constexpr int depth = int(DEPTH);
    stream() : stream("") {}
    explicit stream(const std::string& name) {
        istream<T>::channel_ = ostream<T>::channel_ = std::make_shared<csdf_channel_of<T>>(name, long(DEPTH));
    }
    csdf_channel_of<T>& csdf_channel() { return istream<T>::csdf_channel(); }
};

// Arrays of streams. An instance of a task takes the next, or as many as its parameter has.
template <class Stream>
class csdf_row {
  public:
    using stream_type = Stream;
    Stream& operator[](int i) { return *all_[i]; }
    std::size_t size() const { return all_.size(); }
    std::vector<Stream*>& csdf_all() { return all_; }
    std::shared_ptr<std::size_t> csdf_next = std::make_shared<std::size_t>(0);

  protected:
    std::vector<Stream*> all_;
};
template <class T, std::uint64_t N>
class istreams : public csdf_row<istream<T>> {
  public:
    static constexpr std::size_t length = N;
    using element = T;
};
template <class T, std::uint64_t N>
class ostreams : public csdf_row<ostream<T>> {
  public:
    static constexpr std::size_t length = N;
    using element = T;
};
template <class T, std::uint64_t N, std::uint64_t DEPTH = 2>
class streams {
  public:
    static constexpr std::size_t length = N;
    using element = T;
    streams() : streams("") {}
    explicit streams(const std::string& name) {
        for (std::uint64_t i = 0; i < N; i++) {
            all_.push_back(std::make_unique<stream<T, DEPTH>>(name.empty() ? "" : name + "[" + std::to_string(i) + "]"));
            all_.back()->csdf_channel().fifo()->group = name;
        }
    }
    stream<T, DEPTH>& operator[](int i) { return *all_[i]; }
    std::size_t size() const { return N; }
    std::size_t csdf_next_in = 0, csdf_next_out = 0;

  private:
    std::vector<std::unique_ptr<stream<T, DEPTH>>> all_;
};

// ---------------------------------------------------------------------------------------------------
// Memories

template <class T, std::uint64_t N>
class vec_t {
  public:
    static constexpr unsigned csdf_bits = N * csdf_trace::bits_of<T>::value;
    static constexpr int length = int(N);
    vec_t() = default;
    vec_t(const T& all) {
        for (T& x : values_) {
            x = all;
        }
    }
    T& operator[](int i) { return values_[i]; }
    const T& operator[](int i) const { return values_[i]; }
    void set(int i, const T& x) { values_[i] = x; }
    T get(int i) const { return values_[i]; }
#define CSDF_EACH(sign)                                                    \
    friend vec_t operator sign(const vec_t& a, const vec_t& b) {           \
        vec_t result;                                                      \
        for (std::uint64_t i = 0; i < N; i++) {                            \
            result.values_[i] = T(a.values_[i] sign b.values_[i]);         \
        }                                                                  \
        return result;                                                     \
    }                                                                      \
    vec_t& operator sign##=(const vec_t& b) { return *this = *this sign b; }
    CSDF_EACH(+)
    CSDF_EACH(-)
    CSDF_EACH(*)
    CSDF_EACH(/)
#undef CSDF_EACH

  private:
    T values_[N] = {};
};

template <class T>
class mmap {
  public:
    explicit mmap(T* data = nullptr) : data_(data) {}
    mmap(T* data, std::uint64_t size) : data_(data), size_(size) {}
    template <class A>
    explicit mmap(std::vector<std::remove_const_t<T>, A>& values) : data_(values.data()), size_(values.size()) {}
    operator T*() { return data_; }
    T* data() const { return data_; }
    T* get() const { return data_; }
    std::uint64_t size() const { return size_; }
    template <std::uint64_t N>
    auto vectorized() const {
        using Vector = vec_t<T, N>;
        return mmap<Vector>(reinterpret_cast<Vector*>(data_), size_ / N);
    }
    mmap& operator++() {
        ++data_;
        return *this;
    }
    mmap operator++(int) { return mmap(data_++); }
    mmap& operator+=(std::ptrdiff_t n) {
        data_ += n;
        return *this;
    }
    void csdf_fill(std::size_t size) {
        data_ = new std::remove_const_t<T>[size]();
        size_ = size;
    }
    template <class U>
    mmap<U> reinterpret() const {
        return mmap<U>(reinterpret_cast<U*>(data_), size_ * sizeof(T) / sizeof(U));
    }

  protected:
    T* data_;
    std::uint64_t size_ = 0;
};

// Requests and answers of an asynchronous memory; they are no FIFOs of the design.
template <class T>
class csdf_requests {
  public:
    explicit csdf_requests(std::function<void(T)> deed) : deed_(std::move(deed)) {}
    bool full() const { return false; }
    void write(const T& value) { deed_(value); }
    bool try_write(const T& value) {
        deed_(value);
        return true;
    }
    csdf_requests& operator<<(const T& value) {
        deed_(value);
        return *this;
    }

  private:
    std::function<void(T)> deed_;
};
template <class T>
class csdf_answers {
  public:
    std::deque<T> words;
    bool empty() const { return words.empty(); }
    bool try_read(T& value) {
        if (words.empty()) {
            return false;
        }
        value = words.front();
        words.pop_front();
        return true;
    }
    T read() {
        T value{};
        try_read(value);
        return value;
    }
    T read(std::nullptr_t) { return read(); }
    T read(bool& is_success) {
        is_success = !words.empty();
        return read();
    }
    bool try_peek(T& value) const {
        if (!words.empty()) {
            value = words.front();
        }
        return !words.empty();
    }
    csdf_answers& operator>>(T& value) {
        value = read();
        return *this;
    }
};
template <class T>
class async_mmap {
  public:
    using addr_t = std::int64_t;
    using resp_t = std::uint8_t;
    async_mmap(mmap<T> memory)
        : read_addr([this](addr_t at) { read_data.words.push_back(memory_[at]); }),
          write_addr([this](addr_t at) {
              addresses_.push_back(at);
              store();
          }),
          write_data([this](std::remove_const_t<T> value) {
              values_.push_back(value);
              store();
          }),
          memory_(memory) {}
    async_mmap(const async_mmap&) = delete;
    csdf_requests<addr_t> read_addr;
    csdf_answers<std::remove_const_t<T>> read_data;
    csdf_requests<addr_t> write_addr;
    csdf_requests<std::remove_const_t<T>> write_data;
    csdf_answers<resp_t> write_resp;

  private:
    void store() {
        while (!addresses_.empty() && !values_.empty()) {
            if constexpr (!std::is_const_v<T>) {
                memory_[addresses_.front()] = values_.front();
            }
            addresses_.pop_front();
            values_.pop_front();
            write_resp.words.push_back(0);
        }
    }
    T* memory_;
    std::deque<addr_t> addresses_;
    std::deque<std::remove_const_t<T>> values_;
};

#define CSDF_MEMORY(name)                            \
    template <class T>                               \
    class name : public mmap<T> {                    \
      public:                                        \
        using mmap<T>::mmap;                         \
        template <class A>                           \
        explicit name(const std::vector<std::remove_const_t<T>, A>& values)     \
            : mmap<T>(const_cast<T*>(values.data()), values.size()) {}          \
    };                                               \
    template <class T, class A>                      \
    name(std::vector<T, A>&) -> name<T>;
CSDF_MEMORY(read_only_mmap)
CSDF_MEMORY(write_only_mmap)
CSDF_MEMORY(read_write_mmap)
CSDF_MEMORY(placeholder_mmap)
#undef CSDF_MEMORY
template <class T, std::uint64_t N>
class mmaps {
  public:
    static constexpr std::size_t length = N;
    template <class P>
    explicit mmaps(const P& all) {
        for (std::uint64_t i = 0; i < N; i++) {
            all_.emplace_back(const_cast<std::remove_const_t<std::remove_reference_t<decltype(all[i])>>&>(all[i]));
        }
    }
    mmap<T>& operator[](int i) { return all_[i]; }
    std::size_t csdf_next = 0;
    template <std::size_t PART>
    mmaps<T, PART> csdf_part() {
        mmaps<T, PART> part(all_.data() + csdf_next);
        csdf_next += PART;
        return part;
    }
    template <std::uint64_t M>
    auto vectorized() {
        std::vector<mmap<vec_t<T, M>>> all;
        for (mmap<T>& one : all_) {
            all.push_back(one.template vectorized<M>());
        }
        return mmaps<vec_t<T, M>, N>(all);
    }

  private:
    std::vector<mmap<T>> all_;
};

#define CSDF_MEMORY(name)                      \
    template <class T, std::uint64_t N>        \
    class name : public mmaps<T, N> {          \
      public:                                  \
        using mmaps<T, N>::mmaps;              \
    };
CSDF_MEMORY(read_only_mmaps)
CSDF_MEMORY(write_only_mmaps)
CSDF_MEMORY(read_write_mmaps)
CSDF_MEMORY(placeholder_mmaps)
#undef CSDF_MEMORY

// ---------------------------------------------------------------------------------------------------
// Tasks

struct seq {
    int csdf_next = 0;
};

constexpr int join = 0, detach = 1;

template <class T>
struct csdf_is_streams : std::false_type {};
template <class T, std::uint64_t N, std::uint64_t D>
struct csdf_is_streams<streams<T, N, D>> : std::true_type {};
template <class T>
struct csdf_row_of : std::false_type {};
template <class T, std::uint64_t N>
struct csdf_row_of<istreams<T, N>> : std::true_type {
    static constexpr bool is_input = true;
};
template <class T, std::uint64_t N>
struct csdf_row_of<ostreams<T, N>> : std::true_type {
    static constexpr bool is_input = false;
};
template <class T>
struct csdf_end_of : std::false_type {};
template <class T>
struct csdf_end_of<istream<T>> : std::true_type {
    static constexpr bool is_input = true;
};
template <class T>
struct csdf_end_of<ostream<T>> : std::true_type {
    static constexpr bool is_input = false;
};
template <class T>
struct csdf_is_mmaps : std::false_type {};
template <class T, std::uint64_t N>
struct csdf_is_mmaps<mmaps<T, N>> : std::true_type {};
template <class T>
struct csdf_is_mmap : std::false_type {};
template <class T>
struct csdf_is_mmap<mmap<T>> : std::true_type {};

// A place for an argument of one instance: a reference to what outlives it, or a value.
template <class T>
struct csdf_slot {
    T* pointer = nullptr;
    std::shared_ptr<T> value;
    T& get() { return pointer ? *pointer : *value; }
};

template <class Parameter, class Argument>
csdf_slot<std::remove_cv_t<std::remove_reference_t<Parameter>>> csdf_pass(Argument& argument) {
    using P = std::remove_cv_t<std::remove_reference_t<Parameter>>;
    using A = std::remove_cv_t<Argument>;
    csdf_slot<P> slot;
    if constexpr (csdf_end_of<P>::value && csdf_is_streams<A>::value) {
        std::size_t& next = csdf_end_of<P>::is_input ? argument.csdf_next_in : argument.csdf_next_out;
        slot.pointer = &static_cast<P&>(argument[int(next++ % argument.size())]);
    } else if constexpr (csdf_end_of<P>::value && csdf_row_of<A>::value) {
        slot.pointer = &argument[int((*argument.csdf_next)++ % argument.size())];
    } else if constexpr (csdf_row_of<P>::value) {
        slot.value = std::make_shared<P>();
        for (std::size_t i = 0; i < P::length; i++) {
            if constexpr (csdf_is_streams<A>::value) {
                std::size_t& next = csdf_row_of<P>::is_input ? argument.csdf_next_in : argument.csdf_next_out;
                slot.value->csdf_all().push_back(&argument[int(next++ % argument.size())]);
            } else {
                slot.value->csdf_all().push_back(&argument[int((*argument.csdf_next)++ % argument.size())]);
            }
        }
    } else if constexpr (csdf_end_of<P>::value) {
        slot.pointer = &static_cast<P&>(argument);
    } else if constexpr (csdf_is_mmaps<P>::value && csdf_is_mmaps<A>::value) {
        slot.value = std::make_shared<P>(argument.template csdf_part<P::length>());
    } else if constexpr (csdf_is_mmaps<A>::value) {
        slot.value = std::make_shared<P>(argument[int(argument.csdf_next++)]);
    } else if constexpr (std::is_same_v<A, seq>) {
        slot.value = std::make_shared<P>(P(argument.csdf_next++));
    } else if constexpr (std::is_same_v<P, A>) {
        if constexpr (std::is_lvalue_reference_v<Parameter> && !std::is_const_v<std::remove_reference_t<Parameter>>) {
            slot.pointer = &argument;
        } else {
            slot.value = std::make_shared<P>(argument);
        }
    } else {
        slot.value = std::make_shared<P>(argument);
    }
    return slot;
}

class task {
  public:
    task() = default;
    task(const task&) = delete;
    ~task() { region_.join(); }

    task& at(int site) {
        site_ = site;
        return *this;
    }
    template <int MODE = join, int N = 1, class... P, class... A>
    task& invoke(void (&function)(P...), A&&... arguments) {
        if constexpr (sizeof...(P) + 1 == sizeof...(A)) {  // a name comes first
            call_named<MODE, N>(function, arguments...);
        } else {
            static_assert(sizeof...(P) == sizeof...(A), "a task gets as many arguments as it has parameters");
            for (int i = 0; i < N; i++) {
                start<MODE, P...>(function, N > 1 ? "[" + std::to_string(i) + "]" : "", arguments...);
            }
        }
        return *this;
    }

  private:
    template <int MODE, int N, class... P, class Name, class... A>
    void call_named(void (&function)(P...), const Name&, A&... arguments) {
        for (int i = 0; i < N; i++) {
            start<MODE, P...>(function, N > 1 ? "[" + std::to_string(i) + "]" : "", arguments...);
        }
    }
    template <int MODE, class... P, class... A>
    void start(void (&function)(P...), const std::string& name, A&... arguments) {
        auto slots = std::make_tuple(csdf_pass<P>(arguments)...);
        auto* pointer = &function;
        auto work = [slots, pointer]() mutable {
            std::apply([pointer](auto&... slot) { pointer(static_cast<P>(slot.get())...); }, slots);
        };
        if (!csdf_trace::is_recording) {
            work();  // of a call that is not recorded: in sequence
            return;
        }
        csdf_trace::start_task(csdf_trace::Word(site_), name, false, MODE == detach, work);
    }
    int site_ = 0;
    csdf_trace::Region region_;
};

template <class... P, class... A>
std::int64_t invoke(void (&function)(P...), const std::string&, A&&... arguments) {
    std::tuple<csdf_slot<std::remove_cv_t<std::remove_reference_t<P>>>...> slots(csdf_pass<P>(arguments)...);
    std::apply([&](auto&... slot) { function(static_cast<P>(slot.get())...); }, slots);
    return 0;
}

template <class T, class A = std::allocator<T>>
using aligned_allocator = std::allocator<T>;
template <class To, class From>
To bit_cast(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}
template <class T>
T reg(T x) {
    return x;
}
template <class T>
constexpr int widthof() {
    return int(csdf_trace::bits_of<T>::value);
}
template <class T>
constexpr int widthof(const T&) {
    return int(csdf_trace::bits_of<T>::value);
}

}  // namespace tapa

#define TAPA_WHILE_NOT_EOT(fifo) \
    for (bool tapa_##fifo##_valid; !fifo.eot(tapa_##fifo##_valid) || !tapa_##fifo##_valid;)
#define TAPA_WHILE_NONE_EOT(one, two, three)                                                   \
    for (bool tapa_##one##_valid, tapa_##two##_valid, tapa_##three##_valid;                    \
         (!one.eot(tapa_##one##_valid) || !tapa_##one##_valid) &&                              \
         (!two.eot(tapa_##two##_valid) || !tapa_##two##_valid) &&                              \
         (!three.eot(tapa_##three##_valid) || !tapa_##three##_valid);)
#define TAPA_WHILE_NEITHER_EOT(one, two)                                                       \
    for (bool tapa_##one##_valid, tapa_##two##_valid;                                          \
         (!one.eot(tapa_##one##_valid) || !tapa_##one##_valid) &&                              \
         (!two.eot(tapa_##two##_valid) || !tapa_##two##_valid);)

// The logging that comes with TAPA: nothing is logged.
#ifndef VLOG
#define CSDF_NO_LOG \
    if (true) {     \
    } else          \
        std::clog
#define VLOG(level) CSDF_NO_LOG
#define VLOG_F(level, ...) CSDF_NO_LOG
#define VLOG_IS_ON(level) false
#define LOG(level) CSDF_NO_LOG
#define LOG_IF(level, condition) CSDF_NO_LOG
#define CHECK(condition) CSDF_NO_LOG << (condition)
#define CHECK_EQ(a, b) CSDF_NO_LOG << ((a) == (b))
#define CHECK_NE(a, b) CSDF_NO_LOG << ((a) != (b))
#define CHECK_LT(a, b) CSDF_NO_LOG << ((a) < (b))
#define CHECK_LE(a, b) CSDF_NO_LOG << ((a) <= (b))
#define CHECK_GT(a, b) CSDF_NO_LOG << ((a) > (b))
#define CHECK_GE(a, b) CSDF_NO_LOG << ((a) >= (b))
#endif
