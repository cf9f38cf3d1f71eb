"""The picture of an arena counts shared bytes once, and prints no name over another."""

from matplotlib.figure import Figure

from planners.arena.command.picture import DrawnBuffer, draw_arena


def axes_of(boxes):
    axes = Figure().add_subplot()
    draw_arena(axes, boxes)
    return axes


def test_bytes_that_buffers_share_live_once():
    # 0..60 and 40..100 cover 100 bytes together, not 120; from 5 on only the second lives.
    axes = axes_of([DrawnBuffer("a", 0, 5, 0, 60), DrawnBuffer("b", 0, 9, 40, 60)])
    line = next(one for one in axes.lines if one.get_label() == "live bytes")
    assert list(line.get_xdata()) == [0, 5, 9]
    assert list(line.get_ydata()) == [100, 60, 0]


def test_of_names_over_each_other_and_of_small_buffers_one_is_printed():
    boxes = [
        DrawnBuffer("large", 0, 9, 0, 100),
        DrawnBuffer("other", 0, 9, 1, 98),
        DrawnBuffer("flat", 0, 9, 100, 1),
    ]
    assert [one.get_text() for one in axes_of(boxes).texts] == ["large"]


def test_of_a_long_name_the_end_is_printed_and_all_of_it_fits():
    (text,) = axes_of([DrawnBuffer("x" * 200 + "/last", 0, 9, 0, 100)]).texts
    assert text.get_text().startswith("…")
    assert text.get_text().endswith("/last")
    assert len(text.get_text()) < 100


def test_bytes_are_counted_in_the_units_of_the_text():
    assert axes_of([DrawnBuffer("a", 0, 5, 0, 60_000)]).get_ylabel() == "offset (kB)"


def test_a_name_is_as_large_as_its_buffer_has_room_for():
    boxes = [DrawnBuffer("wide", 0, 9, 0, 90), DrawnBuffer("flat", 0, 9, 90, 4)]
    sizes = {text.get_text(): text.get_fontsize() for text in axes_of(boxes).texts}
    assert sizes["wide"] == 10  # 8 pixels where the page is 400 wide
    assert sizes["flat"] < 10
    long, short = "x" * 70, "x" * 30
    (text,) = axes_of([DrawnBuffer(long, 0, 9, 0, 9)]).texts
    (other,) = axes_of([DrawnBuffer(short, 0, 9, 0, 9)]).texts
    assert text.get_fontsize() < other.get_fontsize()
