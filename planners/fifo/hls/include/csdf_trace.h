// The recorder behind hls_stream.h and tapa.h: which FIFO each iteration of each loop reads and writes.
//
// The instrumented source announces the top function, its processes, and loops with their iterations.
// An iteration is the sequence of what it does. Equal iterations, patterns of iterations and executions
// of loops are stored once, as numbered nodes; repetitions are counted. So memory does not grow with
// trip counts where the loops are regular.
#pragma once
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <initializer_list>
#include <memory>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>
#include <ucontext.h>  // and nothing else of POSIX, whose names are those of many designs: read, mmap

namespace csdf_trace {

using Word = std::uint32_t;
enum Kind : Word { READ = 0, WRITE = 1, LOOP = 2 };
constexpr Word NON_BLOCKING = 4;  // beside the kind, in an item of an iteration
constexpr int ITEM_SHIFT = 3;
constexpr Word NOTHING = ~Word(0);

template <class T, class = void>
struct bits_of {
    static constexpr unsigned value = sizeof(T) * 8;
};
template <>
struct bits_of<bool> {
    static constexpr unsigned value = 1;
};
template <class T>
struct bits_of<T, std::void_t<decltype(T::csdf_bits)>> {
    static constexpr unsigned value = T::csdf_bits;
};

// ---------------------------------------------------------------------------------------------------
// Nodes: sequences of words with equal ones stored once.

enum NodeKind : Word { ITERATION = 0, PATTERN = 1, EXECUTION = 2 };

class Nodes {
  public:
    Nodes() : table_(1 << 12, NOTHING) { start_.push_back(0); }

    const Word* at(Word node) const { return &words_[start_[node]]; }
    Word size(Word node) const { return Word(start_[node + 1] - start_[node]); }

    bool is(Word node, const Word* words, std::size_t count) const {
        return size(node) == count + 1 && std::memcmp(at(node) + 1, words, count * sizeof(Word)) == 0;
    }

    Word number(NodeKind kind, const Word* words, std::size_t count) {
        std::uint64_t hash = 0x9e3779b97f4a7c15ull ^ kind;
        for (std::size_t i = 0; i < count; i++) {
            hash = (hash ^ words[i]) * 0xff51afd7ed558ccdull;
            hash ^= hash >> 29;
        }
        std::size_t slot = hash & (table_.size() - 1);
        for (; table_[slot] != NOTHING; slot = (slot + 1) & (table_.size() - 1)) {
            Word found = table_[slot];
            if (hash_[found] == Word(hash >> 32) && *at(found) == kind && is(found, words, count)) {
                return found;
            }
        }
        Word node = Word(hash_.size());
        words_.push_back(kind);
        words_.insert(words_.end(), words, words + count);
        start_.push_back(words_.size());
        hash_.push_back(Word(hash >> 32));
        where_.push_back(hash);
        table_[slot] = node;
        if (hash_.size() * 2 > table_.size()) {
            grow();
        }
        return node;
    }

  private:
    void grow() {
        std::vector<Word> table(table_.size() * 2, NOTHING);
        for (Word node = 0; node < hash_.size(); node++) {
            std::size_t slot = where_[node] & (table.size() - 1);
            while (table[slot] != NOTHING) {
                slot = (slot + 1) & (table.size() - 1);
            }
            table[slot] = node;
        }
        table_.swap(table);
    }

    std::vector<Word> words_;
    std::vector<std::size_t> start_;
    std::vector<Word> hash_;
    std::vector<std::uint64_t> where_;
    std::vector<Word> table_;
};

// ---------------------------------------------------------------------------------------------------
// One recorder per process.

struct Entry {  // of a list of iterations: a node (ITERATION or PATTERN), so many times
    Word count, node;
};

struct Recorder;

struct State {
    Nodes nodes;
    std::vector<Word> latest;  // by loop: the node of its last execution, most likely that of the next
};

inline State* const the_state = new State;
inline State& state() { return *the_state; }
inline Recorder* current = nullptr;  // null outside the recorded call

constexpr std::size_t FOLD_FROM = 16;    // entries of a loop before patterns are looked for
constexpr std::size_t LONGEST = 64;      // entries in a pattern
constexpr Word MOST = NOTHING - 1;       // repetitions in one entry

class Loop;

struct Recorder {
    std::vector<Word> items;
    std::vector<Entry> entries;
    Loop* innermost = nullptr;  // that runs

    void add(Word item) { items.push_back(item); }

    bool same(std::size_t a, std::size_t b) const {
        return entries[a].node == entries[b].node && entries[a].count == entries[b].count;
    }

    // Append an entry to the list that begins at `first`, and fold the end where it repeats itself:
    // always, once a pattern was found, else in long lists only. Returns whether there are patterns.
    bool append(std::size_t first, Entry entry, bool has_patterns) {
        if (has_patterns && is_pattern(entries.back().node) && !begins_with(entries.back().node, entry)) {
            fold(first);
        }
        entries.push_back(entry);
        if (has_patterns || entries.size() - first > FOLD_FROM) {
            return fold(first) || has_patterns;
        }
        return false;
    }

    bool fold(std::size_t first) {
        Nodes& nodes = state().nodes;
        const std::size_t size = entries.size() - first;
        for (std::size_t length = 2; length <= LONGEST && length < size; length++) {
            const std::size_t tail = entries.size() - length;
            Entry& before = entries[tail - 1];
            const Word* words = reinterpret_cast<const Word*>(&entries[tail]);
            if (is_pattern(before.node) && before.count < MOST &&
                nodes.is(before.node, words, 2 * length)) {
                before.count++;
                entries.resize(tail);
                return true;
            }
            if (2 * length > size || !same(entries.size() - 1, tail - 1) ||
                std::memcmp(&entries[tail - length], words, length * sizeof(Entry)) != 0) {
                continue;
            }
            const Word pattern = nodes.number(PATTERN, words, 2 * length);
            Word count = 2;
            std::size_t begin = tail - length;
            while (begin >= first + length &&
                   std::memcmp(&entries[begin - length], words, length * sizeof(Entry)) == 0) {
                begin -= length;
                count++;
            }
            entries.resize(begin);
            entries.push_back({count, pattern});
            return true;
        }
        return false;
    }

    bool is_pattern(Word node) const { return *state().nodes.at(node) == PATTERN; }
    bool begins_with(Word node, Entry entry) const { return state().nodes.at(node)[2] == entry.node; }
};

class Loop {  // an execution of a loop: lives around the statement
  public:
    explicit Loop(Word loop) : recorder_(current), loop_(loop) {
        if (recorder_) {
            State& s = state();
            if (s.latest.size() <= loop) {
                s.latest.resize(loop + 1, NOTHING);
            }
            expected_ = s.latest[loop];
            outer_ = recorder_->innermost;
            recorder_->innermost = this;
            items_ = recorder_->items.size();
            entries_ = recorder_->entries.size();
        }
    }
    Loop(const Loop&) = delete;
    ~Loop() { end(); }

    bool once() const { return !is_done_; }

    bool iteration() {  // announces the next one; always false
        if (recorder_) {
            if (is_open_ && !is_tested_) {
                close();
            }
            is_open_ = true;
            is_tested_ = false;
        }
        return false;
    }

    void test() {  // announces its condition, which is part of it
        iteration();
        is_tested_ = true;
    }

    void end() {
        is_done_ = true;
        if (is_tested_) {
            drop_nothing();
        }
        if (Word node = finish(); node != NOTHING) {
            recorder_->innermost = outer_;
            recorder_->add(node << ITEM_SHIFT | LOOP);
        }
        recorder_ = nullptr;
    }

    void drop_nothing() {  // forget an iteration that has not done anything yet
        if (recorder_ && is_open_ && recorder_->items.size() == items_) {
            is_open_ = false;
        }
    }

    void abandon() {  // of a task that never ends: what it has done so far
        drop_nothing();
        if (recorder_ && !is_open_ && trips_ == 0) {
            recorder_->innermost = outer_;
            recorder_ = nullptr;
        }
        is_tested_ = false;
        end();
    }

    Word finish() {  // the node of the execution, or NOTHING if nothing is recorded
        if (!recorder_) {
            return NOTHING;
        }
        if (is_open_) {
            close();
            is_open_ = false;
        }
        flush();
        State& s = state();
        std::vector<Entry>& entries = recorder_->entries;
        Word header[3] = {loop_, Word(trips_), Word(trips_ >> 32)};
        const std::size_t count = entries.size() - entries_;
        const Word* words = reinterpret_cast<const Word*>(entries.data() + entries_);
        if (expected_ == NOTHING || s.nodes.size(expected_) != 4 + 2 * count ||
            std::memcmp(s.nodes.at(expected_) + 1, header, sizeof header) != 0 ||
            (count && std::memcmp(s.nodes.at(expected_) + 4, words, 2 * count * sizeof(Word)) != 0)) {
            std::vector<Word> key(header, header + 3);
            key.insert(key.end(), words, words + 2 * count);
            expected_ = s.nodes.number(EXECUTION, key.data(), key.size());
            s.latest[loop_] = expected_;
        }
        entries.resize(entries_);
        return expected_;
    }

  private:
    void close() {
        std::vector<Word>& items = recorder_->items;
        const Word* words = items.data() + items_;
        const std::size_t count = items.size() - items_;
        trips_++;
        Nodes& nodes = state().nodes;
        if (run_.count && run_.count < MOST && nodes.is(run_.node, words, count)) {
            run_.count++;
        } else {
            flush();
            Word guess = NOTHING;
            if (expected_ != NOTHING) {
                std::size_t at = 5 + 2 * (recorder_->entries.size() - entries_);
                if (at < nodes.size(expected_)) {
                    guess = nodes.at(expected_)[at];
                    if (*nodes.at(guess) != ITERATION || !nodes.is(guess, words, count)) {
                        guess = NOTHING;
                    }
                }
            }
            run_ = {1, guess != NOTHING ? guess : nodes.number(ITERATION, words, count)};
        }
        items.resize(items_);
    }

    void flush() {
        if (run_.count) {
            has_patterns_ = recorder_->append(entries_, run_, has_patterns_);
            run_.count = 0;
        }
    }

    Recorder* recorder_;
    Loop* outer_ = nullptr;
    Word loop_;
    Word expected_ = NOTHING;
    std::size_t items_ = 0, entries_ = 0;
    std::uint64_t trips_ = 0;
    Entry run_{0, 0};
    bool is_open_ = false, is_tested_ = false, is_done_ = false, has_patterns_ = false;
};

// ---------------------------------------------------------------------------------------------------
// FIFOs

struct Fifo {
    std::string name, group, storage;
    unsigned bits = 0;
    long depth = -1;  // -1: not given
    int line = 0;
    Word number = NOTHING;  // from its first use in the recorded call
    bool is_port = false;     // of the top function
    bool is_endless = false;  // gives zeros for ever: a port where there is no test bench
    bool is_asked = false;    // empty(), full(), size() or a non-blocking access while recording
};

inline std::vector<Fifo*>& fifos() {
    static std::vector<Fifo*>* all = new std::vector<Fifo*>;
    return *all;
}

inline std::uint64_t moves = 0;  // of words, as a sign that something goes on

inline void note(Fifo* fifo, Word kind) {
    moves++;
    if (current) {
        if (fifo->number == NOTHING) {
            fifo->number = Word(fifos().size());
            fifos().push_back(fifo);
        }
        current->add(fifo->number << ITEM_SHIFT | kind);
    }
}

// ---------------------------------------------------------------------------------------------------
// Processes. First each runs to its end before the next starts, as in the C simulation of Vitis HLS. If
// one reads an empty FIFO that a later one fills, the program is run again with CSDF_TRACE_FIBERS set:
// then each process has a stack of its own, and the next takes over where one waits.

[[noreturn]] inline void stop(const char* what, const std::string& subject, const std::string& more = "") {
    if (const char* path = std::getenv("CSDF_TRACE")) {
        if (std::FILE* file = std::fopen(path, "w")) {
            std::fprintf(file, "stop\t%s\t%s\t%s\n", what, subject.c_str(), more.c_str());
            std::fclose(file);
        }
    }
    std::fflush(nullptr);
    std::_Exit(3);
}

inline bool has_fibers() {
    static const bool answer = std::getenv("CSDF_TRACE_FIBERS") != nullptr;
    return answer;
}

struct Fiber {
    std::function<void()> work;
    std::vector<struct Process*> after;  // whose arrays it reads
    ucontext_t context;
    ucontext_t* back = nullptr;  // to whom resumed it
    void* stack = nullptr;
    Recorder* recorder = nullptr;
    struct Process* process = nullptr;
    struct Process* now = nullptr;  // the same, or one inside it
    struct Region* region = nullptr;  // that it belongs to
    struct Region* inner = nullptr;   // where it is
    bool is_started = false, is_done = false, is_detached = false;
    Fifo* waits_for = nullptr;
    bool waits_to_write = false;
    std::function<bool()> is_ready;
};

struct Process {  // one for each statement of a region that starts one, or for each turn of an unrolled loop
    Word site;
    Process* parent;
    Word turn;
    std::string name;
    Recorder recorder;
    std::vector<Entry> executions;  // of the loop of its executions
    std::unique_ptr<Loop> all;      // its executions as iterations
    int running = 0;
};

struct Region {
    std::map<Word, Word> turns;  // of sites in unrolled loops
    std::map<Word, Process*> processes;
    Region* outer;
    explicit Region();
    bool join();  // always false
};

inline std::vector<Process*> processes;
inline Process* process_now = nullptr;
inline Region* region_now = nullptr;
inline bool is_recording = false;
inline std::deque<Fiber*> fibers;
inline Fiber* fiber_now = nullptr;
inline std::vector<void*> free_stacks;
constexpr std::size_t STACK = std::size_t(32) << 20;

inline Region::Region() : outer(region_now) { region_now = this; }

inline Process* process_of(Word site, const std::string& name = "", bool is_replicated = false) {
    Word turn = 0;
    if (is_replicated && region_now) {
        turn = region_now->turns[site]++;
    }
    for (Process* process : processes) {
        if (process->site == site && process->parent == process_now && process->turn == turn &&
            process->name == name) {
            return process;
        }
    }
    Process* process = new Process{site, process_now, turn, name, {}, {}, nullptr, 0};
    processes.push_back(process);
    return process;
}

inline void begin_execution(Process* process) {
    if (!process->all) {
        process->all = std::make_unique<Loop>(0);
    }
    process->all->iteration();
}

inline void execute(Process* process, const std::function<void()>& work) {
    Recorder* recorder = current;
    Process* outer = process_now;
    Region* region = region_now;
    if (is_recording) {
        current = &process->recorder;
        process_now = process;
        begin_execution(process);
    }
    work();
    current = recorder;
    process_now = outer;
    region_now = region;
}

inline void fiber_main() {
    Fiber* fiber = fiber_now;
    execute(fiber->process, fiber->work);
    fiber->is_done = true;
    fiber->process->running--;
    swapcontext(&fiber->context, fiber->back);
}

// Let the fiber run until it waits or ends.
inline void resume(Fiber* fiber) {
    Fiber* outer_fiber = fiber_now;
    Recorder* recorder = current;
    Process* process = process_now;
    Region* region = region_now;
    ucontext_t here;
    fiber->back = &here;
    fiber_now = fiber;
    if (!fiber->is_started) {
        fiber->is_started = true;
        if (free_stacks.empty()) {
            fiber->stack = std::malloc(STACK);  // pages come as they are used
            if (!fiber->stack) {
                stop("memory", "");
            }
        } else {
            fiber->stack = free_stacks.back();
            free_stacks.pop_back();
        }
        getcontext(&fiber->context);
        fiber->context.uc_stack.ss_sp = fiber->stack;
        fiber->context.uc_stack.ss_size = STACK;
        fiber->context.uc_link = nullptr;
        makecontext(&fiber->context, fiber_main, 0);
        current = fiber->recorder;
        region_now = fiber->region;
    } else {
        current = fiber->recorder;
        process_now = fiber->now;
        region_now = fiber->inner;
    }
    swapcontext(&here, &fiber->context);
    if (!fiber->is_done) {
        fiber->recorder = current;
        fiber->inner = region_now;
    } else if (fiber->stack) {
        free_stacks.push_back(fiber->stack);
        fiber->stack = nullptr;
    }
    fiber_now = outer_fiber;
    current = recorder;
    process_now = process;
    region_now = region;
}

// Give the others a turn; the fiber goes on when `is_ready`.
inline void wait_until(Fifo* fifo, bool to_write, std::function<bool()> is_ready) {
    Fiber* fiber = fiber_now;
    fiber->waits_for = fifo;
    fiber->waits_to_write = to_write;
    fiber->is_ready = std::move(is_ready);
    fiber->now = process_now;
    swapcontext(&fiber->context, fiber->back);
    fiber->waits_for = nullptr;
}

inline bool is_runnable(Fiber* fiber) {
    if (fiber->is_started) {
        return !fiber->is_ready || fiber->is_ready();
    }
    for (Process* before : fiber->after) {
        if (before->running) {
            return false;
        }
    }
    return true;
}

// One round over all fibers; whether any could run.
inline bool run_a_round() {
    bool has_run = false;
    for (std::size_t i = 0; i < fibers.size(); i++) {
        Fiber* fiber = fibers[i];
        if (!fiber->is_done && fiber != fiber_now && is_runnable(fiber)) {
            resume(fiber);
            has_run = true;
        }
    }
    for (std::size_t i = 0; i < fibers.size();) {
        if (fibers[i]->is_done) {
            delete fibers[i];
            fibers.erase(fibers.begin() + i);
        } else {
            i++;
        }
    }
    return has_run;
}

inline std::string told(const Process* process);

inline void report_stuck() {
    std::string all;
    for (Fiber* fiber : fibers) {
        if (!fiber->is_done && !fiber->is_detached && fiber->waits_for) {
            all += (all.empty() ? "" : "; ") + told(fiber->process) +
                   (fiber->waits_to_write ? " writes " : " reads ") + fiber->waits_for->name;
        }
    }
    stop("stuck", all);
}

constexpr int IDLE_ROUNDS = 1000;  // of programs that only ask whether FIFOs are empty

// Until all processes but the detached are done; then, if wished, until those can do no more.
inline void run_all(Region* region, bool with_detached) {
    int idle = 0;
    for (;;) {
        bool is_open = false;
        for (Fiber* fiber : fibers) {
            if (!fiber->is_done && !fiber->is_detached && (!region || fiber->region == region)) {
                is_open = true;
            }
        }
        if (!is_open && !with_detached) {
            return;
        }
        const std::uint64_t before = moves;
        const std::size_t count = fibers.size();
        const bool has_run = run_a_round();
        idle = moves == before && fibers.size() == count ? idle + 1 : 0;
        if (!has_run || (!is_open && idle > 2) || idle > IDLE_ROUNDS) {
            if (!is_open) {
                return;
            }
            report_stuck();
        }
    }
}

inline Fiber* start(Process* process, std::function<void()> work, std::vector<Process*> after, bool is_detached) {
    Fiber* fiber = new Fiber;
    fiber->work = std::move(work);
    fiber->after = std::move(after);
    fiber->process = process;
    fiber->region = region_now;
    fiber->recorder = current;
    fiber->is_detached = is_detached;
    process->running++;
    fibers.push_back(fiber);
    if (is_runnable(fiber)) {
        resume(fiber);
    }
    return fiber;
}

// A process of a region: `after` are the sites whose arrays it reads.
template <class Work>
inline void run(Word site, std::initializer_list<Word> after, bool is_replicated, Work&& work) {
    if (!is_recording) {
        work();
        return;
    }
    Process* process = process_of(site, "", is_replicated);
    if (!has_fibers()) {
        execute(process, work);
        return;
    }
    std::vector<Process*> before;
    for (Word other : after) {
        for (Process* p : processes) {
            if (p->site == other && p->parent == process_now) {
                before.push_back(p);
            }
        }
    }
    start(process, std::forward<Work>(work), std::move(before), false);
}

// The same for one whose result the region itself needs: it is never left waiting.
template <class Work>
inline void run_inline(Word site, std::initializer_list<Word>, bool is_replicated, Work&& work) {
    if (is_recording) {
        execute(process_of(site, "", is_replicated), work);
    } else {
        work();
    }
}

inline std::vector<std::pair<Recorder*, Process*>> begun;
inline void begin(Word site) {  // likewise, where it declares a variable
    begun.push_back({current, process_now});
    if (is_recording) {
        Process* process = process_of(site);
        current = &process->recorder;
        process_now = process;
        begin_execution(process);
    }
}
inline void end(Word) {
    current = begun.back().first;
    process_now = begun.back().second;
    begun.pop_back();
}

struct At {  // the site of a task
    Word site;
};

// A task: with executions for ever, or one; processes of it are told apart by a name, and by turns.
inline Fiber* start_task(Word site, const std::string& name, bool for_ever, bool is_detached,
                       std::function<void()> work) {
    if (!is_recording) {
        stop("task outside", "");
    }
    if (!has_fibers()) {
        stop("fibers", "");
    }
    Process* process = process_of(site, name, true);
    if (for_ever) {
        work = [process, work] {
            for (;;) {
                work();
                begin_execution(process);
            }
        };
    }
    return start(process, std::move(work), {}, is_detached || for_ever);
}

inline bool Region::join() {
    if (is_recording && has_fibers()) {
        if (fiber_now) {
            Region* self = this;
            auto is_over = [self] {
                for (Fiber* fiber : fibers) {
                    if (!fiber->is_done && !fiber->is_detached && fiber->region == self) {
                        return false;
                    }
                }
                return true;
            };
            while (!is_over()) {
                wait_until(nullptr, false, is_over);
            }
        } else {
            run_all(this, false);
        }
    }
    region_now = outer;
    return false;
}

// A read of an empty FIFO: returns when it is no longer empty.
template <class Ready>
inline void wait_to_read(Fifo* fifo, Ready is_ready) {
    if (fiber_now) {
        wait_until(fifo, false, is_ready);
        return;
    }
    if (is_recording && has_fibers()) {  // of the region itself
        while (!is_ready()) {
            if (!run_a_round()) {
                stop("empty", fifo->name, told(process_now));
            }
        }
        return;
    }
    stop(is_recording ? "empty" : "empty outside", fifo->name, is_recording ? told(process_now) : "");
}

inline void yield() {
    if (fiber_now) {
        wait_until(nullptr, false, [] { return true; });
    } else if (is_recording && has_fibers()) {
        run_a_round();
    }
}

inline void ask(Fifo* fifo) {
    if (is_recording && current) {
        fifo->is_asked = true;
    }
}

// ---------------------------------------------------------------------------------------------------
// The call of the top function

inline int calls = 0;
inline std::vector<std::string> remarks;

inline std::string told(const Process* process) {
    return process ? "process " + std::to_string(process->site) : "the top function";
}

inline void remark(const std::string& text) {
    for (const std::string& known : remarks) {
        if (known == text) {
            return;
        }
    }
    remarks.push_back(text);
}

inline void write_trace() {
    State& s = state();
    struct Root {
        Process* process;
        Word node;
    };
    std::vector<Root> roots;
    for (Process* process : processes) {
        if (process->all) {
            while (process->recorder.innermost && process->recorder.innermost != process->all.get()) {
                process->recorder.innermost->abandon();
            }
            if (process->running) {
                process->all->drop_nothing();
            }
            roots.push_back({process, process->all->finish()});
        }
    }
    current = nullptr;
    std::set<Word> found;
    std::vector<Word> open;
    auto visit = [&](Word node) {
        if (found.insert(node).second) {
            open.push_back(node);
        }
    };
    for (const Root& root : roots) {
        visit(root.node);
    }
    while (!open.empty()) {
        Word node = open.back();
        open.pop_back();
        const Word* words = s.nodes.at(node);
        Word size = s.nodes.size(node);
        if (*words == ITERATION) {
            for (Word i = 1; i < size; i++) {
                if ((words[i] & 3) == LOOP) {
                    visit(words[i] >> ITEM_SHIFT);
                }
            }
        } else {
            for (Word i = (*words == PATTERN ? 2 : 5); i < size; i += 2) {
                visit(words[i]);
            }
        }
    }
    const char* path = std::getenv("CSDF_TRACE");
    std::FILE* file = path ? std::fopen(path, "w") : nullptr;
    if (!file) {
        return;
    }
    for (const Fifo* f : fifos()) {
        std::fprintf(file, "fifo\t%s\t%s\t%u\t%ld\t%s\t%d\t%d\t%d\n", f->name.c_str(), f->group.c_str(),
                     f->bits, f->depth, f->storage.c_str(), f->line, f->is_port, f->is_asked);
    }
    for (Word node : found) {  // children have smaller numbers
        const Word* words = s.nodes.at(node);
        std::fprintf(file, "node\t%u", node);
        for (Word i = 0; i < s.nodes.size(node); i++) {
            std::fprintf(file, "\t%u", words[i]);
        }
        std::fputc('\n', file);
    }
    for (const Root& root : roots) {
        long parent = -1;
        for (std::size_t i = 0; i < roots.size(); i++) {
            if (roots[i].process == root.process->parent) {
                parent = long(i);
            }
        }
        std::fprintf(file, "process\t%u\t%u\t%ld\t%u\t%s\n", root.process->site, root.node, parent,
                     root.process->turn, root.process->name.c_str());
    }
    for (const std::string& text : remarks) {
        std::fprintf(file, "remark\t%s\n", text.c_str());
    }
    std::fputs("end\n", file);
    std::fclose(file);
}

class Top {  // lives in the body of the top function
  public:
    Top() : is_outermost_(!is_recording) {
        if (is_outermost_) {
            const char* wanted = std::getenv("CSDF_TRACE_CALL");
            is_wanted_ = ++calls == (wanted ? std::atoi(wanted) : 1);
            is_recording = true;
            Process* process = process_of(1);  // what the top function does outside its processes
            process_now = process;
            current = &process->recorder;
            begin_execution(process);
        }
    }
    bool end() {  // always false
        if (!is_outermost_) {
            return false;
        }
        if (has_fibers()) {
            run_all(nullptr, true);
        }
        if (is_wanted_) {
            write_trace();
            std::fflush(nullptr);
            std::_Exit(0);
        }
        // Another call is wanted: forget this one.
        if (!fibers.empty()) {
            stop("later call", "");
        }
        for (Process* process : processes) {
            delete process;
        }
        processes.clear();
        for (Fifo* fifo : fifos()) {
            fifo->number = NOTHING;
            fifo->is_asked = false;
        }
        fifos().clear();
        remarks.clear();
        current = nullptr;
        process_now = nullptr;
        is_recording = false;
        is_outermost_ = false;
        return false;
    }

  private:
    bool is_outermost_, is_wanted_ = false;
};

struct Ended {  // says that the top function was not called often enough
    ~Ended() {
        if (std::getenv("CSDF_TRACE")) {
            stop("not called", std::to_string(calls));
        }
    }
};
inline Ended ended;

}  // namespace csdf_trace
