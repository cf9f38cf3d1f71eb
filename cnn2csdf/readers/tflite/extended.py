"""Custom operators that other packages define, as layers of a TensorFlow Lite graph."""

from __future__ import annotations

from types import ModuleType

from cnn2csdf import extensions
from cnn2csdf.readers.tflite.assembly import TfliteAssembly
from cnn2csdf.readers.tflite.flexible_options import flexible_options
from cnn2csdf.readers.tflite.model_file import TfliteNode

CUSTOM = "CUSTOM:"


def extension_of(node: TfliteNode) -> ModuleType | None:
    """Return the module that defines a custom operator; None where no package does."""
    is_custom = node.kind.startswith(CUSTOM)
    return extensions.extension(node.kind.removeprefix(CUSTOM).strip("'")) if is_custom else None


def extended(node: TfliteNode, assembly: TfliteAssembly) -> None:
    """Add the layer of such a node. Its constants are the parameters, in the order of their roles."""
    module = extension_of(node)
    assert module is not None
    options = flexible_options(node.custom) if node.custom else {}
    operator = extensions.operator_of(module, node, options)
    places = [place for place in range(len(node.inputs)) if assembly.has(node, place)]
    dynamic = [place for place in places if assembly.is_dynamic(node, place)]
    constants = [place for place in places if place not in dynamic]
    roles = operator.trained([assembly.shape(node, place) for place in dynamic])
    trained = [
        assembly.trained(node, place, role, assembly.constant(node, place))
        for role, place in extensions.by_role(node, roles, constants).items()
    ]
    sources = [assembly.source(node, place) for place in dynamic]
    assembly.add(node, operator, sources=sources, trained=trained)
