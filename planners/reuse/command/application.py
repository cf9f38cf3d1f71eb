"""The application of `csdf plan reuse`: read from its own file, or made of models."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from cnn2csdf.commands.cnn import chosen
from cnn2csdf.rewrites.steps import STEPS
from csdf.errors import CsdfError
from csdf.io.files import read_bytes
from csdf.io.json_value import JsonValue
from planners.reuse.application.application import Application, Member, undivided
from planners.reuse.application.application_files import YAML_SUFFIXES, read_application
from planners.reuse.application.published_applications import read_published_application

LAYERS = "_DNN__layers"  # only networks in JSON have this key
OF_MODELS = (
    "--shape, --simplify, --fuse and --repair are for models; an application says itself how"
)


def application_of(options: argparse.Namespace) -> Application:
    """Return the application of a file, or one of all models.

    Raises CsdfError for an application beside something else, and what the readers raise.
    """
    described = [one for one in options.models if options.entry or _is_application(one)]
    if not described:
        return _application_of_models(options.models, options)
    if len(options.models) > 1:
        raise CsdfError(f"{described[0]} is an application of its own; give it alone")
    if options.shape or options.repair or options.simplify != STEPS:
        raise CsdfError(f"{described[0]}: {OF_MODELS}")
    if options.entry:
        return read_published_application(described[0], options.entry)
    return read_application(described[0])


def _is_application(name: str) -> bool:
    """Whether a name is that of a YAML file, or of a JSON file that is no network."""
    suffix = PurePath(name).suffix.lower()
    if suffix != ".json":
        return suffix in YAML_SUFFIXES
    found = JsonValue.parse(read_bytes(name).decode("utf-8", "replace"), name).value
    return not (isinstance(found, dict) and LAYERS in found)


def _application_of_models(models: Sequence[str], options: argparse.Namespace) -> Application:
    """The networks run one after another; a network of a file has the name that stands there."""
    members: list[Member] = []
    names: list[str] = []
    for source in (one for text in models for one in _sources(text)):
        network = chosen.read_source(source, options).network
        members.append(undivided(network))
        names.append(network.name if os.path.exists(source) else source)
    return Application(name="+".join(names), members=tuple(members))


def _sources(text: str) -> Iterator[str]:
    """A file, or what stands between plus signs."""
    if os.path.exists(text):
        yield text
    else:
        yield from text.split("+")
