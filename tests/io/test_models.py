import warnings
from pathlib import Path

import pytest

from csdf.io.graph_files import read_graph
from csdf.io.sdf3.writer import format_sdf3

MODELS = Path(__file__).parents[2] / "models"
PATHS = sorted((MODELS / "graphs").glob("*.xml"))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_model_is_read_without_doubt(path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_graph(path).name == path.stem


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_model_is_as_our_writer_writes_it(path):
    assert format_sdf3(read_graph(path)) == path.read_text()


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_the_readme_counts_the_actors_and_channels_of_a_model(path):
    graph = read_graph(path)
    row = f"| `{path.name}` | {len(graph.actors)}, {len(graph.channels)} |"
    assert row in (MODELS / "README.md").read_text()


@pytest.mark.parametrize(
    ("name", "firings"),
    [
        ("h263decoder", {"vld": 1, "iq": 594, "idct": 594, "mc": 1}),
        ("mp3playback", {"mp3": 5, "src": 12, "app": 5292, "dac": 5292}),
        ("samplerate", {"a": 147, "b": 147, "c": 98, "d": 28, "e": 32, "f": 160}),
        ("csdf_example", {"a": 6, "b": 4, "c": 2}),
    ],
)
def test_the_published_firings_balance_every_channel(name, firings):
    graph = read_graph(MODELS / "graphs" / f"{name}.xml")
    for channel in graph.channels:
        made = firings[channel.producer] // len(channel.production) * sum(channel.production)
        taken = firings[channel.consumer] // len(channel.consumption) * sum(channel.consumption)
        assert made == taken
