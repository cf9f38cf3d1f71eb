"""Instructions of emitted C for a turn of each loop of its kernels, by core, in hundredths.

Least squares of the relative errors over random layers, whole, row by row and in strips, as QEMU counts
them; written by `python -m tests.benchmarks.fit_instructions fit`.
"""

from fractions import Fraction

# fmt: off
# ruff: noqa: E501
_HUNDREDTHS = {
    "m4": {
        "Concatenation": {"rows": 23320, "written": 640},
        "Concatenation.real": {"read": 679, "rows": 29299},
        "Conversion": {"rows": 129179, "written": 3657},
        "Conversion.real": {"written": 12332},
        "Convolution": {"bends": 29124, "block rows": 2986, "blocks": 15892, "gathered": 64, "gathered rows": 2161, "gathers": 9011, "matrices": 4096, "places": 13019, "products": 146, "rows": 13410, "rows apart": 6226, "single filters": 7323, "single products": 460, "single rows": 1371, "singles": 12821, "tails": 467},
        "Convolution.real": {"bare blocks": 6346, "blocks": 4412, "gathers": 22217, "places": 22531, "rows": 20667, "single rows": 8878, "singles": 40, "tails": 1004, "vectors": 1276, "words": 5080},
        "Depthwise": {"outputs": 2928, "outputs beside 4": 8688, "places": 12566, "rows": 19577, "rows of 4": 3595, "taps of 4": 1434},
        "Depthwise.real": {"outputs": 399, "outputs beside 8": 8797, "rows of 4": 3407, "taps of 4": 2436},
        "Elementwise.add": {"places": 11287, "read": 3337, "rows": 4468},
        "Elementwise.add.real": {"places": 55964, "rows": 8056},
        "FullyConnected.real": {"places": 19909, "rows apart": 7059, "single products": 1057, "singles": 71050, "tails": 1951, "vectors": 14223, "words": 1947},
        "GlobalPooling.real": {"places": 554441},
        "Pooling.average": {"outputs": 6521, "places": 16688, "products": 1062, "rows": 11835},
        "Pooling.average.real": {"outputs": 652, "places": 22190, "products": 640, "rows": 11745, "taps": 1525},
        "Pooling.max": {"places": 14541, "products": 799, "rows": 5674, "taps": 1782},
        "Pooling.max.real": {"places": 4146, "products": 977, "rows": 12038, "taps": 2856},
        "Reduction": {"places": 592177, "written": 7771},
        "Reshape": {"places": 3068, "read": 4839, "rows": 1086},
        "Softmax": {"read": 49562},
        "Softmax.real": {"read": 31367},
        "Transpose": {"places": 2882, "read": 6306},
        "firing": {"calls": 21877, "columns": 28761},
        "frame": {"firings": 12097, "firings among others": 25509, "groups": 70928, "stages seen": 10456},
        "other": {"read": 661, "written": 0, "places": 8424, "operations": 606},
    },
    "m55": {
        "Concatenation": {"places": 12168, "rows": 24562},
        "Concatenation.real": {"read": 603, "rows": 36792},
        "Conversion": {"read": 2099, "rows": 109397},
        "Conversion.real": {"written": 1329},
        "Convolution": {"bare blocks": 3166, "bare runs": 2636, "bare vectors": 927, "bends": 53872, "blocks": 6858, "filter rows": 455, "gathered": 125, "gathered bare": 17, "gathered rows": 279, "gathers": 8653, "matrices": 1551, "places": 15420, "rows": 11252, "rows apart": 7104, "single filters": 4314, "single products": 505, "single rows": 1251, "singles": 16071, "vectors": 955},
        "Convolution.real": {"bare blocks": 6505, "bare runs": 603, "bare vectors": 358, "blocks": 3680, "gathered rows": 5420, "gathers": 18091, "places": 26826, "rows": 20314, "single products": 1415, "vectors": 810, "words": 1597},
        "Depthwise": {"places": 7385, "places beside 8": 17677, "products beside 8": 606, "rows": 21712, "rows of 8": 5445, "taps beside 8": 3723, "taps of 8": 1251},
        "Depthwise.real": {"outputs beside 8": 4130, "rows of 4": 3900, "taps beside 8": 2398, "taps of 4": 1216},
        "Elementwise.add": {"places": 17412, "read": 758, "rows": 7545},
        "Elementwise.add.real": {"places": 55606, "rows": 5839},
        "FullyConnected.real": {"block rows": 1269, "blocks": 1655, "places": 25519, "single products": 1460, "singles": 100433, "vectors": 7043},
        "GlobalPooling.real": {"read": 965},
        "Pooling.average": {"outputs": 6075, "places": 16077, "products": 1056, "rows": 11491},
        "Pooling.average.real": {"outputs": 248, "places": 25297, "products": 623, "rows": 1288, "taps": 1782},
        "Pooling.max": {"places": 16194, "products": 698, "rows": 2003, "taps": 1996},
        "Pooling.max.real": {"outputs": 392, "products": 881, "rows": 14765, "taps": 4092},
        "Reduction": {"places": 475699, "written": 9278},
        "Reshape": {"places": 3191, "read": 5102, "rows": 689},
        "Softmax": {"read": 52197},
        "Softmax.real": {"read": 26890},
        "Transpose": {"places": 2292, "read": 6728},
        "firing": {"calls": 24677, "columns": 32151},
        "frame": {"firings": 12687, "firings among others": 19919, "groups": 65763, "stages seen": 11789},
        "other": {"read": 695, "written": 0, "places": 7364, "operations": 505},
    },
    "m0plus": {
        "Concatenation": {"places": 18772, "rows": 23411},
        "Concatenation.real": {"read": 902, "rows": 29048},
        "Conversion": {"rows": 281403, "written": 33334},
        "Conversion.real": {"read": 43396},
        "Convolution": {"bends": 386445, "block rows": 8205, "blocks": 56517, "filter rows": 8, "gathered": 534, "gathered bare": 2769, "gathers": 11864, "places": 20821, "products": 799, "rows": 14794, "rows apart": 27251, "single filters": 10641, "single products": 46, "singles": 27358},
        "Convolution.real": {"bare vectors": 166871, "bends": 4015130, "single filters": 267855, "tails": 57010, "words": 275859},
        "Depthwise": {"outputs": 10963, "outputs beside 4": 19574, "places": 16932, "rows": 23550, "rows of 4": 3025, "taps of 4": 3694},
        "Depthwise.real": {"outputs beside 4": 265293, "products": 1329, "taps of 4": 81470, "taps of 8": 11350},
        "Elementwise.add": {"places": 19329, "read": 11044},
        "Elementwise.add.real": {"places": 260725, "rows": 230708},
        "FullyConnected.real": {"places": 79278, "products": 17267, "rows apart": 267292, "single products": 21571, "singles": 527304, "tails": 149062},
        "GlobalPooling.real": {"read": 9242},
        "Pooling.average": {"outputs": 10054, "places": 16484, "products": 1467, "rows": 48541, "taps": 739},
        "Pooling.average.real": {"outputs": 24280, "products": 7842},
        "Pooling.max": {"outputs": 70, "places": 19293, "products": 1312, "rows": 10454, "taps": 2058},
        "Pooling.max.real": {"outputs": 2667, "places": 28040, "products": 4331, "rows": 6781},
        "Reduction": {"places": 1215991, "written": 32790},
        "Reshape": {"places": 644, "read": 21742},
        "Softmax": {"read": 150937},
        "Softmax.real": {"read": 434428},
        "Transpose": {"places": 8933, "read": 24975},
        "firing": {"calls": 45007, "columns": 62452},
        "frame": {"firings": 12008, "firings among others": 19930, "groups": 157016, "stages seen": 20895},
        "other": {"read": 119, "written": 0, "places": 26463, "operations": 845},
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
