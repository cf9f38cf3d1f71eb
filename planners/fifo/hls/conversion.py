"""A configuration of hls4ml whose project is not written yet: hls4ml writes it, if installed."""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from importlib import import_module
from importlib.util import find_spec
from io import StringIO
from pathlib import Path

from csdf.errors import UnreadableFile
from csdf.io.files import read_bytes

OUTPUT = re.compile(r"^OutputDir\s*:\s*['\"]?([^'\"#\n]+)", re.MULTILINE)
MODELS = re.compile(r"^(OnnxModel|KerasModel|KerasJson|PytorchModel)\s*:", re.MULTILINE)
HLS4ML = "hls4ml"


def names_a_model(path: Path) -> bool:
    """Whether a file is a configuration of hls4ml that says which model is to be converted."""
    return MODELS.search(_text(path)) is not None


def output_folder(path: Path) -> Path:
    """Return the folder that a configuration says its project is written to, or its own."""
    found = OUTPUT.search(_text(path))
    return path.parent / found[1].strip() if found else path.parent


def _text(path: Path) -> str:
    if not path.is_file() or path.suffix.lower() not in (".yml", ".yaml"):
        return ""
    return read_bytes(path).decode("utf-8", "replace")


def converted(path: Path, folder: Path) -> Path:
    """Let hls4ml write the project of a configuration into a folder; return that of its C++.

    Raises UnreadableFile where hls4ml is not installed or refuses the configuration.
    """
    if find_spec(HLS4ML) is None:
        raise UnreadableFile(
            f"{path}: its project is not written yet (no folder 'firmware' beside it), and hls4ml, "
            f"which converts the model that it names, is not installed; run 'hls4ml convert -c "
            f"{path.name}' where it is, and give the folder that it writes"
        )
    try:
        with redirect_stdout(StringIO()):  # it prints how far it is
            model = import_module(HLS4ML).converters.convert_from_config(str(path))
            model.config.config["OutputDir"] = str(folder)
            model.write()
    except Exception as error:  # noqa: BLE001 (hls4ml has no base class of its own)
        raise UnreadableFile(f"{path}: hls4ml does not convert it: {error}") from None
    return folder / "firmware"
