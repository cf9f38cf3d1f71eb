"""All networks of the catalogue by name, and by a text such as "mobilenet_v1:width=1/4"."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from importlib import import_module
from typing import TYPE_CHECKING

from csdf.arguments import public
from csdf.errors import InvalidNetwork
from csdf.names import expected_names, meant

if TYPE_CHECKING:
    from cnn2csdf.network import Network

_HOMES = {  # the module of this folder that defines the builder
    "alexnet": "plain_chains",
    "densenet121": "concatenating",
    "efficientnet_b0": "efficientnet",
    "googlenet": "concatenating",
    "inception_v2": "concatenating",
    "keyword_spotting": "embedded",
    "mobilenet_v1": "embedded",
    "mobilenet_v2": "embedded",
    "person_detection": "embedded",
    "resnet8": "embedded",
    "resnet18": "resnet",
    "resnet34": "resnet",
    "resnet50": "resnet",
    "samos_example": "samos",
    "squeezenet1_0": "concatenating",
    "squeezenet1_1": "concatenating",
    "tiny_yolo_v2": "yolo",
    "vgg16": "plain_chains",
    "vgg19": "plain_chains",
    "yolo_v2": "yolo",
    "yolo_v2_beginning": "yolo",
}


class _Catalogue(Mapping[str, Callable[..., "Network"]]):
    """Builders of networks by name. A builder is imported when it is looked up.

    The names alone, for help and completion, need no operators and no NumPy.
    """

    def __getitem__(self, name: str) -> Callable[..., Network]:
        module = import_module(f"cnn2csdf.catalogue.{_HOMES[name]}")
        builder: Callable[..., Network] = getattr(module, name)
        return builder

    def __contains__(self, name: object) -> bool:
        return name in _HOMES

    def __iter__(self) -> Iterator[str]:
        return iter(_HOMES)

    def __len__(self) -> int:
        return len(_HOMES)


CATALOGUE: Mapping[str, Callable[..., Network]] = _Catalogue()
_WHOLE = re.compile(r"[0-9]{1,9}")
_RATIONAL = re.compile(r"[0-9]{1,9}(/[0-9]{1,9}|\.[0-9]{1,9})?")


@public
def from_catalogue(text: str) -> Network:
    """Return the network that a text names: "resnet18", "mobilenet_v1:width=1/4,resolution=128".

    Raises InvalidNetwork, listing what exists, where the name or an argument is unknown.
    """
    name, _, arguments = text.partition(":")
    if name not in CATALOGUE:
        raise InvalidNetwork(
            f"there is no network {name!r} among the built-in models"
            + (meant(name, CATALOGUE) or f"; expected one of {', '.join(CATALOGUE)}")
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
                f"{text!r}: {argument!r} is a second value of {key}"
                if key in chosen
                else f"{text!r}: {name} has no argument {key!r}{expected_names(key, defaults)}"
            )
        chosen[key] = _number(value, defaults[key], f"{text!r}: {key}")
    return builder(**chosen)


def _number(text: str, default: int | Fraction, what: str) -> int | Fraction:
    """Return the number of a text, of the type of the default."""
    if isinstance(default, int):
        if not _WHOLE.fullmatch(text):
            raise InvalidNetwork(f"{what} is {text!r}; give a whole number, such as {default}")
        return int(text)
    if not _RATIONAL.fullmatch(text) or (text.partition("/")[2].strip("0") == "" and "/" in text):
        raise InvalidNetwork(f"{what} is {text!r}; give a number such as 1, 3/4 or 0.75")
    return Fraction(text)
