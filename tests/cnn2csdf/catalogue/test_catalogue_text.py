from fractions import Fraction

import pytest

from cnn2csdf.catalogue.embedded import mobilenet_v1, mobilenet_v2, rounded_channels
from cnn2csdf.catalogue.networks import CATALOGUE, from_catalogue
from csdf.errors import CsdfError, InvalidNetwork


def test_a_name_stands_for_its_builder_with_defaults():
    assert from_catalogue("resnet18") == CATALOGUE["resnet18"]()


@pytest.mark.parametrize("width", ["1/4", "0.25", "2/8"])
def test_a_width_is_an_exact_fraction(width):
    expected = mobilenet_v1(width=Fraction(1, 4), resolution=128)
    assert from_catalogue(f"mobilenet_v1:width={width},resolution=128") == expected


def test_width_multiplies_the_filters():
    network = mobilenet_v1(width=Fraction(1, 2))
    assert network.layer("conv1").shape.dims == (16, 112, 112)
    assert network.layer("conv14_pointwise").shape.dims == (512, 7, 7)


def test_a_thin_mobilenet_v1_keeps_eight_filters():
    assert mobilenet_v1(width=Fraction(1, 100)).layer("conv1").operator.filters == 8


def test_a_thin_mobilenet_v2_keeps_its_last_convolution():
    assert mobilenet_v2(width=Fraction(1, 2)).layer("conv9").operator.filters == 1280
    # 1280 * 1.4
    assert mobilenet_v2(width=Fraction(7, 5)).layer("conv9").operator.filters == 1792


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Fraction(32), 32),
        (Fraction(12), 16),  # halves go up
        (Fraction(119, 10), 16),  # 8 is less than 90% of 11.9
        (Fraction(84, 10), 8),  # 8 is at least 90% of 8.4, that is 7.56
        (Fraction(1), 8),
        (Fraction(448, 10), 48),  # 32 * 1.4 = 44.8: 48 is nearest
    ],
)
def test_channels_are_rounded_to_multiples_of_eight(wanted, expected):
    assert rounded_channels(wanted) == expected


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "resnet19",
            "there is no network 'resnet19' among the built-in models; did you mean 'resnet18'?",
        ),
        ("", "there is no network ''"),
        ("resnet18:width=1", "resnet18 has no argument 'width'; expected one of 'classes', 'res"),
        ("resnet18:", None),
        ("resnet18:classes=1,classes=2", "'classes=2' is a second value of classes"),
        ("resnet18:classes=1/2", "classes is '1/2'; give a whole number, such as 1000"),
        ("resnet18:classes", "classes is ''"),
        ("resnet18:classes=0", "holds nothing"),
        ("resnet18:resolution=-3", "resolution is '-3'"),
        ("mobilenet_v1:width=1/0", "width is '1/0'; give a number such as 1, 3/4 or 0.75"),
        ("mobilenet_v1:width=1e9", "width is '1e9'"),
        ("mobilenet_v1:width=0", "width 0 is not positive"),
        ("yolo_v2:resolution=100", "resolution 100 is not a positive multiple of 32"),
        ("yolo_v2_beginning:layers=24", "24 layers; YOLOv2 begins with 1 to 23"),
        ("vgg16:resolution=8", "does not fit"),
        ("samos_example:classes=2", "samos_example has no argument 'classes'"),
    ],
)
def test_a_wrong_text_is_refused_with_what_is_wrong(text, complaint):
    if complaint is None:
        assert from_catalogue(text) == from_catalogue(text.rstrip(":"))
        return
    with pytest.raises(InvalidNetwork) as refusal:
        from_catalogue(text)
    assert complaint in str(refusal.value)


@pytest.mark.parametrize("name", CATALOGUE)
@pytest.mark.parametrize("resolution", [0, 1, 2, 3, 7])
def test_small_resolutions_work_or_are_refused(name, resolution):
    try:
        network = from_catalogue(f"{name}:resolution={resolution}")
    except CsdfError:
        return
    assert network.layers[0].is_input


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_name_of_the_catalogue_is_that_of_its_builder(name):
    assert CATALOGUE[name].__name__ == name
