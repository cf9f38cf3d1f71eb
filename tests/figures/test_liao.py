"""The pages on DRAM traffic are what the scripts make."""

from pathlib import Path

import pytest

from figures import liao_pair, liao_published, liao_resnet34


def kept(script):
    return Path(script.__file__).with_suffix(".md").read_text()


@pytest.mark.slow
def test_the_pair_of_the_slides():
    assert liao_pair.page() == kept(liao_pair)


@pytest.mark.slow
def test_the_page_of_resnet34():
    assert liao_resnet34.page() == kept(liao_resnet34)


@pytest.mark.slow
def test_the_pictures_can_be_drawn_and_are_kept():
    for name, picture in liao_pair.pictures().items():
        assert picture.startswith("<?xml")
        assert Path(liao_pair.__file__).with_name(f"liao_pair{name}.svg").exists()
    drawn = liao_resnet34.sweep_drawing(liao_resnet34.BUFFERS[4:6]), liao_resnet34.layers_drawing()
    assert all(picture.startswith("<?xml") for picture in drawn)
    for name in ("liao_resnet34", "liao_resnet34_layers"):
        assert Path(liao_resnet34.__file__).with_name(f"{name}.svg").exists()


def test_the_schedule_of_the_slides_by_the_printed_formula():
    # Input 430,080 + 401,408; weights 4 * 147,456; border 2 * 28,672; output 2 * 802,816.
    found = 4 * liao_published.pair().total
    assert found == 831_488 + 589_824 + 57_344 + 1_605_632 == 3_084_288


def test_sixty_four_weights_are_in_the_buffer():
    # 415,744 between, a map of 30 or 28 columns, 64 weights of four bytes.
    held = [4 * elements for elements in liao_published.pair().held]
    assert held == [415_744 + 6_720 + 256, 415_744 + 6_272 + 256]


def test_pairs_that_fit_by_the_printed_formula():
    found = [4 * liao_published.pair(*shape).total for shape in liao_published.SHAPES]
    assert found == [2_383_872, 5_320_704, 19_175_424]


def test_the_page_of_the_printed_formula():
    assert liao_published.page() == kept(liao_published)
