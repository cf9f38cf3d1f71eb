"""From a network to a graph: by hand, by both forms of overlap, and beside graphs made elsewhere."""

import importlib.resources

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.catalogue.networks import CATALOGUE
from cnn2csdf.catalogue.samos import samos_example
from cnn2csdf.geometry import Overlap
from cnn2csdf.granularity import MOST_PARTS, ROWS, WHOLE, Granularity, require_few_parts
from cnn2csdf.lowering import lower
from cnn2csdf.simplify import REWRITES, simplified
from cnn2csdf.weights import Model
from csdf.analysis.consistency import repetition_vector
from csdf.analysis.liveness import deadlock
from csdf.analysis.throughput import throughput
from csdf.cli.main import main
from csdf.errors import InvalidNetwork
from csdf.search.trade_off import smallest_storage
from tests.cnn2csdf.execution.random_networks import models
from tests.shared_data import shared_graph


def channel_of(graph, name):
    found = graph.channel(name)
    return found.production, found.consumption


def test_the_published_example_has_the_published_rates():
    # SAMOS 2020, Fig. 1
    graph = lower(samos_example(), ROWS, overlap=Overlap.SELF_LOOP)
    assert channel_of(graph, "n2 to n3")[1] == (384, 192, 192, 256)
    assert channel_of(graph, "n2 to n3 overlap") == ((128, 128, 128, 0), (0, 128, 128, 128))
    assert channel_of(graph, "n3 to n4")[0] == (12, 12, 12, 12)


@pytest.mark.parametrize(
    ("granularity", "size"),
    [  # SAMOS 2020, Table II
        (WHOLE, 2098),
        (Granularity(rows=None, layers={"n1": 1, "n2": 8}), 1842),
        (Granularity(rows=1, layers={"n3": None}), 1618),
        (ROWS, 978),
    ],
)
def test_the_published_example_has_the_published_sizes(granularity, size):
    found = smallest_storage(lower(samos_example(), granularity, element_bytes=1))
    assert (found.status, found.point.size) == ("optimal", size)


@pytest.mark.parametrize("name", CATALOGUE)
def test_catalogue_networks_become_consistent_live_graphs(name):
    network = CATALOGUE[name]()
    for granularity in (ROWS, Granularity(rows=3), WHOLE):
        graph = lower(network, granularity)
        phases = {actor.name: actor.phases for actor in graph.actors}
        assert repetition_vector(graph) == phases  # one frame is one iteration
        assert deadlock(graph) is None


@pytest.mark.slow
@given(models(), st.integers(1, 3))
def test_both_forms_of_overlap_have_the_same_throughput(model, rows):
    periods = {
        throughput(lower(model.network, Granularity(rows=rows), overlap=overlap)).period
        for overlap in Overlap
    }
    assert len(periods) == 1


@pytest.mark.slow
@given(models(), st.sampled_from([1, 2, 3, None]))
def test_random_networks_with_branches_become_consistent_live_graphs(model, rows):
    graph = lower(model.network, Granularity(rows=rows))
    assert repetition_vector(graph) == {actor.name: actor.phases for actor in graph.actors}
    assert deadlock(graph) is None
    for channel in graph.channels:  # a cycle moves one tensor
        assert sum(channel.production) == sum(channel.consumption)


def test_a_layer_that_reads_one_tensor_twice_has_two_channels():
    builder = NetworkBuilder("twice")
    image = builder.input((1, 4, 4))
    builder.output(builder.add(op.Elementwise(function="multiply"), image, image, name="square"))
    names = [one.name for one in lower(builder.network()).channels if not one.is_self_loop]
    assert names == ["input to square", "input to square 2", "square to output"]


def test_joins_that_wait_write_with_their_last_part():
    builder = NetworkBuilder("join")
    image = builder.input((1, 3, 4))
    other = builder.add(op.Activation(function="relu"), image, name="relu")
    builder.output(builder.add(op.Elementwise(function="add"), image, other, name="add"))
    graph = lower(builder.network(), Granularity(joins_wait=True))
    assert graph.channel("add to output").production == (0, 0, 12)


def test_durations_must_fit_the_phases():
    with pytest.raises(InvalidNetwork, match="layer 'n1': 2 durations for 32 phases"):
        lower(samos_example(), ROWS, durations={"n1": (1, 1)})
    with pytest.raises(InvalidNetwork, match="layer 'n1' has no durations"):
        lower(samos_example(), ROWS, durations={})


SHARED = {  # file of ../shared/graphs/cnn: network of the onnx package, rewrites
    "squeezenet_full": ("squeezenet", ("eliminate-nop",)),
    "squeezenet_fused": ("squeezenet", ("eliminate-nop", "fuse-bn", "fuse-activation")),
    "vgg19_full": ("vgg19", ("eliminate-nop",)),
    "vgg19_fused": ("vgg19", ("eliminate-nop", "fuse-bn", "fuse-activation")),
    "inception_v1_full": ("inception_v1", ("eliminate-nop",)),
    "densenet121_full": ("densenet121", ("eliminate-nop", "fuse-bias")),
}


@pytest.mark.parametrize("name", SHARED)
def test_rates_are_those_of_graphs_that_another_program_made(name):
    reader = pytest.importorskip("cnn2csdf.onnx_files.reader")
    theirs = shared_graph(f"cnn/{name}_rows_c1.xml")
    network, steps = SHARED[name]
    light = importlib.resources.files("onnx") / "backend" / "test" / "data" / "light"
    model = simplified(reader.read_onnx(str(light / f"light_{network}.onnx")), steps)
    ours = lower(model.network, ROWS, overlap=Overlap.SELF_LOOP)

    def rates(graph):
        return sorted(
            (one.production, one.consumption) for one in graph.channels if not one.is_self_loop
        )

    assert rates(ours) == rates(theirs)


def test_dropping_and_absorbing_leave_the_published_layers():
    network = CATALOGUE["resnet18"]()
    left = REWRITES["fuse-bias"](REWRITES["eliminate-nop"](Model(network=network))).network
    assert len(left.layers) == len(network.layers)  # nothing to drop in it


def column(rows):
    """An input, a convolution and an output of so many rows each."""
    builder = NetworkBuilder("column")
    window = op.Window(kernel=(3, 1), padding=(1, 0, 1, 0))
    builder.output(
        builder.add(op.Convolution(filters=2, window=window), builder.input((1, rows, 1)))
    )
    return builder.network()


def test_more_parts_than_can_be_listed_are_refused_before_they_are():
    # input, convolution and output: three parts of a row each
    require_few_parts(column(MOST_PARTS // 3))
    with pytest.raises(InvalidNetwork, match=r"30,000,000 parts of rows.* at most 524,288"):
        lower(column(10**7))
    with pytest.raises(InvalidNetwork, match=r"1,500,000 parts"):
        lower(column(10**7), Granularity(rows=20))
    assert len(lower(column(10**7), Granularity(rows=10**6)).actors) == 3


@pytest.mark.parametrize(
    "command",
    [
        "cnn convert -o made.json",
        "cnn memory --time-limit 2s",
        "cnn verify",
        "plan fusion --ram 1MB --time-limit 2s",
        "plan reuse --time-limit 2s",
        "plan traffic --buffer 64kB --time-limit 2s",
        "fit --time-limit 2s",
        "deploy --time-limit 2s -o made",
    ],
)
def test_a_command_refuses_ten_million_rows_by_name(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    layer = "[convolutional]\nfilters=2\nsize=3\nstride=1\npad=1\nactivation=relu\n"
    network = f"[net]\nheight=10000000\nwidth=1\nchannels=1\n{layer}"
    (tmp_path / "signal.cfg").write_text(network)
    assert main([*command.split(), "signal.cfg"]) == 2
    said = capsys.readouterr().err
    assert "30,000,000 parts of rows in all tensors, 10,000,000 of them in layer" in said
    assert "at most 524,288 are listed: take a frame of fewer rows" in said
    assert [one.name for one in tmp_path.iterdir()] == ["signal.cfg"]


def test_ten_million_rows_are_shown(tmp_path, capsys):
    (tmp_path / "signal.cfg").write_text(
        "[net]\nheight=10000000\nwidth=1\nchannels=1\n[maxpool]\nsize=2\nstride=2\n"
    )
    assert main(["cnn", "show", str(tmp_path / "signal.cfg")]) == 0
    assert "1x5000000x1" in capsys.readouterr().out
