"""Traces of HLS designs: what the run of the C++ records, and what is refused."""

import os
import re
import subprocess
from pathlib import Path
from shutil import which

import pytest

from csdf.errors import UnreadableFile
from planners.fifo.hls.accesses import read_accesses
from planners.fifo.hls.instrument import instrument
from planners.fifo.hls.recording import INCLUDE, record
from planners.fifo.hls.sources import SourceDesign
from planners.fifo.hls.trace import Access, LoopExecution, RepeatedIterations

needs_compiler = pytest.mark.skipif(
    not (which("g++") or which("clang++")), reason="needs g++ or clang++"
)

PIPE = """\
#include <hls_stream.h>
void put(hls::stream<int>& s) { for (int i = 0; i < 4; i++) s.write(i); }
void take(hls::stream<int>& s, int* r) { for (int i = 0; i < 4; i++) r[i] = s.read(); }
void top(int r[4]) {
#pragma HLS DATAFLOW
  hls::stream<int> s;
  put(s);
  take(s, r);
}
"""


def traced(folder, text, **options):
    file = folder / "design.cpp"
    file.write_text(text)
    if "testbench" in options:
        (folder / "bench.cpp").write_text(options["testbench"])
        options["testbench"] = folder / "bench.cpp"
    return record(file, **{"seconds": 60, "bytes": 2 << 30} | options)


def told(part, trace):
    """A part of a trace as short text: w and r for accesses, loops as label or line, times, body."""
    if isinstance(part, Access):
        wait = "" if part.is_blocking else "?"
        return ("w" if part.is_write else "r") + wait + ":" + trace.fifos[part.fifo].name
    if isinstance(part, LoopExecution):
        inner = " ".join(told(one, trace) for one in part.iterations)
        return f"{part.label or part.line}*{part.trips}[{inner}]"
    if isinstance(part, RepeatedIterations):
        return f"{part.count}x(" + " ".join(told(one, trace) for one in part.pattern) + ")"
    return "{" + " ".join(told(one, trace) for one in part) + "}"


def bodies(trace):
    return {one.name: told(one.body, trace) for one in trace.processes}


# ---- without a compiler


def design_of(text):
    design = SourceDesign(folders=(), shipped=frozenset(), defines=())
    source = design.read(Path("design.cpp"), text)
    design.find_functions()
    return design, source


def test_instrumentation_keeps_the_text_and_line_numbers():
    text = PIPE.replace("s.write(i);", "if (i) s.write(i); else\n do s.write(i); while (0);")
    design, source = design_of(text)
    instrument(design, design.functions["top"][0])
    written = source.instrumented()
    assert written.count("\n") == text.count("\n")
    assert "csdf_trace::run" in written
    rest = iter(written)
    assert all(letter in rest for letter in text)  # in this order


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("defined(A) && !defined(B)", True),
        ("A > 2 && A <= 0x3", True),
        ("(A + 1) / 2 == 2", True),
        ("B", False),
        ("A < 3 || unknown(4)", False),
        ("(1 << A) - 1 == 7 && A >> 1", True),
        ("!A == 0", True),  # (!A) == 0
        ("1 < A == 1", True),
        ("-7 / 2 == -A && -7 % 4 == -A", True),
        ("defined(B) ? A / B : A & 0x2u", True),
        ("~0 ^ 1 | true", True),
        ("1 +", False),
        ("(A", False),
        ("1 ? 2 ) 3", False),
        ("1 ? 2 : 3", True),
        ("1_0 == 10", False),
        ("1'0 == 10", True),
        ("1 || (1 << -1)", True),
        ("1 || (1 >> -1)", True),
        ("4 >> 1 == 2", True),
    ],
)
def test_the_branch_of_an_if_follows_the_macros(condition, holds):
    text = (
        f"#define A 3 // three\n#if {condition}\nvoid yes() {{}}\n#else\nvoid no() {{}}\n#endif\n"
    )
    design, _ = design_of(text)
    assert set(design.functions) == {"yes" if holds else "no"}


@pytest.mark.parametrize("cut", ["if (a)", "for (;;)", "while (a)", "do", "label:", "try"])
def test_a_statement_that_is_missing_is_left_to_the_compiler(cut):
    design, source = design_of(f"void top(int a) {{\n#pragma HLS dataflow\n{cut}}}")
    instrument(design, design.functions["top"][0])
    assert source.instrumented().count("csdf_top") == 2


@pytest.mark.parametrize(
    ("header", "captures"),
    [
        ("int i = 0; i < 3; i++", "&,i=i"),
        ("std::size_t i = 1 & 2; i < 3; i++", "&,i=i"),
        ("ap_uint<8> i = 0; i < 3; i++", "&,i=i"),
        ("unsigned long long i = 0, k = 3; i < k; i++", "&,i=i,k=k"),
        ("i = 0; i < 3; i++", "&,i=i"),
        ("i = 0, k = 1; i < 3; i++, k++", "&,i=i,k=k"),
        ("auto [i, k] : pairs", "&,i=i,k=k"),
        ("const auto& [i, k] : pairs", "&,&i=i,&k=k"),
        ("; i < 3; i++", "&"),
        ("const int i : rows", "&,i=i"),
        ("const auto& i : rows", "&,&i=i"),
    ],
)
def test_a_process_of_an_unrolled_loop_captures_its_counters(header, captures):
    region = "{\n#pragma HLS dataflow\nfor (HEADER) {\n#pragma HLS unroll\nf(i); } }"
    design, source = design_of(
        f"void f(int x) {{}}\nvoid top() {region.replace('HEADER', header)}\n"
    )
    instrument(design, design.functions["top"][0])
    assert f"[{captures}]{{f(i);}}" in source.instrumented()


def test_loops_of_lambdas_are_numbered_with_those_of_their_function():
    design, _ = design_of(
        """\
void top(int a[8]) {
#pragma HLS dataflow
  auto set = [&](int n) { for (int i = 0; i < n; i++) a[i] = n; };
  for (int i = 0; i < 8; i++) a[i] = i;
}
"""
    )
    instrumented = instrument(design, design.functions["top"][0])
    assert [(one.line, one.number) for one in instrumented.loops[1:]] == [(3, 1), (4, 2)]


@pytest.mark.parametrize(
    "inner", ["struct word { int x; };", "const int table[] = {1, 2};", "enum kind { a, b };"]
)
def test_a_function_after_a_namespace_is_found(inner):
    # A declaration that ends with a semicolon, not with its brace, does not continue past its scope.
    design, _ = design_of(f"namespace n {{ {inner} }}\nvoid top(int a) {{}}\n")
    assert set(design.functions) == {"top"}


@pytest.mark.parametrize("declaration", ["fifo lane;", "using other = fifo;\nother lane;"])
def test_a_global_stream_may_have_a_type_of_a_header(tmp_path, declaration):
    (tmp_path / "types.h").write_text("typedef hls::stream<int> fifo;\n")
    design = SourceDesign(folders=[tmp_path], shipped=frozenset(), defines=())
    design.read(tmp_path / "design.cpp", f'#include "types.h"\n{declaration}\n')
    design.find_functions()
    assert [stream.name for stream in design.global_streams] == ["::lane"]


def test_who_writes_and_who_reads_an_array_is_followed_through_calls():
    design, _ = design_of(
        "template <class T, int N = 8> void fill(unsigned int* x) {\n"
        "  for (int i = 0; i < 8; i++) *(x + i) = 0;\n  x[0] = 1;\n}\n"
        "void deep(unsigned int x[8]) { fill(x); }\n"
        "int sum(const unsigned y[8]) { int s = 0; for (int i = 0; i < 8; i++) s += y[i]; return s; }\n"
        "void top(int& r) {\n#pragma HLS dataflow\n unsigned int a[8], b[8];\n deep(a);\n"
        " copy: for (int i = 0; i < 8; i++) b[i] = a[i];\n r = sum(b);\n}\n"
    )
    instrumented = instrument(design, design.functions["top"][0])
    found = {one.name: instrumented.users(one) for one in instrumented.variables}
    # Site 1 is the top function, the statements of its region follow.
    assert found == {"a": ((2,), (3,)), "b": ((3,), (4,))}


CYCLE = (
    "void q(int* a);\nvoid p(int* a) { q(a); a[0] = 1; }\nvoid q(int* a) { p(a); int y = a[1]; }\n"
)
CHAIN = "".join(f"void c{i}(int* a) {{ c{i + 1}(a); }}\n" for i in range(40))
FORWARDED = "template <class T> void set(T&& x) { x = 1; }\n"


@pytest.mark.parametrize(
    ("functions", "statement", "is_written", "is_read"),
    [
        ("", "in >> n;", True, False),
        ("", "if (in.empty()) {} in >> m[0] >> n;", True, False),
        ("", "[&] { in >> n; }();", True, False),
        ("", "*out = a >> n;", False, True),
        ("", "out.write(a >> n);", False, True),
        ("", "return a >> n;", False, True),
        ("", "int y{a >> n};", False, True),
        ("", "*(x + n[0]) = 1;", False, True),
        ("", "*(i + n) = 1;", True, False),
        ("", "*(2 * (i + 1) + n + 1) += 1;", True, True),
        ("", "y = *(i + n) + f(k + n);", False, True),
        ("void set(int* a, int i) { *(i + a) = i; }\n", "set(n, 2);", True, False),
        ("void get(int& r, int i, int* a) { *(a + r) = i; }\n", "get(*n, 2, m);", False, True),
        ("", "(*n) = 1;", True, False),
        ("", "(n)[0] = 1;", True, False),
        ("", "(*n)++;", True, True),
        ("", "*(n + i) += 1;", True, True),
        ("", "*((int*)n + i) = 1;", True, False),
        ("", "*(reinterpret_cast<int*>(n++) + i) = 1;", True, False),
        ("", "(*(n + i)).re = i++ * n;", True, True),
        ("", "y = i++ * n;", False, True),
        (FORWARDED, "set(n);", True, False),
        (CYCLE, "p(n);", True, True),
        (CYCLE, "q(n);", True, True),
        (CHAIN + "void c40(int* a) { a[0] = 1; }\n", "c0(n);", True, False),
    ],
)
def test_shifts_references_and_calls_in_a_cycle(functions, statement, is_written, is_read):
    # In the cycle both functions have both directions, whichever of them is asked for first.
    body = f"{{ {statement} }}"
    first = "p(first);" if "q(n)" in statement else ";"
    design, _ = design_of(
        f"{functions}void top() {{\n#pragma HLS dataflow\n int first[2], n[2];\n"
        f" for (;;) {{ {first} }}\n for (;;) {body}\n}}\n"
    )
    instrumented = instrument(design, design.functions["top"][0])
    users = {one.name: instrumented.users(one) for one in instrumented.variables}
    assert users["n"] == ((3,) * is_written, (3,) * is_read)


@pytest.mark.parametrize(
    ("text", "top", "reason"),
    [
        (PIPE, "tip", r"design.cpp: no definition of the top function 'tip'; .*DATAFLOW: top"),
        (PIPE.replace("#pragma HLS DATAFLOW\n", ""), None, "no function has #pragma HLS DATAFLOW"),
        (
            PIPE.replace("take(s, r);\n}", "take(s, r);\n"),
            None,
            r"design.cpp:4: '{' has no counterpart",
        ),
        (
            PIPE + PIPE[PIPE.index("void top") :].replace("top", "two"),
            None,
            "top, two; name it by --top",
        ),
        ("void top() {" + "if (1) " * 5000 + ";}", "top", "nested too deep"),
        ("", "top", "no definition of the top function"),
    ],
)
@needs_compiler
def test_sources_without_a_clear_top_function_are_refused(tmp_path, text, top, reason):
    with pytest.raises(UnreadableFile, match=reason):
        traced(tmp_path, text, top=top)


# ---- with one: each of these compiles a design


@pytest.mark.slow
@needs_compiler
def test_a_trace_lists_the_accesses_of_each_iteration_in_order(tmp_path):
    text = """\
#include <hls_stream.h>
#include <ap_fixed.h>
#define DEEP 4
typedef ap_fixed<18, 6> word;
void split(hls::stream<word>& in, hls::stream<word> out[2]) {
  rows: for (int i = 0; i < 6; i++)
    lanes: for (int k = 0; k < 2; k++) {
#pragma HLS UNROLL
      word x = in.read();
      if (i % 3 == 0 || k == 1) out[k] << x;
    }
}
void join(hls::stream<word> in[2], int sum[8]) {
  word x;
  while (in[1].read_nb(x)) sum[0] += x;
  do { x = in[0].read(); } while (!in[0].empty());
  for (int i = 1; i < 8; i++) sum[i] = i;
}
void top(hls::stream<word>& from, int to[8]) {
#pragma HLS DATAFLOW
  hls::stream<word> in("in"), lanes[2];
#pragma HLS STREAM variable=lanes depth=2*DEEP
#pragma HLS BIND_STORAGE variable=in type=fifo impl=srl
  int sum[8];
  head: for (int i = 0; i < 12; i++) in.write(from.read());
  split(in, lanes);
  join(lanes, sum);
  for (int i = 0; i < 8; i++) to[i] = sum[i];
}
"""
    trace = traced(tmp_path, text)
    assert bodies(trace) == {
        # the reads of the port are not recorded
        "head": "{head*12[12x({w:in})]}",
        "split": "{rows*6["
        "{lanes*2[{r:in w:lanes[0]} {r:in w:lanes[1]}]} 2x({lanes*2[{r:in} {r:in w:lanes[1]}]}) "
        "{lanes*2[{r:in w:lanes[0]} {r:in w:lanes[1]}]} 2x({lanes*2[{r:in} {r:in w:lanes[1]}]})]}",
        "join": "{15*6[6x({r?:lanes[1]})] 16*2[2x({r:lanes[0]})] 17*7[7x({})]}",
        "VITIS_LOOP_28_1": "{28*8[8x({})]}",
    }
    facts = [(one.name, one.group, one.bits, one.depth, one.kind, one.line) for one in trace.fifos]
    assert facts == [
        ("in", "in", 18, None, "srl", 21),
        ("lanes[0]", "lanes", 18, 8, "", 21),
        ("lanes[1]", "lanes", 18, 8, "", 21),
    ]
    assert [(one.name, one.writers, one.readers) for one in trace.arrays] == [("sum", (2,), (3,))]
    assert trace.ports == ("from",)
    assert any("no test bench" in one for one in trace.remarks)
    assert any(one.startswith("lanes[1]: empty()") for one in trace.remarks)


@pytest.mark.slow
@needs_compiler
def test_counters_of_unrolled_loops_keep_the_values_of_their_process(tmp_path):
    text = """\
#include <hls_stream.h>
#include <utility>
void put(hls::stream<int>& s, int n) { l: for (int i = 0; i < n; i++) s.write(i); }
void take(hls::stream<int>& s, int n) { m: for (int i = 0; i < n; i++) s.read(); }
void top(int n) {
#pragma HLS DATAFLOW
  hls::stream<int> s[3];
  const std::pair<int, int> pairs[3] = {{0, 2}, {1, 3}, {2, 4}};
  int i, k;
#if (1 << 2) == 4 && !n == 1
  for (i = 0, k = 2; i < 3; i++, k++) {
#pragma HLS UNROLL
    put(s[i], k);
  }
#endif
  for (auto [j, m] : pairs) {
#pragma HLS UNROLL
    take(s[j], m);
  }
}
"""
    processes = [
        told(one.body, trace) for trace in [traced(tmp_path, text)] for one in trace.processes
    ]
    assert processes == [
        f"{{{loop}*{size}[{size}x({{{verb}:s[{number}]}})]}}"
        for loop, verb in (("l", "w"), ("m", "r"))
        for number, size in enumerate((2, 3, 4))
    ]


@pytest.mark.slow
@needs_compiler
def test_long_loops_stay_short_and_processes_that_wait_for_each_other_run(tmp_path):
    text = """\
#include <hls_stream.h>
void ask(hls::stream<int>& out, hls::stream<int>& back) {
  for (int i = 0; i < 300000; i++) {
    if (i % 3 == 1) out.write(i);
    if (i % 3 == 2) back.read();
  }
}
void answer(hls::stream<int>& in, hls::stream<int>& back) {
  for (int i = 0; i < 100000; i++) back.write(in.read());
}
void top() {
#pragma HLS DATAFLOW
  hls::stream<int> out, back;
  ask(out, back);
  answer(out, back);
}
"""
    found = bodies(traced(tmp_path, text))
    assert found["answer"] == "{9*100000[100000x({r:out w:back})]}"
    # A pattern of three iterations, wherever the first begins.
    assert re.fullmatch(
        r"\{3\*300000\[.{0,40}9999\dx\((\{w:out\} \{r:back\} \{\}|\{r:back\} \{\} \{w:out\}|"
        r"\{\} \{w:out\} \{r:back\})\).{0,40}\]\}",
        found["ask"],
    )


@pytest.mark.slow
@needs_compiler
def test_tasks_and_blocks_are_recorded(tmp_path):
    text = """\
#include <hls_task.h>
#include <hls_streamofblocks.h>
typedef int block[4];
void odd_even(hls::stream<int>& in, hls::stream<int>& odd, hls::stream<int>& even) {
  int x = in.read();
  if (x % 2) odd.write(x); else even.write(x);
}
void pack(hls::stream<int>& in, hls::stream_of_blocks<block>& out) {
  hls::write_lock<block> b(out);
  for (int i = 0; i < 4; i++) b[i] = in.read();
}
void drop(hls::stream_of_blocks<block>& in) { hls::read_lock<block> b(in); }
void top(hls::stream<int>& in, hls::stream<int>& odd) {
  hls_thread_local hls::stream<int, 3> even;
  hls_thread_local hls::stream_of_blocks<block, 5> blocks;
  hls_thread_local hls::task t1(odd_even, in, odd, even);
  hls_thread_local hls::task t2(pack, even, blocks);
  hls_thread_local hls::task t3(drop, blocks);
}
"""
    bench = """\
#include <hls_stream.h>
void top(hls::stream<int>& in, hls::stream<int>& odd);
int main() { hls::stream<int> in, odd; for (int i = 0; i < 16; i++) in.write(i); top(in, odd); }
"""
    trace = traced(tmp_path, text, testbench=bench, top="top")
    # Each execution of a task is an iteration of a loop without a label; those that only move words
    # of ports do nothing here.
    assert bodies(trace) == {
        "odd_even": "{0*16[" + " ".join(["{w:even} {}"] * 8) + "]}",
        "pack": "{0*2[2x({10*4[4x({r:even})] w:blocks})]}",
        "drop": "{0*2[2x({r:blocks})]}",
    }
    assert [(one.name, one.bits, one.depth) for one in trace.fifos] == [
        ("even", 32, 3),
        ("blocks", 128, 5),
    ]


@pytest.mark.slow
@needs_compiler
def test_designs_of_tapa_are_recorded(tmp_path):
    text = """\
#include <tapa.h>
void Source(tapa::mmap<const float> x, tapa::ostream<float>& out, int n) {
  for (int i = 0; i < n; ++i) out << x[i];
  out.close();
}
void Forever(tapa::istream<float>& in, tapa::ostreams<float, 2>& out) {
  for (int k = 0;; k = 1 - k) { float x = in.read(); out[k].write(x); }
}
void Sink(int k, tapa::istream<float>& in, int n) { for (int i = 0; i < n / 2; ++i) in.read(); }
void Top(tapa::mmap<const float> x, int n) {
  tapa::stream<float, 8> a;
  tapa::streams<float, 2> b;
  tapa::task()
      .invoke(Source, x, a, n)
      .invoke<tapa::detach>(Forever, a, b)
      .invoke<tapa::join, 2>(Sink, tapa::seq(), b, n);
}
"""
    bench = """\
#include <tapa.h>
void Top(tapa::mmap<const float> x, int n);
int main() { std::vector<float> x(6); tapa::invoke(Top, "", tapa::read_only_mmap<const float>(x), 6); }
"""
    trace = traced(tmp_path, text, testbench=bench)
    found = bodies(trace)
    assert found["Source"] == "{3*6[6x({w:a})] w:a}"
    assert found["Sink[0]"] == "{9*3[3x({r:b[0]})]}"
    assert found["Sink[1]"] == "{9*3[3x({r:b[1]})]}"
    # The seventh word is the end of the transaction.
    assert found["Forever"] == "{7*7[" + "{r:a w:b[0]} {r:a w:b[1]} " * 3 + "{r:a w:b[0]}]}"
    assert [(one.name, one.depth) for one in trace.fifos] == [("a", 8), ("b[0]", 2), ("b[1]", 2)]


@pytest.mark.slow
@needs_compiler
def test_the_header_for_other_tools_writes_the_table_that_is_read(tmp_path):
    (tmp_path / "other.cpp").write_text(
        """\
#include "csdf_accesses.h"
namespace table = csdf_accesses;
int main() {
  table::remark("fifo q bits=8 depth=2");
  table::remark("loop put rows interval=1 depth=2");
  table::remark("loop take rows interval=1 depth=1");
  for (int i = 0; i < 3; i++) { table::iteration("put", "rows", i); table::write("q", 1); }
  for (int i = 0; i < 3; i++) { table::iteration("take", "rows", i); table::read("q", 0); }
}
"""
    )
    compiler = which("g++") or which("clang++")
    command = [compiler, "-std=c++17", "-I", INCLUDE, "other.cpp", "-o", "other"]
    subprocess.run(command, cwd=tmp_path, check=True)
    subprocess.run([tmp_path / "other"], cwd=tmp_path, check=True)
    design = read_accesses(tmp_path / "accesses.csv")
    assert [one.name for one in design.processes] == ["put", "take"]
    assert [(one.name, one.bits) for one in design.fifos] == [("q", 8)]


HOSTILE = [
    (PIPE.replace("i < 4; i++) r", "i < 5; i++) r"), r"process take \(line 8\) reads s"),
    (
        PIPE.replace("s.write(i);", "for (volatile int x = 0;; x = 1);"),
        "did not end within 2 seconds",
    ),
    (PIPE.replace("s.write(i);", "for (;;) s.write(*new int[1000000]());"), "needs more than the"),
    (
        "#include <csignal>\n" + PIPE.replace("s.write(i);", "raise(40);"),
        "signal: Real-time|reads s",
    ),
    (PIPE.replace("s.write(i)", "s.wirte(i)"), r"design.cpp:2: the compiler says: .*wirte"),
    ('#include "nowhere.h"\n' + PIPE, r"design.cpp:1: the compiler says: .*nowhere.h"),
    (PIPE + "int main() { return 7; }\n", "never calls top"),
]


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize(("text", "reason"), HOSTILE, ids=[one[1][:24] for one in HOSTILE])
def test_programs_that_do_not_end_are_rejected_in_one_line(tmp_path, monkeypatch, text, reason):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    with pytest.raises(UnreadableFile, match=reason) as refused:
        traced(tmp_path, text, top="top", seconds=2 if "2 seconds" in reason else 60, bytes=1 << 29)
    assert "\n" not in str(refused.value)
    assert not list(scratch.iterdir())


@pytest.mark.slow
@needs_compiler
def test_a_program_writes_only_into_the_folder_that_is_removed(tmp_path):
    outside = tmp_path / "outside.txt"
    text = "#include <cstdlib>\n#include <fstream>\n" + PIPE.replace(
        "s.write(i);",
        f's.write(!std::ofstream("{outside}") + 2 * !!std::ofstream("inside.txt"));',
    ).replace(
        "put(s);", 'std::system("(sleep 100; touch here) & setsid sleep 77777 &");\n  put(s);'
    )
    trace = traced(tmp_path, text, top="top")
    assert bodies(trace)["take"] == "{5*4[4x({r:s})]}"
    assert not (tmp_path / "inside.txt").exists()
    commands = [
        Path("/proc", name, "cmdline").read_bytes()
        for name in os.listdir("/proc")
        if name.isdigit() and Path("/proc", name, "cmdline").exists()
    ]
    assert not any(b"77777" in one for one in commands)
