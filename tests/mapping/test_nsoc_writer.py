"""Mapped applications as SDF3 files: what is written is read again, and what cannot be said is told."""

from dataclasses import replace

import pytest

from csdf.errors import UnreadableFile, UnwritableFile
from csdf.io.graph_files import read_graph
from csdf.mapping.files import read_platform, write_platform
from csdf.mapping.model import Buffer, Connection, Core, Mapping, Platform, StaticOrder
from csdf.mapping.nsoc import read_nsoc, write_nsoc
from csdf.mapping.throughput import mapped_throughput
from csdf.model.builder import GraphBuilder
from csdf.model.graph import Actor, Processor
from tests.cli.running import GRAPHS
from tests.mapping.test_mapped_graphs import RESEARCH, known, random_case
from tests.shared_data import each


def graph():
    return (
        GraphBuilder("g")
        .actor("a", 2)
        .actor("b", 3)
        .channel("a", 1, "b", 1, name="ab", token_size=9)
        .channel("b", 1, "a", 1, initial_tokens=2, name="ba", token_size=4)
        .graph()
    )


def platform(**changes):
    """p owns 6 of 10; a token that comes to it may wait for the other 4."""
    there = Connection(source="p", target="q", latency=2, bandwidth=4, is_pipelined=False)
    back = Connection(source="q", target="p", latency=1, is_pipelined=False, wait=4)
    cores = (Core(name="p", wheel=10, slice=6, offset=4), Core(name="q"))
    return replace(Platform(name="noc", cores=cores, connections=(there, back)), **changes)


def mapping(**changes):
    orders = {
        "p": StaticOrder(prefix=("a",), periodic=("a",)),
        "q": StaticOrder(periodic=("b", "b")),
    }
    buffers = {"ab": Buffer(source=2, target=1), "ba": Buffer(source=3, target=2)}
    return replace(Mapping(binding={"a": "p", "b": "q"}, orders=orders, buffers=buffers), **changes)


def test_a_written_mapping_is_read_again(tmp_path):
    path = tmp_path / "mapped.xml"
    write_nsoc(path, graph(), platform(), mapping())
    again = read_nsoc(path)
    assert again.mapping == mapping()
    assert again.platform.connections == platform().connections
    assert again.platform.cores[0] == platform().cores[0]
    before, after = (mapped_throughput(*one) for one in ((graph(), platform(), mapping()), again))
    assert before.period == after.period


def test_a_malformed_size_is_refused_on_any_channel(tmp_path):
    path = tmp_path / "mapped.xml"
    write_nsoc(path, graph(), platform(), mapping())
    path.write_text(path.read_text().replace("<bufferSize ", '<bufferSize mem="x" ', 1))
    with pytest.raises(UnreadableFile, match="<bufferSize> mem"):
        read_nsoc(path)


def test_the_application_stays_readable_as_a_graph(tmp_path):
    path = tmp_path / "mapped.xml"
    write_nsoc(path, graph(), platform(), mapping())
    written = read_graph(path)
    assert [actor.durations for actor in written.actors] == [(2,), (3,)]
    assert [channel.initial_tokens for channel in written.channels] == [0, 2]


def test_durations_on_a_type_of_processor_stay(tmp_path):
    typed = Actor(name="a", durations=(7,), processors=(
        Processor(name="x86", durations=(7,), is_default=True), Processor(name="arm", durations=(2,)),
    ))  # fmt: skip
    path = tmp_path / "mapped.xml"
    one = replace(graph(), actors=(typed, graph().actor("b")), origin=None)
    cores = (replace(platform().cores[0], type="arm"), platform().cores[1])
    write_nsoc(path, one, platform(cores=cores), mapping())
    again = read_nsoc(path)
    assert again.platform.core("p").type == "arm"
    same = mapped_throughput(one, platform(cores=cores), mapping())
    assert mapped_throughput(*again).period == same.period


def test_one_processor_for_a_graph_from_a_file_is_written(tmp_path):
    path = tmp_path / "mapped.xml"
    example = read_graph(GRAPHS / "csdf_example.xml")
    cores = (Core(name="p"),)
    order = StaticOrder(periodic=("a",) * 6 + ("b",) * 4 + ("c",) * 2)
    everything = Mapping(binding=dict.fromkeys("abc", "p"), orders={"p": order})
    write_nsoc(path, example, Platform(name="one", cores=cores), everything)
    # Three cycles of a (1, 3), two of b (2, 2), one of c (2, 3), one firing after the other.
    assert mapped_throughput(*read_nsoc(path)).period == 3 * 4 + 2 * 4 + 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"binding": {"a": "p"}}, "actor 'b' is bound to no processor"),
        ({"delays": {"ab": 3}}, "channel 'ab' has a delay of its own"),
    ],
)
def test_mappings_without_an_sdf3_form_are_refused(tmp_path, change, message):
    path = tmp_path / "mapped.xml"
    with pytest.raises(UnwritableFile, match=message):
        write_nsoc(path, graph(), platform(), mapping(**change))
    assert not path.exists()


def test_platforms_that_sdf3_cannot_say_are_told(tmp_path):
    path = tmp_path / "mapped.xml"
    there, back = platform().connections
    early = (replace(platform().cores[0], offset=0), platform().cores[1])
    for changes, message in (
        ({"connections": (replace(there, is_pipelined=True), back)}, "follow one another at once"),
        ({"connections": (there, replace(back, wait=0))}, "wait for 0 when they arrive"),
        ({"connections": ()}, "tokens from 'q' to 'p' wait for 0 when they arrive, but only for 4"),
        ({"cores": early}, "the slice of processor 'p' begins at 0"),
    ):
        with pytest.raises(UnwritableFile, match=message):
            write_nsoc(path, graph(), platform(**changes), mapping())
    assert not path.exists()


def test_a_platform_is_written_and_read_again(tmp_path):
    path = tmp_path / "platform.json"
    write_platform(path, platform())
    assert read_platform(path) == platform()


def one_by_one(graph, target, mapping):
    """The same mapping where tokens cross one at a time, as SDF3 has it; no slices, so no waits."""
    connections = tuple(replace(one, is_pipelined=False) for one in target.connections)
    return graph, replace(target, connections=connections), mapping


@pytest.mark.parametrize("seed", range(60))
def test_random_mappings_mean_the_same_when_read_again(seed, tmp_path):
    path = tmp_path / "mapped.xml"
    before = one_by_one(*random_case(seed))
    write_nsoc(path, *before)
    again = read_nsoc(path)
    assert again.mapping == before[2]
    assert again.platform.connections == before[1].connections
    assert mapped_throughput(*again).period == mapped_throughput(*before).period


@pytest.mark.slow
def test_250_random_mappings_mean_the_same_when_read_again(tmp_path):
    for seed in range(1000, 1250):
        test_random_mappings_mean_the_same_when_read_again(seed, tmp_path)


@each("case", known("mapping/sdf3_nsoc/answers.json"))
def test_mapped_files_of_sdf3_are_the_same_when_written_and_read(case, tmp_path):
    path = tmp_path / "mapped.xml"
    before = read_nsoc(RESEARCH / "mapping" / "sdf3_nsoc" / case["file"])
    write_nsoc(path, *before)
    again = read_nsoc(path)
    assert again.mapping == before.mapping
    assert again.platform.cores == before.platform.cores
    used = {(one.source, one.target): one for one in again.platform.connections}
    for one in before.platform.connections:
        assert used[one.source, one.target] == one
    assert mapped_throughput(*again) == mapped_throughput(*before)
