"""The searches for offsets and orders as a C file and its header, which need no Python.

The kernels of planners/kernels are the only source of the searches. This module translates their Python
to C statement by statement, with the types that are declared for Cython. The kernels use a subset of
Python: integers, arrays of integers, classes of such fields, functions, `if`, `while` and `for` over a
range. Their callers in C are planners/arena/c/driver.c, as planners/arena/portfolio.py, and order.c, as
planners/order/search.py.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path

from csdf.errors import CsdfError, UnwritableFile

KERNELS = ("placement", "placement_search", "placement_ejection")
ORDER_KERNELS = ("order_states", "order_search")
HERE = Path(__file__).parent
TYPES = HERE.parent / "kernels" / "compiled"
HEADER, SOURCE = "csdf_arena.h", "csdf_arena.c"
BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.BitAnd: "&",
    ast.BitXor: "^",
    ast.Mod: "%",  # of numbers that are not negative
    ast.RShift: ">>",
}
COMPARED: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
C_TYPES = {"int64_t": "int64_t ", "bint": "int64_t ", "void": "void ", "int64_t[::1]": "Numbers "}


def library() -> dict[str, str]:
    """Return the text of each file of the library, by name."""
    parts = [(HERE / "c" / "begin.c").read_text()]
    parts += [_Kernel(name).translated() for name in KERNELS]
    parts.append((HERE / "c" / "driver.c").read_text())
    parts += [_Kernel(name).translated() for name in ORDER_KERNELS]
    parts.append((HERE / "c" / "order.c").read_text())
    return {HEADER: (HERE / "c" / HEADER).read_text(), SOURCE: "\n".join(parts)}


def write_library(folder: Path) -> list[Path]:
    """Write the files of the library into a folder, which is created if it does not exist; return them.

    Raises UnwritableFile.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in library().items():
            (folder / name).write_text(text)
    except OSError as error:
        raise UnwritableFile(f"{folder}: {error.strerror}") from None
    return [folder / HEADER, folder / SOURCE]


class _Kernel:
    """The syntax tree of a kernel, and the types that its .pxd file declares for Cython."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._module = import_module(f"planners.kernels.{name}")
        self._tree = ast.parse(Path(str(self._module.__file__)).read_text())
        declared = (TYPES / f"{name}.pxd").read_text()
        self._fields = {
            head: dict(_declared(body))
            for head, body in re.findall(r"cdef class (\w+):\n((?:    .*\n)+)", declared)
        }
        # By function: the type of its result, and the types of its arguments and local variables.
        self._functions: dict[str, tuple[str, dict[str, str], dict[str, str]]] = {}
        pattern = r"(?:@cython\.locals\(([^)]*)\)\n)?cp?def (\w+) (\w+)\(([^)]*)\)"
        for local, result, function, arguments in re.findall(pattern, declared):
            kinds = dict(re.findall(r"(\w+)=([\w.]+)", local))
            columns = (
                words.strip().rsplit(" ", 1)
                for words in arguments.split(",")
                if words.strip() not in ("", "self")
            )
            self._functions[function] = (
                result,
                {name: kind for kind, name in columns},
                {name: kind.removeprefix("cython.") for name, kind in kinds.items()},
            )

    def translated(self) -> str:
        """Return the kernel in C."""
        numbers: list[str] = []
        classes: list[str] = []
        heads: list[str] = []
        bodies: list[str] = []
        for statement in self._tree.body:
            if isinstance(statement, ast.Assign):
                (target,) = statement.targets
                name = ast.unparse(target)
                numbers.append(
                    f"#define {self._prefixed(name)} INT64_C({vars(self._module)[name]})"
                )
            elif isinstance(statement, ast.ClassDef):
                classes += self._class(statement)
            for owner, function in _functions_of(statement):
                result, arguments, local = self._functions[function.name]
                name = self._prefixed(function.name)
                if owner:
                    name, arguments = f"{owner}_{function.name}", {"self": owner} | arguments
                head = f"static {_c(result)}{name}({_columns(arguments)})"
                heads.append(f"{head};")
                bodies += ["", head, *self._body(function, local)]
                if result == "int64_t" and not isinstance(function.body[-1], ast.Return):
                    bodies[-1:] = ["    return 0;", "}"]
        return "\n".join([*numbers, "", *classes, *heads, *bodies, ""])

    def _prefixed(self, name: str) -> str:
        return f"{self._name}_{name}"

    def _class(self, node: ast.ClassDef) -> Iterator[str]:
        """Yield a struct, and the function that initialises it."""
        fields = self._fields[node.name]
        yield f"typedef struct {node.name} {{"
        yield from (f"    {_c(kind)}{name};" for name, kind in fields.items())
        yield f"}} {node.name};\n"
        # The types of the arguments of `__init__` are those of the fields that they are stored in.
        begin = next(part for part in node.body if isinstance(part, ast.FunctionDef))
        stored = {
            part.value.id: part.targets[0].attr
            for part in begin.body
            if isinstance(part, ast.Assign) and isinstance(part.value, ast.Name)
            and isinstance(part.targets[0], ast.Attribute)
        }  # fmt: skip
        arguments = [part.arg for part in begin.args.args if part.arg not in ("self", "array")]
        kinds = {name: fields[stored[name]] if name in stored else "int64_t" for name in arguments}
        memory = {"memory": "Memory"} if len(begin.args.args) > len(arguments) + 1 else {}
        yield f"static void {node.name}_begin({_columns({'self': node.name} | kinds | memory)})"
        lists = {
            part.targets[0].id: "int64_t[::1]"
            for part in begin.body
            if isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Name)
            and _is_list(part.value)
        }  # fmt: skip
        yield from self._body(begin, lists)
        yield ""

    def _body(self, function: ast.FunctionDef, kinds: dict[str, str]) -> list[str]:
        arguments = {part.arg for part in function.args.args}
        local = dict.fromkeys(
            part.id
            for part in ast.walk(function)
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
            and part.id not in {*arguments, "_"}
        )  # fmt: skip
        lines = ["{"]
        lines += [f"    {_c(kinds.get(name, 'int64_t'))}{name};" for name in local]
        for statement in function.body[1:] if ast.get_docstring(function) else function.body:
            lines += self._statement(statement, "    ")
        return [*lines, "}"]

    def _statement(self, node: ast.stmt, margin: str) -> Iterator[str]:
        deeper = margin + "    "
        if isinstance(node, ast.Assign):
            (target,) = node.targets
            yield f"{margin}{self._value(target)} = {self._value(node.value)};"
        elif isinstance(node, ast.AugAssign):
            both = ast.BinOp(node.target, node.op, node.value)
            yield f"{margin}{self._value(node.target)} = {self._value(both)};"
        elif isinstance(node, ast.Return):
            yield f"{margin}return{f' {self._value(node.value)}' if node.value else ''};"
        elif isinstance(node, ast.Expr):
            yield f"{margin}{self._value(node.value)};"
        elif isinstance(node, ast.If):
            yield f"{margin}if {self._condition(node.test)} {{"
            yield from self._block(node.body, margin)
            if node.orelse:
                yield f"{margin}}} else {{"
                yield from self._block(node.orelse, margin)
            yield f"{margin}}}"
        elif isinstance(node, ast.While):
            yield f"{margin}while {self._condition(node.test)} {{"
            yield from self._block(node.body, margin)
            yield f"{margin}}}"
        elif isinstance(node, ast.For) and isinstance(node.iter, ast.Call):
            first, last, step = _range(node.iter)
            name, sign = self._value(node.target), "<" if step > 0 else ">"
            at, end = f"{name}_at", f"{name}_end"
            yield f"{margin}for (int64_t {at} = {self._value(first)}, {end} = {self._value(last)};"
            yield f"{deeper} {at} {sign} {end}; {at} += {step}) {{"
            if name != "_":
                yield f"{deeper}{name} = {at};"
            yield from self._block(node.body, margin)
            yield f"{margin}}}"
        elif isinstance(node, ast.Break | ast.Continue):
            yield f"{margin}{ast.unparse(node)};"
        else:
            raise CsdfError(f"{self._name}: line {node.lineno} has no translation into C")

    def _block(self, body: Sequence[ast.stmt], margin: str) -> Iterator[str]:
        for statement in body:
            yield from self._statement(statement, margin + "    ")

    def _condition(self, node: ast.expr) -> str:
        """Return an expression in a single pair of brackets: Clang warns of two pairs."""
        text = self._value(node)
        has_brackets = isinstance(node, ast.Compare | ast.BoolOp | ast.UnaryOp)
        return text if has_brackets else f"({text})"

    def _value(self, node: ast.expr) -> str:
        """Return an expression with brackets around each operation."""
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return str(int(node.value))
        if isinstance(node, ast.Name):
            is_number = node.id.isupper() and node.id in vars(self._module)
            return self._prefixed(node.id) if is_number else node.id
        if isinstance(node, ast.Attribute):
            return f"{self._value(node.value)}->{node.attr}"
        if isinstance(node, ast.Subscript):
            return f"{self._value(node.value)}.at[{self._value(node.slice)}]"
        if isinstance(node, ast.UnaryOp):
            return f"({'!' if isinstance(node.op, ast.Not) else '-'}{self._value(node.operand)})"
        if isinstance(node, ast.BoolOp):
            sign = " && " if isinstance(node.op, ast.And) else " || "
            return f"({sign.join(map(self._value, node.values))})"
        if isinstance(node, ast.Compare):
            (test,), (compared,) = node.ops, node.comparators
            return f"({self._value(node.left)} {COMPARED[type(test)]} {self._value(compared)})"
        if isinstance(node, ast.IfExp):
            values = map(self._value, (node.test, node.body, node.orelse))
            return "({} ? {} : {})".format(*values)
        if isinstance(node, ast.BinOp):
            if _is_list(node):
                return f"zeros(memory, {self._value(node.right)})"
            left, right = self._value(node.left), self._value(node.right)
            if isinstance(node.op, ast.FloorDiv):
                return f"floor_of({left}, {right})"
            return f"({left} {BINARY[type(node.op)]} {right})"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return self._call(node.func.id, node.args)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            values = map(self._value, (node.func.value, *node.args))
            return f"{_owners()[node.func.attr]}_{node.func.attr}({', '.join(values)})"
        raise CsdfError(f"{self._name}: line {node.lineno} has no translation into C")

    def _call(self, name: str, given: Sequence[ast.expr]) -> str:
        values = [self._value(argument) for argument in given]
        if name == "len":
            return f"{values[0]}.count"
        if name in ("min", "max"):
            if len(values) > 2:
                return self._call(name, given[:-1]).join((f"{name}_of(", f", {values[-1]})"))
            return f"{name}_of({values[0]}, {values[1]})"
        if name == "array":
            return values[0]
        if name == "range":
            return f"counted(memory, {values[0]})"
        return f"{self._prefixed(name)}({', '.join(values)})"


def _functions_of(statement: ast.stmt) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield the class ("" without a class) and the function of each function; without `__init__`."""
    if isinstance(statement, ast.FunctionDef):
        yield "", statement
    if isinstance(statement, ast.ClassDef):
        methods = [part for part in statement.body if isinstance(part, ast.FunctionDef)]
        yield from ((statement.name, method) for method in methods[1:])


@cache
def _owners() -> dict[str, str]:
    """Return the class of each method of the kernels; their names are unique."""
    paths = [HERE.parent / "kernels" / f"{name}.py" for name in ORDER_KERNELS]
    statements = [statement for path in paths for statement in ast.parse(path.read_text()).body]
    rows = [row for statement in statements for row in _functions_of(statement) if row[0]]
    return {method.name: owner for owner, method in rows}


def _declared(body: str) -> Iterator[tuple[str, str]]:
    """Yield name and type of the fields in the lines of a class."""
    for kind, names in re.findall(r"cdef (?:readonly )?([\w\[\]:]+) (.*)", body):
        yield from ((name.strip(), kind) for name in names.split(","))


def _c(kind: str) -> str:
    """Return a type in C, to be followed by a name; objects are pointers."""
    return C_TYPES.get(kind, f"{kind} *")


def _columns(kinds: dict[str, str]) -> str:
    return ", ".join(f"{_c(kind)}{name}" for name, kind in kinds.items())


def _is_list(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.left, ast.List)


def _range(call: ast.Call) -> tuple[ast.expr, ast.expr, int]:
    """Return the begin, the end and the step of a loop."""
    if len(call.args) == 1:
        return ast.Constant(0), call.args[0], 1
    step = ast.literal_eval(call.args[2]) if len(call.args) > 2 else 1
    return call.args[0], call.args[1], int(step)
