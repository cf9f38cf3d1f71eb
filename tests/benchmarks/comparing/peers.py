"""Other tools, where they are installed, and how each is asked."""

import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

CAPACITY = 1_048_576  # bytes that MiniMalloc's problems have to fit into
EVALUATIONS = (2, 5)  # generations, and chromosomes of each; mms_ga takes 0.2 s for one


class Peer(NamedTuple):
    """A program and where it is; `place` is None where there is none."""

    name: str
    variable: str  # of the environment
    place: Path | None


def found_peers(options):
    """Every peer by its key, looked for in the options, the environment and the path."""
    return {
        "kiter": Peer("Kiter", "KITER_BIN", _program(options.kiter, "KITER_BIN", "kiter")),
        "sdf3": Peer("SDF3", "SDF3_BIN", _folder(options.sdf3, "SDF3_BIN", "sdf3analysis-sdf")),
        "minimalloc": Peer(
            "MiniMalloc",
            "MINIMALLOC_BIN",
            _program(options.minimalloc, "MINIMALLOC_BIN", "minimalloc"),
        ),
        "mms_ga": Peer("mms_ga", "MMS_GA", _folder(options.mms_ga, "MMS_GA", "run_mms_ga.py")),
    }


def _program(option, variable, name):
    given = option or os.environ.get(variable)
    if given is not None and Path(given).is_dir():
        given = str(Path(given) / name)
    found = shutil.which(given or name)
    return None if found is None else Path(found).resolve()


def _folder(option, variable, file):
    given = option or os.environ.get(variable)
    if given is None:
        beside = shutil.which(file)
        return None if beside is None else Path(beside).resolve().parent
    return Path(given).resolve() if (Path(given) / file).exists() else None


def of_throughput(peers, path):
    """How each peer is asked for the period of a graph."""
    return {
        "Kiter": (
            [peers["kiter"].place, "-f", path, "-a", "KPeriodicThroughput"],
            lambda text: "KPeriodic" in text,
        ),
        "SDF3": (_sdf3(peers, path, "throughput"), lambda text: "analysis time" in text),
    }


def of_front(peers, path):
    """How each peer is asked for the complete front of a graph."""
    return {
        "Kiter": (
            [peers["kiter"].place, "-f", path, "-a", "ThroughputBufferingDSE"],
            lambda text: re.search(r'^\d+;[^;\n]+;"[\d,]*"', text, re.MULTILINE) is not None,
        ),
        "SDF3": (_sdf3(peers, path, "buffersize"), lambda text: "storage" in text.lower()),
    }


def of_offsets(peers, path):
    """How MiniMalloc is asked for offsets within the capacity."""
    words = [f"--capacity={CAPACITY}", f"--input={path}", "--output=out.csv", "--timeout=60s"]
    return {"MiniMalloc": ([peers["minimalloc"].place, *words], lambda text: True)}


def of_reuse(peers, folder):
    """How mms_ga is asked to search for the memory of MobileNetV2."""
    home = peers["mms_ga"].place
    generations, population = EVALUATIONS
    search = {
        "epochs": generations, "population_start_size": population, "selection_percent": 66,
        "mutation_probability": 0.05, "mutation_percent": 5, "max_no_improvement_epochs": 50,
        "dp_by_parts_init_probability": 0.8, "data_token_size": 4, "verbose": False,
    }  # fmt: skip
    (folder / "search.json").write_text(json.dumps(search))
    application = {
        "app_name": "compared",
        "json_dnn_paths": [str(home / "data/json_dnn/mobilenetv2.json")] if home else [],
        "json_ga_conf_path": str(folder / "search.json"),
    }
    (folder / "application.json").write_text(json.dumps(application))
    words = ["-c", folder / "application.json", "-t", "1", "--silent"]
    script = None if home is None else home / "run_mms_ga.py"
    return {
        "mms_ga": (
            None if script is None else [sys.executable, script, *words],
            lambda text: "error" not in text,
        )
    }


def _sdf3(peers, path, algorithm):
    folder = peers["sdf3"].place
    if folder is None:
        return [None]
    kind = "sdf" if re.search(r'<sdf3[^>]*\stype="sdf"', path.read_text()) else "csdf"
    return [folder / f"sdf3analysis-{kind}", "--graph", path, "--algo", algorithm]
