// hls::task: a function that is executed again and again, as its input comes. Written for csdf.
#pragma once
#include <functional>
#include <tuple>

#include "hls_stream.h"

namespace hls {

class task {
  public:
    task() = default;
    template <class F, class... Arguments>
    explicit task(F&& function, Arguments&&... arguments) {
        start(0, std::forward<F>(function), std::forward<Arguments>(arguments)...);
    }
    template <class F, class... Arguments>
    task(csdf_trace::At at, F&& function, Arguments&&... arguments) {
        start(at.site, std::forward<F>(function), std::forward<Arguments>(arguments)...);
    }
    template <class F, class... Arguments>
    void operator()(csdf_trace::At at, F&& function, Arguments&&... arguments) {
        start(at.site, std::forward<F>(function), std::forward<Arguments>(arguments)...);
    }
    template <class F, class... Arguments>
    void operator()(F&& function, Arguments&&... arguments) {
        start(0, std::forward<F>(function), std::forward<Arguments>(arguments)...);
    }

  private:
    template <class F, class... Arguments>
    void start(csdf_trace::Word site, F&& function, Arguments&&... arguments) {
        std::tuple<Arguments...> held(std::forward<Arguments>(arguments)...);  // references stay references
        auto work = [function, held]() mutable { std::apply(function, held); };
        csdf_trace::start_task(site, site ? "" : "task", true, true, work);
    }
};

class autorestart {  // calls a function several times, as the host does with such a kernel
  public:
    template <class F, class... Arguments>
    autorestart(int times, F&& function, Arguments&&... arguments) {
        for (int i = 0; i < times; i++) {
            function(arguments...);
        }
    }
};

}  // namespace hls
