"""Instructions of emitted C for a turn of each loop of its kernels, by core, in hundredths.

Least squares of the relative errors over random layers, whole, row by row and in strips, as QEMU counts
them; written by `python tests/benchmarks/fit_instructions.py fit SAMPLES --table FILE`.
"""

from fractions import Fraction

# fmt: off
# ruff: noqa: E501
_HUNDREDTHS = {
    "m4": {
        "Concatenation": {"rows": 24012, "written": 638},
        "Concatenation.real": {"places": 13605, "rows": 29433},
        "Conversion": {"places": 4039, "written": 3666},
        "Conversion.real": {"read": 12480},
        "Convolution": {"bends": 27647, "block rows": 2874, "blocks": 16142, "gathered": 87, "gathered rows": 2013, "gathers": 9614, "matrices": 4634, "places": 12921, "products": 146, "rows": 13911, "rows apart": 6400, "single filters": 7018, "single products": 461, "single rows": 1313, "singles": 13307, "tails": 431},
        "Convolution.real": {"bare blocks": 3692, "blocks": 4611, "filter rows": 22, "gathers": 20470, "places": 22439, "rows": 21694, "single rows": 8740, "tails": 968, "vectors": 1006, "words": 5160},
        "Depthwise": {"outputs": 2949, "outputs beside 4": 8437, "places": 12996, "rows": 20019, "rows of 4": 3574, "taps of 4": 1405},
        "Depthwise.real": {"outputs beside 4": 440, "outputs beside 8": 8838, "rows of 4": 3989, "taps of 4": 2457},
        "Elementwise.add": {"places": 11271, "read": 3334, "rows": 5047},
        "Elementwise.add.real": {"places": 56038, "rows": 8829},
        "FullyConnected.real": {"places": 21459, "single products": 393, "words": 7586},
        "GlobalPooling.real": {"places": 558202},
        "Pooling.average": {"outputs": 6474, "places": 17503, "products": 1066, "rows": 11283},
        "Pooling.average.real": {"outputs": 686, "places": 22221, "products": 636, "rows": 8809, "taps": 1615},
        "Pooling.max": {"places": 14288, "products": 798, "rows": 6474, "taps": 1830},
        "Pooling.max.real": {"places": 4267, "products": 977, "rows": 12092, "taps": 2845},
        "Reduction": {"places": 592566, "written": 7970},
        "Reshape": {"places": 3069, "read": 4834, "rows": 1532},
        "Softmax": {"read": 49715},
        "Softmax.real": {"read": 31455},
        "Transpose": {"places": 3370, "read": 6274},
        "firing": {"calls": 21289, "columns": 27927},
        "frame": {"firings": 18863, "firings among others": 19049, "groups": 37089, "stages seen": 10399},
        "other": {"read": 661, "written": 0, "places": 8424},
    },
    "m55": {
        "Concatenation": {"rows": 25787, "written": 603},
        "Concatenation.real": {"read": 619, "rows": 34835},
        "Conversion": {"places": 3424, "read": 2105},
        "Conversion.real": {"written": 1459},
        "Convolution": {"bare blocks": 2836, "bare runs": 2792, "bare vectors": 902, "bends": 48940, "blocks": 7052, "filter rows": 435, "gathered": 125, "gathered bare": 12, "gathered rows": 350, "gathers": 8658, "matrices": 2242, "places": 15191, "rows": 11672, "rows apart": 7158, "single filters": 3909, "single products": 507, "single rows": 1236, "singles": 16777, "vectors": 975},
        "Convolution.real": {"bare runs": 1685, "bare vectors": 523, "blocks": 3400, "filter rows": 203, "gathered": 1215, "gathered bare": 46, "gathers": 13196, "places": 27306, "rows": 21205, "single rows": 8051, "words": 1777},
        "Depthwise": {"places": 7351, "places beside 8": 18141, "products beside 8": 543, "rows": 22125, "rows of 8": 5452, "taps beside 8": 3957, "taps of 8": 1251},
        "Depthwise.real": {"outputs beside 8": 3947, "rows of 4": 3914, "taps beside 8": 2663, "taps of 4": 1224},
        "Elementwise.add": {"places": 17390, "read": 759, "rows": 7934},
        "Elementwise.add.real": {"places": 56108, "rows": 5308},
        "FullyConnected.real": {"places": 24368, "single products": 776, "singles": 48749, "words": 3598},
        "GlobalPooling.real": {"read": 971},
        "Pooling.average": {"outputs": 6036, "places": 16662, "products": 1060, "rows": 11361},
        "Pooling.average.real": {"outputs": 245, "places": 25508, "products": 627, "taps": 1778},
        "Pooling.max": {"places": 15831, "products": 698, "rows": 2784, "taps": 2068},
        "Pooling.max.real": {"outputs": 299, "products": 903, "rows": 15495, "taps": 4064},
        "Reduction": {"places": 477148, "written": 9379},
        "Reshape": {"places": 3188, "read": 5102, "rows": 1101},
        "Softmax": {"read": 52333},
        "Softmax.real": {"read": 26966},
        "Transpose": {"places": 2756, "read": 6711},
        "firing": {"calls": 24163, "columns": 31370},
        "frame": {"firings": 16216, "firings among others": 16693, "groups": 42859, "stages seen": 11725},
        "other": {"read": 695, "written": 0, "places": 7364},
    },
    "m0plus": {
        "Concatenation": {"places": 18772, "rows": 23404},
        "Concatenation.real": {"read": 902, "rows": 29037},
        "Conversion": {"rows": 281373, "written": 33335},
        "Conversion.real": {"read": 43392},
        "Convolution": {"bends": 386511, "block rows": 8205, "blocks": 56521, "filter rows": 8, "gathered": 535, "gathered bare": 2768, "gathers": 11865, "places": 20823, "products": 799, "rows": 14790, "rows apart": 27245, "single filters": 10641, "single products": 46, "singles": 27357},
        "Convolution.real": {"bare vectors": 166858, "bends": 3997876, "single filters": 270047, "tails": 57013, "words": 275954},
        "Depthwise": {"outputs": 10965, "outputs beside 4": 19569, "places": 16941, "rows": 23549, "rows of 4": 3021, "taps of 4": 3694},
        "Depthwise.real": {"outputs beside 4": 265959, "products": 1247, "taps of 4": 81790, "taps of 8": 11367},
        "Elementwise.add": {"places": 19328, "read": 11044},
        "Elementwise.add.real": {"places": 260589, "rows": 231528},
        "FullyConnected.real": {"places": 72622, "products": 17478, "single products": 21415, "singles": 918143, "tails": 134627},
        "GlobalPooling.real": {"read": 9242},
        "Pooling.average": {"outputs": 10054, "places": 16502, "products": 1467, "rows": 48516, "taps": 738},
        "Pooling.average.real": {"outputs": 24280, "products": 7842},
        "Pooling.max": {"outputs": 70, "places": 19291, "products": 1312, "rows": 10443, "taps": 2059},
        "Pooling.max.real": {"outputs": 2663, "places": 28017, "products": 4332, "rows": 6845},
        "Reduction": {"places": 1215732, "written": 32800},
        "Reshape": {"places": 643, "read": 21742},
        "Softmax": {"read": 150934},
        "Softmax.real": {"read": 434430},
        "Transpose": {"places": 8943, "read": 24974},
        "firing": {"calls": 45024, "columns": 62455},
        "frame": {"firings": 12234, "firings among others": 19708, "groups": 156150, "stages seen": 20894},
        "other": {"read": 119, "written": 0, "places": 26463},
    },
}
# fmt: on

INSTRUCTIONS = {
    core: {
        kernel: {loop: Fraction(number, 100) for loop, number in loops.items()}
        for kernel, loops in kernels.items()
    }
    for core, kernels in _HUNDREDTHS.items()
}
