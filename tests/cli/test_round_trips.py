"""Files that commands write are read again with the same answers, and foreign buffer sizes are told."""

import json
import re
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from csdf.analysis.bound_channels import bound_channels, with_capacities
from csdf.errors import UncountedSizes, UnreadableFile
from csdf.generation import GraphShape, random_graph
from csdf.io.graph_files import read_graph, write_graph
from csdf.io.sdf3.reader import parse_sdf3
from csdf.io.sdf3.writer import format_sdf3
from csdf.mapping.files import write_mapping
from csdf.mapping.model import Core, Mapping, Platform, StaticOrder
from csdf.mapping.nsoc import write_nsoc
from csdf.mapping.throughput import mapped_throughput
from tests.analysis.changed_graphs import period_of

GRAPHS = Path(__file__).parents[2] / "models" / "graphs"
EXAMPLE = GRAPHS / "csdf_example.xml"
COUNTS, LEFT_OUT = "count as capacities", "do not count, as in SDF3; --buffer-sizes counts them"
ONE = Mapping(
    binding=dict.fromkeys("abc", "p0"),
    orders={"p0": StaticOrder(periodic=("a",) * 6 + ("b", "b", "c") * 2)},
)
FORMATS = (("json", ()), ("xml", ()), ("xml", ("--capacities", "reverse")))


def drawn(seed):
    """A small graph with windows, bounded or not, self-loops with a capacity, and token sizes."""
    random = Random(seed)
    graph = random_graph(
        seed,
        GraphShape(
            actors=2 + seed % 2, max_phases=3, max_repetitions=3, max_rate=3, extra_channels=1,
            is_bounded=seed % 3 > 0, has_late_release=seed % 3 > 0, has_self_loops=seed % 2 == 0,
        ),
    )  # fmt: skip
    return replace(graph, channels=tuple(changed(random, one) for one in graph.channels))


def changed(random, channel):
    if channel.is_self_loop:
        # Two places for a token: the firing holds both.
        return replace(channel, capacity=channel.initial_tokens + sum(channel.production))
    release = channel.release
    if release is None and len(channel.consumption) > 1 and random.random() < 0.5:
        release = (*(0 for _ in channel.consumption[1:]), sum(channel.consumption))
    size = random.choice((None, 4))
    capacity = None if random.random() < 0.3 else channel.capacity
    return replace(channel, release=release, token_size=size, capacity=capacity)


def plain(graph):
    """The graph without what says nothing: release rates that are the consumption."""
    channels = tuple(
        replace(one, release=None) if one.release == one.consumption else one
        for one in graph.channels
    )
    return replace(graph, channels=channels)


@pytest.mark.parametrize("seed", range(12))
def test_a_written_graph_is_the_graph_in_every_format(tmp_path, seed):
    graph, other = plain(drawn(seed)), drawn(seed + 100)
    for origin in (None, format_sdf3(other), format_sdf3(other, capacities="reverse")):
        for suffix, capacities in (("json", {}), ("xml", {}), ("xml", {"capacities": "reverse"})):
            path = tmp_path / f"g.{suffix}"
            write_graph(path, replace(graph, origin=origin), **capacities)
            assert read_graph(path) == graph
    explicit = bound_channels(read_graph(path))
    assert period_of(explicit) == period_of(parse_sdf3(path.read_bytes(), buffer_sizes=False))


@pytest.mark.parametrize("seed", range(2))
def test_every_format_has_the_same_period_front_and_smallest_storage(answer, run, tmp_path, seed):
    write_graph(tmp_path / "g.json", drawn(seed))
    found = []
    for number, (suffix, options) in enumerate(FORMATS):
        path = tmp_path / f"{number}.{suffix}"
        assert run("convert", tmp_path / "g.json", path, *options)[0] == 0
        points = answer("pareto", path, "--count-self-loops", "--unit", "tokens")[1]["points"]
        again = answer("analyze", path)[1]["period"]
        found.append((again, answer("buffers", path)[1]["size"], points))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("suffix", ["json", "xml"])
def test_the_sized_graph_has_its_period_in_every_format(answer, run, tmp_path, suffix):
    path, again = tmp_path / f"sized.{suffix}", tmp_path / "again.xml"
    assert run("buffers", EXAMPLE, "--period", "14", "-o", path)[0] == 0
    assert answer("analyze", path)[1]["period"] == "14"
    assert run("convert", path, again)[0] == 0
    assert answer("analyze", again)[1]["period"] == "14"
    assert answer("analyze", again, "--no-buffer-sizes")[1]["period"] == "12"  # as SDF3 reads it


def test_a_mapping_written_for_sdf3_leaves_the_graph_its_capacities(answer, tmp_path):
    mapped = tmp_path / "mapped.xml"
    sized = with_capacities(read_graph(EXAMPLE), {"alpha": 7, "beta": 6})
    platform = Platform(name="one", cores=(Core(name="p0"),))
    write_nsoc(mapped, sized, platform, ONE)
    same = mapped_throughput(sized, platform, ONE)
    assert answer("map", mapped)[1]["deadlock"] == (same.deadlock and str(same.deadlock))
    assert answer("analyze", mapped)[1]["period"] == "14"  # the graph's own, without the mapping


def test_a_generated_graph_reads_back_the_same_from_both_formats(run, tmp_path):
    for suffix in ("xml", "json"):
        words = (5, "--bounded", "--late-release", "-o", tmp_path / f"g.{suffix}")
        assert run("generate", *words)[0] == 0
    assert plain(read_graph(tmp_path / "g.xml")) == plain(read_graph(tmp_path / "g.json"))


@pytest.mark.parametrize("is_bounded", [False, True])
def test_a_network_is_the_same_graph_in_every_format(run, tmp_path, is_bounded):
    bound = ("--bounded",) if is_bounded else ("--overlap", "self-loop")
    for suffix in ("xml", "json"):
        assert (
            run("cnn", "convert", "keyword_spotting", *bound, "-o", tmp_path / f"net.{suffix}")[0]
            == 0
        )
    xml, other = read_graph(tmp_path / "net.xml"), read_graph(tmp_path / "net.json")
    assert any(one.release is not None for one in other.channels) == is_bounded
    assert plain(xml) == plain(other)


def foreign(tmp_path):
    """The example with a buffer size, as another program writes it."""
    size = '<channelProperties channel="alpha"><bufferSize sz="6"/></channelProperties>'
    text = EXAMPLE.read_text().replace("</csdfProperties>", f"{size}</csdfProperties>")
    path = tmp_path / "foreign.xml"
    path.write_text(text)
    return path


COMMANDS = (
    ("analyze",),
    ("buffers",),
    ("pareto",),
    ("sensitivity",),
    ("schedule",),
    ("latency", "--source", "a", "--sink", "c"),
    ("map", "--processors", "1", "--mapping", "one.json"),
)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_answer_says_whether_foreign_buffer_sizes_count(answer, run, tmp_path, words):
    path, (command, *rest) = foreign(tmp_path), words
    write_mapping(tmp_path / "one.json", ONE)
    rest = [tmp_path / word if word.endswith(".json") else word for word in rest]
    told = {(): (0, 1, LEFT_OUT), ("--buffer-sizes",): (1, 0, COUNTS)}
    for options, (counts, not_counted, meaning) in told.items():
        found = answer(command, path, *rest, *options)[1]["buffer_sizes"]
        assert (found["counted"], found["not_counted"]) == (counts, not_counted)
        assert meaning in found["meaning"]
        text = run(command, path, *rest, *options)[1]
        assert text.startswith(f"{path}: buffer sizes of 1 channel {meaning}")
    assert "buffer_sizes" not in answer(command, EXAMPLE, *rest)[1]


def test_notes_never_enter_machine_readable_output(run, tmp_path):
    path = foreign(tmp_path)
    for words in (
        ("analyze", path, "--csv"),
        ("schedule", path, "--csv"),
        ("pareto", path, "--csv"),
    ):
        _, output, remarks = run(*words)
        assert "buffer sizes" not in output
        assert LEFT_OUT in remarks
    _, output, remarks = run("convert", path, tmp_path / "g.json")
    assert output == ""
    assert LEFT_OUT in remarks
    _, output, _ = run("analyze", path, EXAMPLE, "--json")
    first, second = map(json.loads, output.splitlines())
    assert first["buffer_sizes"]["not_counted"] == 1
    assert "buffer_sizes" not in second


def test_a_report_says_among_its_terms_whether_buffer_sizes_count(run, tmp_path):
    page = tmp_path / "page.html"
    run("report", foreign(tmp_path), "-o", page)
    assert re.search(r"of 1 channel do not count, as in SDF3", page.read_text())


def test_a_library_warns_of_sizes_that_do_not_count(tmp_path):
    path = foreign(tmp_path)
    with pytest.warns(UncountedSizes, match="1 channel do not count") as found:
        assert read_graph(path).channel("alpha").capacity is None
    assert found[0].message.channels == 1
    assert read_graph(path, buffer_sizes=True).channel("alpha").capacity == 6


def test_a_size_in_a_comment_is_none(answer, tmp_path):
    path = tmp_path / "remarked.xml"
    path.write_text(
        EXAMPLE.read_text().replace(
            "</csdfProperties>", '<!-- <bufferSize sz="1"/> --></csdfProperties>'
        )
    )
    assert "buffer_sizes" not in answer("analyze", path)[1]


def test_a_size_that_contradicts_its_capacity_is_refused_with_advice(run, tmp_path):
    path = tmp_path / "sized.xml"
    run("convert", EXAMPLE, path, "--capacity", "alpha=8")
    path.write_text(path.read_text().replace('bufferSize sz="8"', 'bufferSize sz="9"'))
    with pytest.raises(
        UnreadableFile,
        match=r"sized.xml:\d+: channel 'alpha': <storage> says the "
        r"capacity 8, <bufferSize> the size 9; make them equal, or remove <storage>",
    ):
        read_graph(path)


def test_a_reverse_channel_that_was_changed_is_a_channel_as_any_other(run, tmp_path):
    path = tmp_path / "reverse.xml"
    run("convert", EXAMPLE, path, "--capacity", "alpha=8", "--capacities", "reverse")
    assert read_graph(path).channel("alpha").capacity == 8
    path.write_text(path.read_text().replace('spaceOf="alpha"', 'spaceOf="beta"'))
    graph = read_graph(path)
    assert graph.channel("alpha").capacity is None
    assert graph.channel("alpha_space").initial_tokens == 8
