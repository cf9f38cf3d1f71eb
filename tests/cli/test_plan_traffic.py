"""`csdf plan traffic` as its users see it."""

import json
from dataclasses import replace

import pytest

from csdf.cli.main import main
from csdf.status import Ended, Status, because
from planners.traffic.network_traffic import NetworkSearch
from tests.cli.schemas import require_valid_answers

PAIR = "conv:56x56x64,64,3x3,stride=1,pad=1+conv:64,3x3,pad=1"
SMALL = "conv:12x12x4,4,3x3,pad=1+conv:4,3x3,pad=1+pool:2x2,stride=2"


@pytest.fixture
def move(capsys):
    """Run the command; return its exit code, standard output and standard error."""

    def run_command(*words):
        capsys.readouterr()
        try:
            code = main(["plan", "traffic", *[str(word) for word in words]])
        except SystemExit as end:  # argparse
            code = end.code
        output, remarks = capsys.readouterr()
        require_valid_answers(["plan", "traffic", *map(str, words)], output)
        return code, output, remarks

    return run_command


def test_the_command_is_listed(capsys):
    assert main(["plan", "--help"]) == 0
    assert "traffic" in capsys.readouterr().out


def test_sizes_of_a_buffer_are_those_of_all_commands(move):
    found = [
        json.loads(move(SMALL, "--buffer", size, "--json")[1]) for size in ("2KiB", "2KB", "2048")
    ]
    assert [one["buffer_bytes"] for one in found] == [2048] * 3


def test_the_pair_of_the_slides(move):
    code, output, _ = move(PAIR, "--buffer", "512KiB", "--nest")
    assert code == 0
    # Input, weights and output once: 2 * 802,816 + 2 * 64 * 64 * 9 * 4.
    assert "(1900544 bytes)" in output
    assert "in a buffer of 512 KiB; " in output
    assert "1x5 tiles, halo cached" in output
    assert "from the input, map by map, makes 64x56x12" in output


def test_json_has_these_keys_and_no_others(move):
    code, output, _ = move(SMALL, "--buffer", "1KiB", "--json", "--nest", "--sweep", "1KiB:2KiB")
    found = json.loads(output)
    assert code == 0
    assert set(found) == {
        "network",
        "status",
        "reason",
        "buffer_bytes",
        "element_bytes",
        "traffic_bytes",
        "bound_bytes",
        "input_bytes",
        "weight_bytes",
        "output_bytes",
        "halo_bytes",
        "groups",
        "sweep",
        "seconds",
    }
    common = {
        "layers",
        "input_bytes",
        "weight_bytes",
        "output_bytes",
        "halo_bytes",
        "traffic_bytes",
        "bound_bytes",
        "held_bytes",
        "schedule",
        "nest",
    }
    assert all(common <= set(group) for group in found["groups"])
    assert sum(group["traffic_bytes"] for group in found["groups"]) == found["traffic_bytes"]
    assert [point["buffer_bytes"] for point in found["sweep"]] == [1024, 2048]


@pytest.mark.slow
def test_fusing_more_is_never_worse_in_a_sweep(move):
    _, output, _ = move("resnet8", "--sweep", "8KiB:40000", "--element-bytes", 1, "--json")
    sweep = json.loads(output)["sweep"]
    # Doubled from the first, and the last itself.
    assert [point["buffer_bytes"] for point in sweep] == [8192, 16384, 32768, 40000]
    for point in sweep:
        assert point["none_bytes"] >= point["pairs_bytes"] >= point["groups_bytes"]
        assert point["groups_bytes"] >= point["bound_bytes"]


def test_layers_alone_have_no_groups(move):
    _, output, _ = move(SMALL, "--buffer", "4KiB", "--fusion", "none", "--json")
    groups = json.loads(output)["groups"]
    assert [group["layers"] for group in groups] == [["conv1"], ["conv2"], ["pool3"]]


def test_a_layer_that_fits_moves_each_tensor_once(move):
    code, output, _ = move("resnet18", "--layer", "conv1", "--buffer", "1MB", "--json")
    found = json.loads(output)
    assert code == 0
    # 3x224x224 in, 64x112x112 out, 64 filters of 3x7x7, four bytes each.
    assert found["traffic_bytes"] == 4 * (3 * 224 * 224 + 64 * 112 * 112 + 64 * 3 * 49)


def test_the_text_says_what_layers_move_one_by_one(move):
    code, output, _ = move(SMALL, "--buffer", "4KiB")
    assert code == 0
    assert "chain" not in output
    assert "layer by layer" in output
    assert "lower bound" in output


@pytest.mark.parametrize("suffix", ["png", "svg", "html"])
@pytest.mark.parametrize("asked", [("--buffer", "4KiB"), ("--sweep", "2KiB:8KiB")])
def test_traffic_is_plotted_into_a_file(move, tmp_path, suffix, asked):
    target = tmp_path / f"traffic.{suffix}"
    assert move(SMALL, *asked, "--plot", target)[0] == 0
    assert target.stat().st_size > 1000


def test_a_buffer_too_small_for_a_layer_is_a_no(move):
    code, output, remarks = move(SMALL, "--buffer", 8)
    assert (code, output) == (1, "")
    assert "infeasible: layer 'conv1' needs an element of each operand" in remarks


def test_a_sweep_answers_the_sizes_that_fit(move):
    code, output, remarks = move(SMALL, "--sweep", "8:1KiB", "--fusion", "none", "--json")
    sizes = [point["buffer_bytes"] for point in json.loads(output)["sweep"]]
    assert code == 0
    assert sizes == [2**n for n in range(11 - len(sizes), 11)]
    omitted = [int(line.split()[3]) for line in remarks.splitlines()]
    assert omitted == [2**n for n in range(3, 11 - len(sizes))] != []
    assert move(SMALL, "--sweep", "4:8")[0] == 1  # no size fits
    assert move(SMALL, "--sweep", "8:1KiB", "--buffer", 8)[0] == 1


def test_a_budget_ends_the_search_with_an_answer(move):
    words = ("resnet18", "--buffer", "256KiB", "--time-limit", "1ms")
    code, output, remarks = move(*words)
    assert code == 3
    assert output.startswith("resnet18: the time limit ended the search: ")
    assert " KiB; feasible\n" in output
    assert move(*words, "--best-effort")[0] == 0
    assert remarks.count("the time limit of 0.001 s is reached") == 1


def test_a_budget_ends_the_search_for_nests_of_a_layer_too(move):
    words = "conv:1x52x21,22,1x2", "--buffer", "80", "--fusion", "none"
    code, output, remarks = move(*words, "--time-limit", "1us", "--json")
    early = json.loads(output)
    assert (code, early["status"]) == (3, "feasible")
    assert remarks.count("the time limit of 1e-06 s is reached") == 1
    _, output, _ = move(*words, "--json")
    assert json.loads(output)["status"] == "optimal"
    assert early["bound_bytes"] <= json.loads(output)["traffic_bytes"] < early["traffic_bytes"]


def test_an_interrupt_ends_every_search_and_what_was_found_stays(move, monkeypatch):
    # Interrupted where pairs are looked for: groups of any length are not looked for after that.
    asked = []
    best = NetworkSearch.best

    def interrupted(search, size, longest=None, budget=None):
        asked.append(longest)
        found = best(search, size, longest, budget)
        return (
            replace(found, status=Status.FEASIBLE, reason=because(Ended.INTERRUPTED))
            if longest == 2
            else found
        )

    monkeypatch.setattr(NetworkSearch, "best", interrupted)
    code, output, remarks = move("resnet8", "--buffer", "16KiB", "--json")
    assert (code, asked) == (0, [1, 2])
    assert json.loads(output)["status"] == "feasible"
    assert remarks.count("interrupted") == 1


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((), "give --buffer, --sweep or both"),
        (("--buffer", "lots"), "is not a size such as"),
        (("--sweep", "4KiB"), "is not a range of sizes such as 32KiB:4MiB"),
        (("--sweep", "4KiB:2KiB"), "does not rise from above zero"),
        (("--buffer", "4KiB", "--fusion", "3"), "--fusion: found '3'; expected one of "),
    ],
)
def test_wrong_usage_is_one_message(move, words, complaint):
    code, output, remarks = move(SMALL, *words)
    assert (code, output) == (2, "")
    assert complaint in remarks


def test_traffic_as_published_is_that_of_the_slides(move):
    code, output, _ = move(PAIR, "--buffer", "512KiB", "--accounting", "published", "--nest")
    assert code == 0
    # Input 831,488, weights 589,824, halo 57,344, output 2 * 802,816.
    assert "(3084288 bytes)" in output
    # 29 columns of the map between, 30 of a map of the input, 64 weights: four bytes each.
    assert "422720 bytes in the buffer" in output
    assert output.count("nest ") == 4 + 1  # four nests, and the line on what crosses between them
    assert "optimal as published" in output


def test_published_traffic_is_of_pairs_at_most(move):
    code, _, remarks = move(
        PAIR, "--buffer", "512KiB", "--accounting", "published", "--fusion", "groups"
    )
    assert code == 2
    assert "give --fusion none or pairs" in remarks


def test_published_traffic_in_json_and_over_buffers(move):
    words = (
        "--accounting",
        "published",
        "--sweep",
        "256KiB:512KiB",
        "--buffer",
        "512KiB",
        "--json",
    )
    found = json.loads(move(PAIR, *words)[1])
    assert found["traffic_bytes"] == found["sweep"][-1]["pairs_bytes"] == 3_084_288
    assert found["groups"][0]["held_bytes"] == 422_720
    # Twice the best nest with rows read again, 1,810,432, and an output more.
    assert found["sweep"][-1]["none_bytes"] == 2 * (1_810_432 + 802_816)


def test_a_sweep_of_layers_alone_is_as_its_schema_says(move):
    code, output, _ = move(SMALL, "--sweep", "1KiB:2KiB", "--fusion", "none", "--json")
    assert code == 0
    assert "pairs_bytes" not in json.loads(output)["sweep"][0]
