"""Applications of `csdf plan reuse`: of models, from files, and published ones."""

import json

import pytest

from tests.shared_data import SHARED

APPLICATION = "keyword_spotting+samos_example"
DARKNET = """[net]
height=16
width=16
channels=3

[convolutional]
filters=4
size=3
stride=1
pad=1
activation=relu
"""
QUICK = ("--generations", "3", "--population", "12", "--seed", "4")
TABLE = SHARED / "networks" / "applications.json"


def test_an_application_file_has_partitions_and_parallel_sets(answer, tmp_path):
    path = tmp_path / "app.json"
    partitions = [{"name": "A", "last": "n2"}, {"name": "B"}]
    networks = [{"model": "samos_example", "partitions": partitions}]
    path.write_text(json.dumps({"networks": networks, "parallel": [["A", "B"]]}))
    code, found = answer("plan", "reuse", path, *QUICK)
    assert code == 0
    assert found["application"] == "app"


@pytest.fixture
def model_file(run, tmp_path):
    """keyword_spotting as an ONNX file."""
    pytest.importorskip("onnx")
    path = tmp_path / "speech.onnx"
    assert run("cnn", "convert", "keyword_spotting", "-o", path)[0] == 0
    return path


def test_a_model_file_is_an_application_of_its_network(answer, model_file):
    code, found = answer("plan", "reuse", model_file, *QUICK)
    _, named = answer("plan", "reuse", "keyword_spotting", *QUICK)
    assert code == 0
    assert (found["application"], found["networks"]) == ("speech", ["speech"])
    assert found["methods"] == named["methods"]


@pytest.mark.parametrize("separate", [True, False], ids=["separate", "with a plus"])
def test_several_models_are_one_application(answer, model_file, separate):
    words = (model_file, "samos_example") if separate else (f"{model_file}+samos_example",)
    _, found = answer("plan", "reuse", *words, *QUICK)
    assert found["application"] == "speech+samos_example"
    _, named = answer("plan", "reuse", APPLICATION, *QUICK)
    assert found["methods"] == named["methods"]


def test_a_darknet_file_is_a_model(answer, tmp_path):
    path = tmp_path / "eyes.cfg"
    path.write_text(DARKNET)
    _, found = answer("plan", "reuse", path, *QUICK)
    assert found["application"] == "eyes"


@pytest.mark.skipif(not TABLE.exists(), reason="nothing for it beside the checkout")
def test_a_network_in_json_is_a_model(answer):
    path = TABLE.parent / "json" / "CNN2.json"
    _, found = answer("plan", "reuse", path, "--repair", *QUICK)
    assert len(found["networks"]) == 1


def test_models_are_read_as_the_options_say(answer):
    whole = answer("plan", "reuse", "resnet8", *QUICK, "--simplify", "none")[1]
    fused = answer("plan", "reuse", "resnet8", *QUICK)[1]
    assert whole["methods"]["no_reduction"] > fused["methods"]["no_reduction"]


def test_an_application_excludes_further_networks(run, tmp_path):
    path = tmp_path / "app.json"
    path.write_text(json.dumps({"networks": [{"model": "samos_example"}]}))
    for words, message in (
        ((path, "samos_example"), "is an application of its own; give it alone"),
        ((path, "--repair"), "an application says itself how"),
    ):
        code, output, remarks = run("plan", "reuse", *words)
        assert (code, output) == (2, "")
        assert message in remarks


@pytest.mark.slow
@pytest.mark.skipif(not TABLE.exists(), reason="nothing for it beside the checkout")
def test_a_published_application_in_the_published_accounting(answer):
    # TODAES 2022 by a model of it: 42.66 MB without reduction, 21.13 with reuse within networks
    _, found = answer("plan", "reuse", TABLE, "--entry", "application 1", *QUICK)
    assert round(found["methods"]["no_reduction"] / 1e6, 2) == 42.66
    assert round(found["methods"]["reuse_only"] / 1e6, 2) == 21.13


def test_parameters_have_the_bytes_of_an_element_unless_said_otherwise(answer):
    words = ("plan", "reuse", APPLICATION, *QUICK)
    (one, both, four) = (
        answer(*words, *more)[1]["weight_bytes"]
        for more in (
            ("--element-bytes", 1),
            ("--element-bytes", 1, "--parameter-bytes", 1),
            ("--element-bytes", 1, "--parameter-bytes", 4),
        )
    )
    assert one == both
    assert four == 4 * one
    assert answer(*words)[1]["weight_bytes"] == four  # single precision
