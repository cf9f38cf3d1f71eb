"""Clocks, as a test: only the stop looks at one to end work."""

import ast

import pytest

from tests.test_architecture import CLEAN, ROOT, module_name, modules, planted

STOPS = ("csdf.time_limit",)  # what may look at a clock to find out whether work must end
CLOCKS = ("time", "monotonic", "perf_counter", "process_time", "thread_time")  # each also with _ns
TIMERS = ("setitimer", "alarm", "settimeout")


def clock_violations(path, root):
    """The lines at which the module reads a clock for a budget; printed durations are no budget.

    A reading, and what is computed of it, may be subtracted and shown. Compared with anything, or
    added to anything, it is a budget; so is every timer.
    """
    module = module_name(path, root)
    if module in STOPS:
        return []
    text = path.read_text()
    if not any(name in text for name in (*CLOCKS[1:], *TIMERS, "time.time")):
        return []
    tree = ast.parse(text)
    scopes = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    lines = {line for scope in (tree, *scopes) for line in budget_lines(scope)}
    return [f"{module}, line {line}: a clock is read for a budget; take a Stop" for line in lines]


def budget_lines(scope):
    """The lines of a function, and of those in it, at which a reading of a clock decides."""
    within = scope.body if isinstance(scope, ast.Module) else [scope]
    nodes = [
        node
        for statement in within
        if not (isinstance(scope, ast.Module) and isinstance(statement, ast.FunctionDef))
        for node in ast.walk(statement)
    ]
    read = set()  # names of readings
    for _ in range(len(nodes)):
        known = len(read)
        for node in nodes:
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr):
                if node.value is not None and has_reading(node.value, read):
                    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                    read |= {last_name(target) for target in targets}
        if len(read) == known:
            break
    for node in nodes:
        decides = isinstance(node, ast.Compare) or (
            isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)
        )
        if (decides and has_reading(node, read)) or last_name(node) in TIMERS:
            yield node.lineno


def has_reading(node, read):
    """Whether a clock is read within the expression, or a name stands there for what was read."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call) and is_clock(inner.func):
            return True
        if isinstance(inner, ast.Name | ast.Attribute) and last_name(inner) in read:
            return True
    return False


def is_clock(function):
    named = (last_name(function) or "").removesuffix("_ns")
    is_of_time = isinstance(function, ast.Attribute) and last_name(function.value) == "time"
    return named in CLOCKS[1:] or (named == "time" and is_of_time)


def last_name(node):
    """The last part of a name or an attribute; None for other nodes."""
    return getattr(node, "id", None) or getattr(node, "attr", None)


@pytest.mark.parametrize("path", modules(ROOT), ids=lambda path: module_name(path, ROOT))
def test_only_the_stop_looks_at_a_clock_to_end_work(path):
    assert clock_violations(path, ROOT) == []


@pytest.mark.parametrize(
    "text",
    [
        "def f(b, budget):\n    return time.monotonic() - b > budget",
        "def f(b):\n    end = time.perf_counter() + b\n    while now() < end: ...",
        "def f(b):\n    now = perf_counter()\n    taken = now - b\n    return taken < 5",
        "class Budget:\n    def __init__(self, s):\n        self._end = s + process_time_ns()",
        "def f(s):\n    begin = time.time()\n    return lambda: time.time() > begin",
        "def f(s):\n    signal.setitimer(signal.ITIMER_REAL, s)",
    ],
)
def test_a_planted_budget_is_found(tmp_path, text):
    planted(tmp_path, CLEAN)
    path = tmp_path / "planners/stripes/search.py"
    path.write_text(text)
    assert any("take a Stop" in line for line in clock_violations(path, tmp_path))
    stop = tmp_path / "csdf/time_limit.py"
    stop.write_text(text)
    assert clock_violations(stop, tmp_path) == []


def test_a_printed_duration_is_no_budget(tmp_path):
    planted(tmp_path, CLEAN)
    path = tmp_path / "planners/stripes/search.py"
    path.write_text(
        "def f(work, seconds):\n"
        "    begin = time.perf_counter()\n"
        "    work()\n"
        "    print(f'{(time.perf_counter() - begin) * 1000:.0f} ms')\n"
        "def g(seconds):\n"
        "    return seconds > 1\n"
    )
    assert clock_violations(path, tmp_path) == []
