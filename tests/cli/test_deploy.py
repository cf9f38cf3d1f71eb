"""`csdf deploy` as its users see it."""

import json
import shutil
import subprocess

import pytest

from planners.memory.answer import INPUTS, OUTPUT_MEMORIES
from tests.cli.running import files_in, run
from tests.cnn2csdf.readers.tflite_models import Node, Tensor, tflite_bytes
from tests.shared_data import SHARED

__all__ = ["run"]

NETWORK = "keyword_spotting:rows=25"


HELLO = SHARED / "networks" / "tflite" / "hello_world_int8.tflite"


@pytest.mark.skipif(not HELLO.exists(), reason="needs the shared networks")
def test_kernels_of_cmsis_nn_need_their_folder_to_be_tested(run, tmp_path):
    output = run("deploy", HELLO, "--kernels", "cmsis-nn", "-o", tmp_path / "firmware")[1]
    assert f"make -C {tmp_path / 'firmware'} CMSIS_NN=FOLDER test" in output


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("gcc") or not shutil.which("make"), reason="needs gcc, make")
@pytest.mark.parametrize(("input_", "result"), [*zip(INPUTS, OUTPUT_MEMORIES * 2, strict=False)])
def test_what_is_written_compiles_and_gives_the_outputs_of_the_network(
    run, tmp_path, input_, result
):
    folder = tmp_path / "firmware"
    ends = ("--input", input_, "--output-memory", result)
    code, output, _ = run("deploy", NETWORK, "--ram", "16kB", *ends, "-o", folder)
    assert code == 0
    assert "make -C" in output
    ended = subprocess.run(
        ["make", "-C", folder, "test"], capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_json_lists_the_written_files(run, tmp_path):
    code, output, _ = run("deploy", NETWORK, "-o", tmp_path / "c", "--name", "two words", "--json")
    found = json.loads(output)
    assert code == 0
    assert found["library"].isidentifier()
    assert sorted(found["files"]) == files_in(tmp_path / "c")


def test_nothing_is_written_where_nothing_fits(run, tmp_path):
    code, _, remarks = run("deploy", NETWORK, "--ram", "1kB", "-o", tmp_path / "c")
    assert code == 1
    assert "infeasible" in remarks
    assert not (tmp_path / "c").exists()


def test_a_library_of_another_target_or_model_is_replaced_with_a_remark(run, tmp_path):
    words = ("-o", tmp_path / "c", "--name", "net", "--effort", "1s")
    remarks = [
        run("deploy", model, "--target", target, *words)[2]
        for model, target in (
            (NETWORK, "host"),
            (NETWORK, "host"),
            (NETWORK, "cortex-m4"),
            ("keyword_spotting:rows=20", "cortex-m4"),
        )
    ]
    said = f"replaced a library of another model or target (Model: {NETWORK}, Target: "
    assert [said in text for text in remarks] == [False, False, True, True]
    assert "Target: host)" in remarks[2]
    assert "Target: cortex-m4)" in remarks[3]
    page = (tmp_path / "c" / "README.md").read_text()
    assert "DSP extension of a Cortex-M4" in page
    assert "For a board" not in page
    header = tmp_path / "c" / "include" / "net.h"
    header.write_text(header.read_text().replace(" * Target: ", " * For: "))
    model = "keyword_spotting:rows=20"
    assert "replaced a library" not in run("deploy", model, "--target", "host", *words)[2]


def test_a_folder_with_other_files_is_left_alone(run, tmp_path):
    (tmp_path / "letter.txt").write_text("mine")
    code, _, remarks = run("deploy", NETWORK, "-o", tmp_path)
    assert code == 2
    assert "letter.txt" in remarks
    assert [one.name for one in tmp_path.iterdir()] == ["letter.txt"]


@pytest.mark.slow
def test_several_networks_share_one_arena(run, tmp_path):
    names = (NETWORK, "resnet8:resolution=16")
    sizes = []
    for name in names:
        _, output, _ = run("deploy", name, "-o", tmp_path / name[:6], "--json")
        sizes.append(json.loads(output)["methods"])
    code, output, _ = run("deploy", *names, "-o", tmp_path / "both", "--json")
    found = json.loads(output)
    assert code == 0
    assert [one["methods"] for one in found["networks"]] == sizes
    used = [
        next(way["ram_bytes"] for way in one["methods"] if way["name"] == one["method"])
        for one in found["networks"]
    ]
    assert found["ram_bytes"] == max(used)
    assert sorted(found["files"]) == files_in(tmp_path / "both")


def test_flash_is_that_of_all_networks(run, tmp_path):
    code, _, remarks = run("deploy", NETWORK, NETWORK, "--flash", "150kB", "-o", tmp_path / "c")
    assert code == 1  # one takes some 90 kB
    assert "150000" in remarks
    assert not (tmp_path / "c").exists()


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("gcc") or not shutil.which("make"), reason="needs gcc, make")
def test_the_plan_of_csdf_fit_is_what_is_written(run, tmp_path):
    names = (NETWORK, "resnet8:resolution=16")
    run("fit", *names, "--input", "rows", "--ram", "40kB", "-o", tmp_path / "plan.json")
    arenas = [one["arena_bytes"] for one in json.loads((tmp_path / "plan.json").read_text())]
    plan = ("--plan", tmp_path / "plan.json")
    code, output, _ = run("deploy", *names, *plan, "-o", tmp_path / "c", "--json")
    found = json.loads(output)
    assert code == 0
    assert [one["methods"][0]["ram_bytes"] for one in found["networks"]] == arenas
    assert {one["input"] for one in found["networks"]} == {"rows"}
    ended = subprocess.run(
        ["make", "-C", tmp_path / "c", "test"], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def refused(run, tmp_path, *words):
    run("fit", NETWORK, "-o", tmp_path / "plan.json")
    plan = ("--plan", tmp_path / "plan.json")
    code, _, remarks = run("deploy", *words, *plan, "-o", tmp_path / "c")
    assert not (tmp_path / "c").exists()
    return code, remarks


def test_the_plan_of_another_network_is_refused(run, tmp_path):
    code, remarks = refused(run, tmp_path, "resnet8:resolution=8")
    assert code == 2
    assert "plan.json: the plan of network 'keyword_spotting'" in remarks
    assert "give the model" in remarks


def test_a_plan_above_the_limit_is_infeasible(run, tmp_path):
    code, remarks = refused(run, tmp_path, NETWORK, "--ram", "1kB")
    assert code == 1
    assert "the loaded plan takes" in remarks


def test_plans_are_as_many_as_models(run, tmp_path):
    code, remarks = refused(run, tmp_path, NETWORK, NETWORK)
    assert code == 2
    assert "found 1 plan for 2 models" in remarks


def test_a_plan_says_itself_where_the_input_is(run, tmp_path):
    code, remarks = refused(run, tmp_path, NETWORK, "--input", "rows")
    assert code == 2
    assert "leave out --input" in remarks


def test_a_plan_whose_bytes_are_other_than_those_computed_is_refused(run, tmp_path):
    run("fit", NETWORK, "--element-bytes", 1, "-o", tmp_path / "plan.json")
    plan = ("--plan", tmp_path / "plan.json")
    code, _, remarks = run("deploy", NETWORK, *plan, "-o", tmp_path / "c")
    assert code == 2
    assert "computed in 4; plan with that many" in remarks


def test_nothing_is_written_where_the_tables_themselves_exceed_the_flash(
    run, tmp_path, monkeypatch
):
    monkeypatch.setattr("planners.memory.fit.flash_bytes", lambda *_: 1)  # a wrong forecast
    code, _, remarks = run("deploy", NETWORK, "--flash", "1kB", "-o", tmp_path / "c")
    assert code == 1
    assert "the flash has 1000" in remarks
    assert not (tmp_path / "c").exists()


def test_places_of_the_largest_are_written_in_the_bytes_in_which_they_are_computed(run, tmp_path):
    onnx = pytest.importorskip("onnx")
    helper, types = onnx.helper, onnx.TensorProto
    shape = [None, 8, 4, 4]
    graph = helper.make_graph(
        [helper.make_node("ArgMax", ["x"], ["y"], axis=1, keepdims=1)],
        "places",
        [helper.make_tensor_value_info("x", types.FLOAT, shape)],
        [helper.make_tensor_value_info("y", types.INT64, [None, 1, 4, 4])],
    )
    path = tmp_path / "places.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    code, output, remarks = run("deploy", path, "-o", tmp_path / "c", "--json")
    assert code == 0, remarks
    assert json.loads(output)["flash_bytes"] == json.loads(output)["weight_bytes"] == 0
    assert (tmp_path / "c" / "src" / "places.c").exists()


def test_a_bench_of_one_network_is_written(run, tmp_path):
    words = ("deploy", NETWORK, "--bench", "-o", tmp_path / "bench")
    code, output, _ = run(*words, "--json")
    found = json.loads(output)
    assert code == 0
    assert all((tmp_path / "bench" / one).is_file() for one in found["files"])
    code, output, _ = run(*words, "--ram", "36kB")
    assert code == 0
    assert f"next     make -C {tmp_path / 'bench'} profile" in output
    assert int(output.split(": ")[1].split()[0]) < found["ways"]
    code, _, error = run(*words, "--ram", "3kB")
    assert code == 2
    assert "fits in no way" in error
    code, _, error = run(*words, "--plan", "plan.json")
    assert code == 2
    assert "give one model, without --plan" in error
    code, _, error = run("deploy", "resnet8", *words[1:])
    assert code == 2
    assert "give one model, without --plan" in error


def test_all_layers_without_c_are_named_before_the_search(run, tmp_path):
    quotients = [Tensor(name, (1, 4), "int8", (0.5,)) for name in ("x", "half", "quarter")]
    nodes = [Node("DIV", [0, 0], [1], [(0, "b", 0)]), Node("DIV", [1, 1], [2], [(0, "b", 0)])]
    path = tmp_path / "quotients.tflite"
    path.write_bytes(tflite_bytes(quotients, nodes, [0], [2]))
    code, _, remarks = run("deploy", path, "-o", tmp_path / "c")
    assert code == 2
    assert "layer 'half': no C code for Elementwise" in remarks
    assert "layer 'quarter': no C code for Elementwise" in remarks
    assert not (tmp_path / "c").exists()
