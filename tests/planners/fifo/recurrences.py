"""The recurrences of FINN's RTL layers as they were read from the Verilog, inner registers and all.

R is a word read, W a word written; L, F, S, T, P and C are registers between them. All numbers count
over all frames. What is written here is simulated as it stands; the project's clusters have fewer
series.
"""

from itertools import product


def padding(inner):
    """inner: for each step whether it takes a word."""
    steps = [step for step, takes in enumerate(inner) if takes]
    written, read = len(inner), len(steps)
    place = {step: number for number, step in enumerate(steps)}

    def step_of(word):
        return word // read * written + steps[word % read]

    def moved(k, t):
        yield t("L", k - 1) + 1
        yield t("W", k - 1)
        if inner[k % written]:
            yield t("R", k // written * read + place[k % written])

    def write(k, t):
        yield t("W", k - 1) + 1
        yield t("L", k) + 1

    def take(i, t):
        yield t("R", i - 1) + 1
        if i:
            yield t("L", step_of(i - 1)) + 1

    return {"R": take, "L": moved, "W": write}


def fetched_words(image, kernel, stride, dilation, folds, *, depthwise):
    """The word of each fetch and the first word still needed after it, by counting loops."""
    (height, width), (rows, columns) = image, kernel
    made = [
        (size - (one - 1) * far - 1) // step + 1
        for size, one, step, far in zip(image, kernel, stride, dilation, strict=True)
    ]
    span = ((rows - 1) * dilation[0] * width + (columns - 1) * dilation[1] + 1) * folds
    windows = list(product(range(made[0]), range(made[1])))
    starts = [(y * stride[0] * width + x * stride[1]) * folds for y, x in windows]
    cur, first = [], []
    for number, start in enumerate(starts):
        is_last = number == len(starts) - 1
        following = start + span - 1 if is_last else starts[number + 1]
        pixels = list(product(range(rows), range(columns)))
        if depthwise and folds > 1:
            order = [(fold, pixel) for fold in range(folds) for pixel in pixels]
        else:
            order = [(fold, pixel) for pixel in pixels for fold in range(folds)]
        for fold, (ky, kx) in order:
            cur.append(start + (ky * dilation[0] * width + kx * dilation[1]) * folds + fold)
            if depthwise and folds > 1:
                first.append(following if fold == folds - 1 else start + fold + 1)
            else:
                first.append(following)
    size = rows * columns
    room = span + max(0, stride[1] - 1 - size) * folds
    room += max(0, (stride[0] - 1) * width - size) * folds
    return cur, first, room, height * width * folds, made


def sliding_window(cur, first, room, read):
    """The default style, with its circular buffer."""
    written = len(cur)

    def allowed(j):
        for q in range(written):
            if j - room < (first[q - 1] if q else 0) and j - room < cur[q]:
                return q
        if j - room < 0:
            return 0
        return written

    fetches = [allowed(j) for j in range(read)]

    def last(frame, t):
        return max(t("W", frame * written - 1), t("R", frame * read - 1))

    def fetch(k, t):
        frame, own = divmod(k, written)
        yield t("F", k - 1) + 1
        yield t("R", frame * read + cur[own]) + 1
        yield t("W", k - 1)
        if own == 0:
            yield last(frame, t) + 1

    def write(k, t):
        yield t("W", k - 1) + 1
        yield t("F", k) + 1

    def take(j, t):
        frame, own = divmod(j, read)
        yield t("R", j - 1) + 1
        if fetches[own]:
            yield t("F", frame * written + fetches[own] - 1) + 1
        if own == 0:
            yield last(frame, t) + 1

    return {"R": take, "F": fetch, "W": write}


def parallel_window(cur, read):
    """The parallel style: a window in one word."""
    written = len(cur)
    stops = {word + 1: number for number, word in enumerate(cur)}

    def write(k, t):
        frame, own = divmod(k, written)
        yield t("W", k - 1) + 1
        yield t("R", frame * read + cur[own]) + 1

    def take(j, t):
        frame, own = divmod(j, read)
        yield t("R", j - 1) + 1
        if own in stops:
            yield t("W", frame * written + stops[own])
        if own == 0:
            yield max(t("W", frame * written - 1), t("R", frame * read - 1)) + 1

    return {"R": take, "W": write}


def widening(ratio):
    def gather(i, t):
        yield t("S", i - 1) + 1
        yield t("R", i)
        if i % ratio == 0:
            yield t("W", i // ratio - 1)

    def take(i, t):
        yield t("R", i - 1) + 1
        yield t("S", i - 1) + 1

    def write(j, t):
        yield t("W", j - 1) + 1
        yield t("S", j * ratio + ratio - 1) + 1

    return {"R": take, "S": gather, "W": write}


def narrowing(ratio, *, with_clause):
    """with_clause: the one that is no maximum, for a word read later than it might be."""

    def shift(k, t):
        yield t("T", k - 1) + 1
        yield t("R", k // ratio) + 1
        yield t("W", k - 2) + 1

    def write(k, t):
        yield t("W", k - 1) + 1
        yield t("T", k) + 1

    def take(i, t):
        yield t("R", i - 1) + 1
        yield t("T", i * ratio - 1)
        if with_clause and i and t("R", i - 1) + 1 > t("T", i * ratio - 1):
            yield t("W", i * ratio - 2) + 1

    return {"R": take, "T": shift, "W": write}


def thresholding(stages):
    def take(i, t):
        yield t("R", i - 1) + 1
        yield t("W", i - stages - 3) + 1

    def write(i, t):
        yield t("W", i - 1) + 1
        yield t("R", i) + stages + 2

    return {"R": take, "W": write}


def matrix_vector(synapse, neuron, core):
    """An MVAU that replays its input, and whose output is never refused."""
    room = 2
    while room < synapse:
        room *= 2

    def item(m):
        return m // (synapse * neuron) * synapse + m % synapse

    def prefetch(m, t):
        yield t("P", m - 1) + 1
        yield t("R", item(m)) + 1
        yield t("C", m - 1)

    def compute(m, t):
        yield t("C", m - 1) + 1
        yield t("P", m) + 1

    def take(i, t):
        yield t("R", i - 1) + 1
        old = i - room
        if old >= 0:
            vector, word = divmod(old, synapse)
            yield t("P", (vector * neuron + neuron - 1) * synapse + word) + 1

    def write(j, t):
        yield t("W", j - 1) + 1
        yield t("C", j * synapse + synapse - 1) + core + 2

    return {"R": take, "P": prefetch, "C": compute, "W": write}
