"""A network on several processors: from the catalogue, with measured durations, into `csdf map`."""

from csdf.io.graph_files import read_graph


def test_layers_of_a_network_are_mapped_with_given_durations(answer, run, tmp_path):
    """Layers whole, 1000 ns a phase, but 5000 for one, which is the period on many processors."""
    graph, table = tmp_path / "network.xml", tmp_path / "times.csv"
    words = ("cnn", "convert", "resnet8", "--granularity", "whole", "-o", graph)
    assert run(*words)[0] == 0
    layers = read_graph(graph).actors
    rows = [
        f"{actor.name},{phase},{5000 if actor is layers[3] else 1000}"
        for actor in layers
        for phase in range(actor.phases)
    ]
    table.write_text("\n".join(["layer,phase,nanoseconds", *rows]) + "\n")
    code, _, error = run(*words, "--durations", table)
    assert code == 0, error
    timed = read_graph(graph)
    work = (
        sum(sum(actor.durations) for actor in timed.actors) * timed.time_unit
    )  # every actor fires its phases once an iteration
    code, one = answer("map", graph, "--processors", 1)
    assert (code, one["period"]) == (0, str(work))
    code, many = answer("map", graph, "--processors", len(timed.actors), "--time-limit", "5s")
    assert (code, many["period"], many["status"]) == (0, "5000", "optimal")
    code, fewest = answer("map", graph, "--period", "8000", "--time-limit", "5s")
    assert code == 0
    assert fewest["minimum"]["size"] >= -(-int(work) // 8000)
