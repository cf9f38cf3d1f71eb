import pytest

from csdf.analysis.consistency import repetition_vector
from csdf.errors import Suspicious, UnreadableFile
from csdf.io.layer_table import layer_widths, parse_layer_table

TABLE = """layer,inputs,consumption,production,times
in,,1,1,1
conv,in,"3,2*1,0",1,2
add,conv;in,"1;1,1,1,2",1,1/2
"""


def test_a_row_becomes_an_actor_with_a_channel_from_each_input():
    graph = parse_layer_table(TABLE, "net.csv")
    fifos = {c.name: (c.production, c.consumption) for c in graph.channels if not c.is_self_loop}
    # conv's list has four phases: 3, then 1 twice, then 0; add's second list has four phases too.
    assert fifos == {
        "in to conv": ((1,), (3, 1, 1, 0)),
        "conv to add": ((1, 1, 1, 1), (1, 1, 1, 1)),
        "in to add": ((1,), (1, 1, 1, 2)),
    }


def test_a_layer_works_on_one_phase_at_a_time():
    graph = parse_layer_table(TABLE, "net.csv")
    loops = [channel for channel in graph.channels if channel.is_self_loop]
    assert [loop.initial_tokens for loop in loops] == [1, 1, 1]


def test_a_layer_that_no_other_reads_needs_no_production():
    assert parse_layer_table(TABLE + "out,add,1,,1\n").channel("add to out").production == (
        1,
        1,
        1,
        1,
    )


def test_times_may_be_rational():
    # The shortest time is 1/2, so that is the unit: 2 becomes 4 of them.
    graph = parse_layer_table(TABLE, "net.csv")
    assert graph.actor("conv").durations == (4, 4, 4, 4)
    assert graph.time_unit * 2 == 1


def test_the_graph_of_a_layer_table_is_consistent():
    # A cycle of conv takes 5 rows of in, as a cycle of add does.
    graph = parse_layer_table(TABLE, "net.csv")
    assert repetition_vector(graph) == {"in": 5, "conv": 4, "add": 4}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "net.csv:1: columns"),
        ("layer,inputs\n", "net.csv:1: columns"),
        ("layer,inputs,consumption,production,times\n", "net.csv: no layer"),
        (TABLE + "x,y,1,1,1\n", "net.csv:5: layer 'x' reads from 'y'"),
        (TABLE + "x,in,1,1\n", "net.csv:5: 4 cells, expected 5"),
        (TABLE + "x,in,-1,1,1\n", "net.csv:5: '-1' is negative"),
        (TABLE + "x,in,1;1,1,1\n", "net.csv:5: layer 'x' has 1 input but 2 lists"),
        (TABLE + "in,,1,1,1\n", "net.csv:5: two actors are named 'in'"),
        (TABLE + 'x,in,1,"1,a",1\ny,x,1,1,1\n', "net.csv:5: 'a' is not an integer"),
        (TABLE + "y,in;in;in;in,1999999*1,1,1\n", "net.csv:5: more than 10000000 rates"),
        (TABLE + "x,in,0,1,1\n", "all consumption rates are zero"),
        (
            TABLE + "x,,1,1,9999999*1\n",
            "net.csv:5: more than 10000000 rates in the layers up to 'x'",
        ),
        (TABLE + 'x,,1,"9973*1","9967*1"\n', "net.csv:5: more than 10000000 rates"),
        (TABLE + "x,,1,1,99999999*1\n", "net.csv:5: '99999999*1' is longer than the limit"),
    ],
)
def test_a_bad_table_names_the_line(text, message):
    with pytest.raises(UnreadableFile) as caught:
        parse_layer_table(text, "net.csv")
    assert message in str(caught.value)


def test_a_list_that_is_shorter_than_others_of_its_layer_is_remarked_upon():
    text = 'layer,inputs,consumption,production,times\nin,,,1,1\nconv,in,"2,1,1","1,0,0,1,1,1",1\n'
    text += "out,conv,1,1,1\n"
    with pytest.warns(
        Suspicious, match=r"t\.csv: actor 'conv' has 6 phases; the 3 values of"
    ) as found:
        graph = parse_layer_table(text, "t.csv")
    assert len(found) == 1
    assert graph.actor("conv").phases == 6


WIDE = """layer,inputs,consumption,production,times,width
in,,1,1,1,8
conv,in,"3,2*1,0",1,2,4
add,conv;in,"1;1,1,1,2",1,1/2,
"""


def test_a_width_is_that_of_every_channel_of_its_layer():
    assert layer_widths(WIDE) == {"in to conv": 8, "in to add": 8, "conv to add": 4}


def test_a_table_with_widths_is_the_same_graph():
    assert parse_layer_table(WIDE, "net.csv") == parse_layer_table(TABLE, "net.csv")


def test_a_width_of_zero_is_refused_with_its_line():
    with pytest.raises(UnreadableFile, match=r"net\.csv:2: width 0"):
        layer_widths(WIDE.replace(",8\n", ",0\n"), "net.csv")
