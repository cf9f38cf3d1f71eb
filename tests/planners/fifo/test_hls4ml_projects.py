import json
import os
import shutil
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from csdf.cli.main import main
from csdf.errors import UnreadableFile
from planners.fifo import hls4ml_project
from planners.fifo.event_graph import EventGraph
from planners.fifo.hls4ml_project import (
    FUNCTIONS,
    FunctionCall,
    SourceReader,
    project_design,
    read_source,
    with_depths,
)
from planners.fifo.study import max_rate, period_of
from planners.fifo.timing.cluster import TimingOptions

# A fork, a padded 3x3 convolution on one side, and a sum, in the form of hls4ml's templates.
SMALL = Path(__file__).parents[3] / "models" / "fifo" / "small_hls4ml"


@pytest.fixture
def project(tmp_path):
    return Path(shutil.copytree(SMALL, tmp_path / "prj"))


def design_of(project):
    return project_design(read_source(str(project)), TimingOptions())


def test_streams_become_fifos_with_width_words_and_depth(project):
    design = design_of(project)
    found = {fifo.name: (fifo.bits, fifo.words, fifo.given) for fifo in design.fifos}
    # Two channels of 16 bits; 4 x 4 pixels behind the pooling, 6 x 6 padded.
    assert found == {
        "in2": (32, 16, 16),
        "left": (32, 16, 36),
        "right": (32, 16, 16),
        "padded": (32, 36, 36),
        "summed": (32, 16, 16),
    }


def test_files_after_that_of_the_layers_are_not_read(project):
    os.mkfifo(project / "firmware" / "weights.cpp")  # refused if it is read
    assert len(design_of(project).fifos) == 5


def test_the_configuration_stands_for_its_project(project):
    config = str(project / "hls4ml_config.yml")
    assert project_design(read_source(config), TimingOptions()).fifos == design_of(project).fifos


def test_a_convolution_takes_its_reuse_factor_for_each_pixel(project):
    # 36 pixels, 4 cycles each; all other functions take 64 at most.
    assert max_rate(EventGraph(design_of(project)))[0] == 36 * 4


def test_the_short_branch_of_a_fork_deadlocks_at_depth_two(project):
    design = design_of(project)
    cycle = period_of(EventGraph(design), [2] * 5)
    assert cycle.period is None
    assert [design.fifos[one].name for one in cycle.fifos] == ["right"]


def test_depths_are_written_into_the_source_and_nothing_else_changes(project):
    source = read_source(str(project))
    text = with_depths(source, {"right": 11})
    assert "variable=right depth=11" in text
    assert text.replace("depth=11", "depth=16") == source.text


def test_the_command_writes_depths_that_run(project, capsys):
    out = project / "depths.json"
    assert main(["fifo", "hls4ml", str(project), "-o", str(out), "--in-place"]) == 0
    depths = json.loads(out.read_text())
    again = design_of(project)
    assert {fifo.name: fifo.given for fifo in again.fifos} == depths
    period = period_of(EventGraph(again), [fifo.given for fifo in again.fifos]).period
    assert period == 36 * 4
    assert "proved the smallest" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (
            ("hls", "m.onnx"),
            "m.onnx: a model; expected the C++ of the design (.cpp); csdf fifo finn",
        ),
        (("hls", "."), ".: is a folder; expected the C++ of the design (.cpp); csdf fifo hls4ml"),
        (
            ("hls", "top.cpp", "--in-place", "-o", "x.cpp"),
            "--in-place and -o both write the source",
        ),
        (("finn", "top.cpp"), "top.cpp: C++; expected a model of FINN (.onnx); csdf fifo hls"),
    ],
)
def test_a_file_of_another_tool_names_the_command_that_reads_it(words, refusal, capsys):
    assert main(["fifo", *words]) == 2
    assert capsys.readouterr().err.startswith(f"csdf fifo {words[0]}: {refusal}")


def test_a_transposition_reads_all_words_before_it_writes_one(project):
    # 4 x 4 pixels of 2 channels become 2 rows of 4 x 4: 16 words in, 8 words of 4 elements out.
    source = read_source(str(project))
    turned = replace(
        source,
        streams={**source.streams, "turned": "turned_t"},
        widths={**source.widths, "turned_t": 64},
        sizes={**source.sizes, "turned_t": 4},
        configurations={**source.configurations, "config_turned": {"N": 32}},
        calls=(
            FunctionCall(function="transpose", name="turned", templates=("config_turned",),
                 arguments=("summed", "turned")),
        ),
    )  # fmt: skip
    reader = SourceReader(turned, TimingOptions())
    found = FUNCTIONS["transpose"](reader, turned.calls[0])
    assert (found.inputs[0].words, found.outputs[0].words) == (16, 8)
    write = found.waits[0]
    assert write.events.tolist() == [15] * 8  # each after the last read


@pytest.mark.parametrize(
    ("kind", "arguments", "says"),
    [
        ("nowhere_t", ("summed", "turned"), "stream 'turned': type 'nowhere_t' is not defined"),
        ("input_t", ("summed", "none"), "1 of its arguments are streams; expected 2"),
    ],
)
def test_a_transposition_without_the_sizes_of_its_streams_is_refused(
    project, kind, arguments, says
):
    source = read_source(str(project))
    call = FunctionCall(
        function="transpose", name="turned", templates=("config_turned",), arguments=arguments
    )
    turned = replace(
        source,
        streams={**source.streams, "turned": kind},
        configurations={**source.configurations, "config_turned": {"N": 32}},
        calls=(call,),
    )
    with pytest.raises(UnreadableFile, match=says):
        FUNCTIONS["transpose"](SourceReader(turned, TimingOptions()), call)


def test_functions_without_a_rule_are_all_named(project):
    file = project / "firmware" / "small.cpp"
    call = "    nnet::wonder<input_t, result_t, config9>(left, out); // odd\n}"
    file.write_text(file.read_text().rstrip().removesuffix("}") + call)
    with pytest.raises(UnreadableFile, match=r"wonder \(odd\)"):
        design_of(project)


@pytest.mark.parametrize("name", ["parameters.h", "defines.h", "another.cpp"])
def test_a_pipe_in_a_project_is_refused_and_not_waited_for(project, name):
    path = project / "firmware" / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    with pytest.raises(UnreadableFile, match=f"{name}: is a pipe or a device; expected a file"):
        read_source(str(project))


def test_a_folder_without_firmware_is_refused(tmp_path):
    with pytest.raises(UnreadableFile, match="hls4ml has written"):
        read_source(str(tmp_path))


CONFIGURATION = "OnnxModel: net.onnx\nOutputDir: prj\nProjectName: small\nIOType: io_stream\n"


def test_a_configuration_without_its_project_says_that_hls4ml_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(hls4ml_project, "find_spec", lambda _: None)
    file = tmp_path / "hls4ml_config.yml"
    file.write_text(CONFIGURATION)
    with pytest.raises(UnreadableFile, match=r"hls4ml convert -c hls4ml_config\.yml"):
        read_source(str(file))


def test_a_configuration_finds_the_project_where_it_says(tmp_path):
    shutil.copytree(SMALL, tmp_path / "prj")
    file = tmp_path / "config.yml"
    file.write_text(CONFIGURATION)
    assert len(project_design(read_source(str(file)), TimingOptions()).fifos) == 5


@pytest.mark.skipif(find_spec("hls4ml") is None, reason="hls4ml is not installed")
def test_hls4ml_converts_a_configuration_with_its_model(tmp_path):
    onnx = pytest.importorskip("onnx")
    made = onnx.helper.make_graph(
        [
            onnx.helper.make_node("Relu", ["x"], ["m"], "relu"),
            onnx.helper.make_node("Sigmoid", ["m"], ["y"], "sigmoid"),
        ],
        "net",
        [onnx.helper.make_tensor_value_info("x", 1, [1, 8])],
        [onnx.helper.make_tensor_value_info("y", 1, [1, 8])],
        value_info=[onnx.helper.make_tensor_value_info("m", 1, [1, 8])],
    )
    onnx.save(onnx.helper.make_model(made), tmp_path / "net.onnx")
    file = tmp_path / "hls4ml_config.yml"
    file.write_text(
        CONFIGURATION.replace("net.onnx", str(tmp_path / "net.onnx"))
        + "Backend: Vitis\nHLSConfig:\n  Model:\n    Precision: fixed<16,6>\n    ReuseFactor: 1\n"
    )
    source = read_source(str(file))
    assert not source.is_written
    assert [call.function for call in source.calls] == ["relu", "sigmoid"]


@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        ("parameters.h", "stride_height = 1", "stride_height = 0", "stride_height is 0"),
        ("parameters.h", "stride_height = 1", f"stride_height = {'9' * 5000}", "4300 digits"),
        ("defines.h", "2*1> input_t", "2*> input_t", "invalid literal"),
        ("defines.h", "2*1> input_t", "2*0> input_t", r"defines.h: type 'input_t' has 0 elements"),
    ],
)
def test_numbers_that_no_project_has_are_refused(project, file, old, new, says):
    path = project / "firmware" / file
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(UnreadableFile, match=says):
        project_design(read_source(str(project)), TimingOptions())
