// For programs that csdf cannot trace itself: the table that `csdf fifo hls accesses.csv` reads.
//   csdf_accesses::iteration("process", "loop", 7);     where an iteration begins
//   csdf_accesses::write("fifo", 2);                    beside each access: FIFO and stage of the iteration
//   csdf_accesses::remark("loop process loop interval=1 depth=3");
//   csdf_accesses::remark("fifo fifo bits=32 depth=2");
#pragma once
#include <fstream>
#include <string>

namespace csdf_accesses {
inline std::ofstream table = [] {
    std::ofstream file("accesses.csv");
    file << "process,loop,iteration,fifo,read|write,stage\n";
    return file;
}();
inline std::string place;
inline void remark(const std::string& text) { table << "# " << text << "\n"; }
inline void iteration(const std::string& process, const std::string& loop, long number) {
    place = process + "," + loop + "," + std::to_string(number) + ",";
}
inline void read(const std::string& fifo, int stage) { table << place << fifo << ",read," << stage << "\n"; }
inline void write(const std::string& fifo, int stage) { table << place << fifo << ",write," << stage << "\n"; }
}  // namespace csdf_accesses
