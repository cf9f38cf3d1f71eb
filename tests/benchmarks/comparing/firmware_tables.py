"""Tables of what libraries and other runtimes take: RAM, flash, instructions, time."""

from math import prod

from tests.benchmarks.comparing.firmware import TARGETS

DIRECT = {  # thousand instructions of the same layers as calls of CMSIS-NN, -O2; on the M4, on the M55
    "kws_int8": (7_696, 1_812),
    "ic_resnet8_int8": (29_860, 4_909),
    "person_detect_int8": (22_921, 6_499),
    "vww_96_int8": (24_094, 6_550),
    "str_ww_ref_model": (2_225, 405),
    "ad01_int8": (580, 283),
}
WAYS = {  # in this order; what stands over their columns
    "csdf, layer by layer": "layer by layer",
    "csdf, row by row": "row by row",
    "csdf, least": "least",
    "csdf with CMSIS-NN, layer by layer": "CMSIS-NN, layer by layer",
    "csdf with CMSIS-NN, row by row": "CMSIS-NN, row by row",
    "direct calls": "direct calls",
    "TFLM, reference": "TFLM",
    "tflite-micro": "TFLM",
    "TFLM, CMSIS-NN": "TFLM, CMSIS-NN",
    "onnx2c": "onnx2c",
    "XNNPACK": "XNNPACK",
}
BESIDE = ("direct calls", "TFLM, CMSIS-NN", "TFLM, reference", "tflite-micro", "onnx2c")


def tables(results):
    """The tables of all networks. results: by network and way, what was measured; None: absent."""
    parts = []
    for title, cells in (
        ("RAM: arena + state + stack, bytes, the larger of both cores", _ram),
        ("flash on the Cortex-M4: code and tables + parameters, bytes", _flash),
        *((f"thousand instructions, {target}", _counts(target)) for target in TARGETS),
        ("time here, ms", _time),
    ):
        parts += [f"{title}\n", *_table(results, cells), ""]
    away = [
        f"{network} {found['XNNPACK']['away']:g}"
        for network, found in results.items()
        if found.get("XNNPACK")
    ]
    shares = [
        f"{network}, {WAYS[way]} {measured['share']:.0%}"
        for network, found in results.items()
        for way, measured in _measured(found, "share").items()
    ]
    parts.append(f"outputs of XNNPACK beside the golden ones, at most: {', '.join(away)}")
    parts.append(f"multiply-accumulates by CMSIS-NN: {', '.join(shares)}")
    return "\n".join(parts)


def _table(results, cells):
    """Rows of networks, columns of ways, and the geometric means beside other ways."""
    found = {network: cells(network, ways) for network, ways in results.items()}
    ways = [way for way in WAYS if any(way in each for each in found.values())]
    yield _row("network", *map(WAYS.get, ways))
    yield "|---" * (len(ways) + 1) + "|"
    for network, each in found.items():
        yield _row(network, *(each[way][0] if way in each else "-" for way in ways))
    for other in (one for one in BESIDE if one in ways):
        yield _row(
            f"mean against {WAYS[other]}", *(_mean(found.values(), way, other) for way in ways)
        )


def _row(*cells):
    return f"| {' | '.join(cells)} |"


def _mean(found, way, other):
    """The geometric mean of a way beside another, over the networks that have both."""
    ratios = [each[way][1] / each[other][1] for each in found if way in each and other in each]
    return f"{prod(ratios) ** (1 / len(ratios)):.2f} ({len(ratios)})" if ratios else "-"


def _measured(ways, key):
    return {way: found for way, found in ways.items() if found and key in found}


def _ram(_network, ways):
    return {
        way: _sum(found["arena"], max(found["state"]), max(found["stack"]))
        for way, found in _measured(ways, "arena").items()
    }


def _flash(_network, ways):
    return {
        way: _sum(found["code"], found["parameters"])
        for way, found in _measured(ways, "code").items()
    }


def _sum(*parts):
    return " + ".join(f"{one:,}" for one in parts if one), sum(parts)


def _counts(target):
    def cells(network, ways):
        counts = {way: found[target] for way, found in _measured(ways, target).items()}
        if network in DIRECT:
            counts["direct calls"] = DIRECT[network][TARGETS.index(target)]
        return {way: (f"{count:,}", max(count, 1)) for way, count in counts.items()}

    return cells


def _time(_network, ways):
    return {
        way: (f"{found['here']:.2f}", max(found["here"], 1e-3))
        for way, found in _measured(ways, "here").items()
    }
