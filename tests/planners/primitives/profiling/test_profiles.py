import os
import pickle
from dataclasses import replace
from itertools import count

import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.weights import Model, random_weights
from csdf.errors import ExecutionError, GaveUp, InvalidPlan, UnreadableFile
from csdf.time_limit import Progress, Stop
from planners.primitives.library.layers import layer_variants
from planners.primitives.library.winograd import ROUNDING
from planners.primitives.profile import (
    LayerProfile,
    Profile,
    TimingMachine,
    TransformProfile,
    Variant,
    parsed_profile,
    profile_text,
    read_profile,
    write_profile,
)
from planners.primitives.profiling import (
    Effort,
    allocated_bytes,
    from_worker,
    measure,
    profile_network,
    random_frame,
    run_measured,
    take_turns,
)
from planners.primitives.selection.problem import selection_problem
from tests.planners.primitives.outputs import largest_difference

ONCE = Effort(repetitions=1, least=1, evicted_bytes=64)
HEAD = "layer,primitive,input_layout,output_layout,nanoseconds,workspace_bytes,parameter_bytes"


def small_network():
    builder = NetworkBuilder("small")
    features = builder.input((3, 9, 8))
    for number in (1, 2, 3):
        window = op.Window(kernel=(3, 3), padding=(1, 1, 1, 1))
        convolution = op.Convolution(filters=3, window=window)
        features = builder.add(convolution, features, name=f"conv{number}")
    pooled = builder.add(op.GlobalPooling(function="average"), features, name="pool")
    builder.output(builder.add(op.FullyConnected(units=2), pooled, name="classifier"))
    return builder.network()


def small_profile():
    machine = TimingMachine(
        processor="a processor, of some kind", cores=2, threads=1, library="numpy"
    )
    layers = tuple(
        LayerProfile(
            layer=layer,
            primitive=primitive,
            input_layout="CHW",
            output_layout=target,
            nanoseconds=1200,
            spread_nanoseconds=30,
            workspace_bytes=64,
            parameter_bytes=48,
        )
        for layer, primitive, target in (
            ("input", "layer", "CHW"),
            ('the "first"', "im2col, strips", "HWC"),
            ('the "first"', "mec", "CHW"),
        )
    )
    change = TransformProfile(
        producer="input",
        consumer='the "first"',
        index=0,
        source_layout="CHW",
        target_layout="HWC",
        nanoseconds=17,
        spread_nanoseconds=1,
        workspace_bytes=0,
    )
    return Profile(network="small", machine=machine, layers=layers, transforms=(change,))


def test_a_profile_is_read_back_as_it_was_written(tmp_path):
    path = tmp_path / "profile.csv"
    write_profile(path, small_profile())
    assert read_profile(path) == small_profile()


@pytest.mark.parametrize(  # U+2028 separates lines for `str.splitlines`
    "name",
    ["first\u2028second\nthird", "a\rb", "\ra", "a\r\nb", "a  b", " a ", '"a"', "'-a", "\\n"],
)
def test_odd_names_are_read_back_as_they_were_written(name, tmp_path):
    layers = (replace(small_profile().layers[0], layer=name),)
    machine = replace(small_profile().machine, processor=name)
    named = replace(small_profile(), network=name, machine=machine, layers=layers, transforms=())
    write_profile(tmp_path / "named.csv", named)
    assert read_profile(tmp_path / "named.csv") == named


def test_an_empty_name_is_refused_before_it_is_written():
    with pytest.raises(InvalidPlan, match="layer is empty; expected a name"):
        replace(small_profile().layers[0], layer="")
    with pytest.raises(InvalidPlan, match="producer is empty; expected a name"):
        replace(small_profile().transforms[0], producer="")
    unnamed = replace(small_profile(), network="")
    assert parsed_profile(profile_text(unnamed), name="named.csv") == unnamed


def test_a_table_from_elsewhere_needs_the_documented_columns_only():
    text = f"{HEAD}\nconv,im2row,HWC,CHW,5,8,12\n"
    found = parsed_profile(text, name="board.csv")
    assert found.network == "board"
    assert found.machine.processor == "not stated"
    assert [(one.nanoseconds, one.spread_nanoseconds) for one in found.layers] == [(5, 0)]
    assert found.transforms == ()


def test_columns_are_accepted_in_any_order():
    text = "# network: n\nnanoseconds,layer,primitive,parameter_bytes,input_layout,output_layout,"
    found = parsed_profile(f"{text}workspace_bytes\n7,a,mec,1,CHW,HWC,2\n", name="t.csv")
    assert found.layers[0].nanoseconds == 7
    assert found.layers[0].output_layout == "HWC"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "t.csv, line 1: no column 'layer', only ''"),
        ("# cores: 0\n", "t.csv, line 2: no column 'layer'"),
        (f"# cores: many\n{HEAD}\n", "t.csv: cores is 'many'; expected a whole number from 1"),
        ("layer,primitive\n", "t.csv, line 1: no column 'input_layout', only 'layer, primitive'"),
        (f"{HEAD},layer\n", "t.csv, line 1: two columns 'layer'"),
        (f"{HEAD},index\n", "line 1: columns 'producer' and 'index' belong together"),
        (f"{HEAD}\na,mec,CHW,HWC,5,8\n", "line 2: 6 cells; expected 7"),
        (
            f"{HEAD}\na,mec,CHW,NHWC,5,8,1\n",
            "line 2, column output_layout: 'NHWC'; expected CHW or",
        ),
        (f"{HEAD}\na,mec,CHW,HWC,5.5,8,1\n", "column nanoseconds: '5.5'; expected a whole number"),
        (f"{HEAD}\na,mec,CHW,HWC,-5,8,1\n", "column nanoseconds: '-5'; expected a whole number"),
        (f"{HEAD}\na,mec,CHW,HWC,5,{'9' * 19},1\n", "column workspace_bytes: '9999"),
        (f"{HEAD}\n,mec,CHW,HWC,5,8,1\n", "line 2, column layer: empty; expected a name"),
        (f"{HEAD}\na,,CHW,HWC,5,8,1\n", "line 2, column primitive: empty; expected a name"),
        (f"{HEAD}\n" + 2 * "a,mec,CHW,HWC,5,8,1\n", "line 3: the same as line 2"),
        (
            f"{HEAD},producer,index\na,,CHW,CHW,5,8,1,b,0\n",
            "line 2: transform from 'b' to 'a': both",
        ),
        (
            f"{HEAD},producer,index\na,,CHW,HWC,5,8,1,b,0\na,,CHW,HWC,5,8,1,b,00\n",
            "t.csv: input 0 of 'a': its transform from CHW is listed twice",
        ),
        (
            f"{HEAD},producer,index\na,mec,CHW,HWC,5,8,1,,\na,mec,CHW,HWC,5,8,1,,1\n",
            "line 3: the same as line 2",
        ),
        (f'{HEAD}\n"a,mec\n', "t.csv, line 2: unexpected end of data"),
    ],
)
def test_a_wrong_table_is_refused_with_one_clear_message(text, message):
    with pytest.raises(UnreadableFile) as refusal:
        parsed_profile(text, name="t.csv")
    assert message in str(refusal.value)


def test_a_file_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UnreadableFile, match="not text in UTF-8: found 0xff at byte 0"):
        read_profile(path)


def test_the_table_names_the_machine_and_not_its_owner():
    lines = profile_text(small_profile()).splitlines()
    assert lines[:6] == [
        "# network: small",
        "# processor: a processor, of some kind",
        "# cores: 2",
        "# threads: 1",
        "# library: numpy",
        "# element_type: float32",
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nanoseconds": -1}, "nanoseconds is -1; expected 0 or more"),
        ({"input_layout": "NCHW"}, "there is no layout 'NCHW', only CHW, HWC"),
    ],
)
def test_a_profile_of_a_layer_is_valid_from_birth(changes, message):
    with pytest.raises(InvalidPlan, match=message):
        replace(small_profile().layers[0], **changes)


def test_a_duplicate_entry_of_a_profile_is_refused():
    profile = small_profile()
    with pytest.raises(InvalidPlan, match="from CHW to CHW is listed twice"):
        replace(profile, layers=profile.layers * 2)
    with pytest.raises(InvalidPlan, match="its transform from CHW is listed twice"):
        replace(profile, transforms=profile.transforms * 2)


@pytest.mark.slow
def test_every_primitive_of_every_layer_is_measured_in_a_worker():
    network, seen = small_network(), []
    profile = profile_network(network, effort=ONCE, budget=Stop(report=seen.append))
    found = [(o.layer, o.primitive, o.input_layout, o.output_layout) for o in profile.layers]
    assert found == [
        (one.name, *way) for one in network.layers for way in layer_variants(network, one)
    ]
    assert all(one.nanoseconds > 0 for one in profile.layers)
    assert profile.machine.threads == 1
    # Convolutions read and write both layouts, the input writes CHW and the classifier reads CHW:
    # one change behind the input, two on each of the two links of convolutions and in front of the
    # pooling, and one behind the pooling, which runs in both.
    changes = [(one.consumer, one.source_layout) for one in profile.transforms]
    assert changes == [
        ("conv1", "CHW"),
        *((name, layout) for name in ("conv2", "conv3", "pool") for layout in ("CHW", "HWC")),
        ("classifier", "HWC"),
    ]
    assert {one.at.split(", ")[0] for one in seen} >= {"conv1", "classifier"}
    assert {one.total for one in seen} == {len(network.layers)}


@pytest.mark.slow
def test_a_measured_run_has_outputs_of_the_model_and_a_time():
    network = small_network()
    model = Model(network=network, weights=random_weights(network, 7))
    selection = {layer.name: layer_variants(network, layer)[0] for layer in network.layers}
    selection["conv2"] = Variant("im2row", "HWC", "CHW")
    frame = random_frame(network, 8)
    found = run_measured(model, selection, frame, repeats=2)
    assert largest_difference(found.outputs, run_layer_by_layer(model, frame)) < ROUNDING
    assert found.nanoseconds > 0


def test_equal_layers_are_measured_once_and_share_their_times():
    seen: list[Progress] = []
    *_, profile = measure(small_network(), ONCE, None, Stop(report=seen.append))
    by_layer = {
        name: [replace(one, layer="any") for one in profile.layers if one.layer == name]
        for name in ("conv1", "conv2", "conv3")
    }
    assert by_layer["conv1"] == by_layer["conv2"] == by_layer["conv3"]
    timed = {one.at.split(", ")[0] for one in seen if "layout transformation" not in one.at}
    assert {"conv2", "conv3"} & timed == set()


def test_an_exception_of_the_watch_ends_the_measurement():
    def watch(_):
        raise GaveUp("no more time")

    with pytest.raises(GaveUp, match="no more time"):
        profile_network(small_network(), effort=ONCE, budget=Stop(report=watch))


def test_a_profile_of_all_layers_precedes_the_layout_transformations():
    network, grown = small_network(), []

    def watch(progress):
        if "layout transformation" in progress.at:
            raise GaveUp("no more time")

    with pytest.raises(GaveUp, match="no more time"):
        grown.extend(measure(network, ONCE, None, Stop(report=watch)))
    assert {layer.layer for layer in grown[-1].layers} == {layer.name for layer in network.layers}


def ending_at(layer):
    """A stop that ends work at a layer."""

    def watch(progress):
        if progress.at.startswith(layer):
            raise GaveUp("no more time")

    return Stop(report=watch)


def test_an_interrupted_measurement_is_kept_and_goes_on(tmp_path):
    network, path = small_network(), tmp_path / "profile.csv"
    with pytest.raises(GaveUp, match="no more time"):
        profile_network(
            network,
            effort=ONCE,
            keep=lambda profile: write_profile(path, profile),
            budget=ending_at("pool"),
        )
    begun = read_profile(path)
    assert not begun.is_whole
    assert {one.layer for one in begun.layers} == {"input", "conv1", "conv2", "conv3"}
    with pytest.raises(InvalidPlan, match="unfinished; csdf plan primitives --save-profile"):
        selection_problem(network, begun)
    seen: list[str] = []
    budget = Stop(report=lambda progress: seen.append(progress.at))
    found = profile_network(network, effort=ONCE, begun=begun, budget=budget)
    assert found.is_whole
    timed = {at.split(", ")[0] for at in seen if "layout transformation" not in at}
    assert timed == {"pool", "classifier", "output"}
    assert found.layers[: len(begun.layers)] == begun.layers
    selection_problem(network, found)


def test_an_error_of_the_worker_is_raised_here():
    with pytest.raises(UnreadableFile, match="nowhere"):
        list(from_worker(Stop(), read_profile_of, "nowhere.csv"))


def read_profile_of(path, _):
    yield read_profile(path)


@pytest.mark.slow
def test_a_worker_that_ends_early_is_reported():
    with pytest.raises(ExecutionError, match="the worker that measures ended with code 3"):
        list(from_worker(Stop(), leave, 3))


def leave(code, _):
    raise SystemExit(code)


@pytest.mark.slow
def test_a_worker_that_ends_within_a_message_is_reported():
    with pytest.raises(ExecutionError, match="the worker that measures ended with code 4"):
        list(from_worker(Stop(), leave_within_a_message, 4))


def leave_within_a_message(code, stop):
    stop.look()  # a whole message before
    message = pickle.dumps(list(range(100)))
    os.write(stop._report.args[0].fileno(), message[: len(message) // 2])
    os._exit(code)


class Clock:
    """A clock that a run moves on."""

    def __init__(self):
        self.now = 0

    def run(self, times, log=None, name=""):
        left = iter(times)

        def run():
            self.now += next(left)
            if log is not None:
                log.append(name)

        return run

    def __call__(self):
        return self.now


def test_medians_and_quartiles_leave_the_first_run_out():
    clock = Clock()
    effort = Effort(repetitions=5, least=5)
    found = take_turns(
        [clock.run([1000, 10, 50, 20, 40, 30])], effort, prepare=lambda _: None, clock=clock
    )
    # Of 10, 20, 30, 40, 50 the median is 30 and the quartiles are 20 and 40.
    assert found == [(30, 20)]


def test_primitives_are_timed_alternately_and_slow_ones_once():
    clock, log = Clock(), []
    runs = [
        clock.run(count(10, 0), log, "fast"),
        clock.run(count(80, 0), log, "at the limit"),
        clock.run([10, *[81] * 3], log, "hopeless"),
        clock.run([900, *[12] * 3], log, "translated first"),
    ]
    effort = Effort(repetitions=3, least=1, hopeless=8)
    found = take_turns(runs, effort, prepare=lambda _: None, clock=clock)
    # The warm-up run alone makes no variant hopeless, and no fast warm-up run saves a slow variant.
    assert found == [(10, 0), (80, 0), (81, 0), (12, 0)]
    names = ["fast", "at the limit", "hopeless", "translated first"]
    assert log == [*names, *names, *2 * ["fast", "at the limit", "translated first"]]


def test_a_slow_variant_is_timed_until_its_minimum_time():
    clock, log = Clock(), []
    effort = Effort(repetitions=9, least=2, nanoseconds=250)
    take_turns([clock.run(count(100, 0), log)], effort, prepare=lambda _: None, clock=clock)
    assert len(log) == 1 + 3  # uncounted, then 100 + 100 + 100 are over 250


@pytest.mark.parametrize("what", ["repetitions", "least", "hopeless"])
def test_an_effort_of_zero_is_refused(what):
    with pytest.raises(InvalidPlan, match=f"{what} is 0; expected at least 1"):
        Effort(**{what: 0})


def test_allocated_bytes_are_counted_at_the_peak():
    def run():
        one = bytearray(1_000_000)
        del one
        bytearray(500_000)

    assert 1_000_000 <= allocated_bytes(run) < 1_010_000
