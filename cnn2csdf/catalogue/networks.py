"""All networks of the catalogue by name, and by a text such as "mobilenet_v1:width=1/4"."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from types import MappingProxyType

from cnn2csdf.catalogue.alexnet import alexnet
from cnn2csdf.catalogue.densenet import densenet121
from cnn2csdf.catalogue.efficientnet import efficientnet_b0
from cnn2csdf.catalogue.embedded import keyword_spotting, person_detection, resnet8
from cnn2csdf.catalogue.googlenet import googlenet
from cnn2csdf.catalogue.mobilenet import mobilenet_v1, mobilenet_v2
from cnn2csdf.catalogue.resnet import resnet18, resnet34, resnet50
from cnn2csdf.catalogue.samos import samos_example
from cnn2csdf.catalogue.squeezenet import squeezenet1_0, squeezenet1_1
from cnn2csdf.catalogue.vgg import vgg16, vgg19
from cnn2csdf.catalogue.yolo import tiny_yolo_v2, yolo_v2, yolo_v2_beginning
from cnn2csdf.network import Network
from csdf.errors import InvalidNetwork
from csdf.names import meant

CATALOGUE: Mapping[str, Callable[..., Network]] = MappingProxyType(
    {
        builder.__name__: builder
        for builder in (
            alexnet,
            densenet121,
            efficientnet_b0,
            googlenet,
            keyword_spotting,
            mobilenet_v1,
            mobilenet_v2,
            person_detection,
            resnet8,
            resnet18,
            resnet34,
            resnet50,
            samos_example,
            squeezenet1_0,
            squeezenet1_1,
            tiny_yolo_v2,
            vgg16,
            vgg19,
            yolo_v2,
            yolo_v2_beginning,
        )
    }
)
_WHOLE = re.compile(r"[0-9]{1,9}")
_RATIONAL = re.compile(r"[0-9]{1,9}(/[0-9]{1,9}|\.[0-9]{1,9})?")


def from_catalogue(text: str) -> Network:
    """Return the network that a text names: "resnet18", "mobilenet_v1:width=1/4,resolution=128".

    Raises InvalidNetwork, listing what exists, where the name or an argument is unknown.
    """
    name, _, arguments = text.partition(":")
    if name not in CATALOGUE:
        raise InvalidNetwork(
            f"there is no network {name!r} in the catalogue; there are {', '.join(CATALOGUE)}"
            + meant(name, CATALOGUE)
        )
    builder = CATALOGUE[name]
    defaults = {
        key: parameter.default for key, parameter in inspect.signature(builder).parameters.items()
    }
    chosen: dict[str, int | Fraction] = {}
    for argument in arguments.split(",") if arguments else ():
        key, _, value = argument.partition("=")
        if key not in defaults or key in chosen:
            raise InvalidNetwork(
                f"{text!r}: {argument!r} is not one argument of {name}, "
                f"which takes {', '.join(defaults) or 'none'}"
            )
        chosen[key] = _number(value, defaults[key], f"{text!r}: {key}")
    return builder(**chosen)


def _number(text: str, default: int | Fraction, what: str) -> int | Fraction:
    """The number a text stands for, of the kind of the default."""
    if isinstance(default, int):
        if not _WHOLE.fullmatch(text):
            raise InvalidNetwork(f"{what} is {text!r}; give a whole number, such as {default}")
        return int(text)
    if not _RATIONAL.fullmatch(text) or (text.partition("/")[2].strip("0") == "" and "/" in text):
        raise InvalidNetwork(f"{what} is {text!r}; give a number such as 1, 3/4 or 0.75")
    return Fraction(text)
