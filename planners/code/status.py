"""Status codes of the functions of a library, and the checks before each: pointers, sizes, frames.

NAME_init is an inline function of the header: it passes the size of the state and a checksum of the
header and the weights to NAME_init_checked, which refuses a library that was compiled with another
header. The state keeps the checksum, so that functions refuse the state of another library, or an
uninitialised state. A frame is in progress while the group of the state is below the number of groups:
until its end or NAME_reset, only the function that continues the frame accepts the state.
With -DNAME_UNCHECKED nothing is checked, and the functions succeed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from textwrap import indent

CHECKSUM = "@header@"  # in the text of a header, before it is known


def with_checksum(header: str, weights: str) -> str:
    """Return a header whose macro NAME_HEADER is a checksum of it and of the weights."""
    digest = hashlib.sha256((header + weights).encode()).hexdigest()
    number = int(digest[:8], 16) or 1  # zero is an uninitialised state
    return header.replace(CHECKSUM, f"0x{number:08X}U")


STATUSES = {  # with their numbers, and what they mean
    "OK": (0, "the call has succeeded"),
    "DONE": (1, "a frame is complete, and its outputs are valid"),
    "NULL_POINTER": (-1, "a pointer is NULL"),
    "TOO_SMALL": (-2, "a memory has fewer bytes than it needs"),
    "MISALIGNED": (-3, "a memory is not aligned to its elements"),
    "WRONG_STATE": (-4, "the state is not of this library, or {name}_init was not called"),
    "WRONG_HEADER": (-5, "the library was compiled with another header"),
    "WRONG_NUMBER": (-6, "no input or output has this number, or this size"),
    "BUSY": (-7, "a frame is in progress"),
    "NO_FRAME": (-8, "no frame is in progress"),
    "CORRUPT": (-9, "a saved state has changed since it was saved"),
}


def status_declared(name: str, functions: str) -> str:
    """Return the type of the status codes of a library, and the checksum of the header.

    functions: C of the library; the type has only the codes that these functions mention.
    """
    capitals, words = name.upper(), set(re.findall(r"\w+", functions))
    returned = [status for status in STATUSES if f"{capitals}_{status}" in words]
    heads = [f"{capitals}_{status} = {STATUSES[status][0]}," for status in returned]
    heads[-1] = heads[-1].removesuffix(",")
    width = max(map(len, heads))
    lines = "".join(
        f"    {head:<{width}} /* {STATUSES[status][1].format(name=name)} */\n"
        for head, status in zip(heads, returned, strict=True)
    )
    return f"""/* Status of a call. After an error, below zero, nothing was computed.
   Compiled with -D{capitals}_UNCHECKED the library checks nothing: errors are undefined behaviour. */
typedef enum {{
{lines}}} {name}_status;

/* Checksum of this header and the weights: identifies the library in a state. */
#define {capitals}_HEADER {CHECKSUM}"""


def _parameters(element: str, memories: Sequence[str]) -> str:
    """Return the parameters of NAME_init for memories: addresses and sizes in bytes."""
    return ", ".join(f"{element} *{memory}, size_t {memory}_bytes" for memory in memories)


def init_declared(name: str, memories: Sequence[str]) -> str:
    """Return C that declares NAME_init, without its comment."""
    arguments = ", ".join(f"{memory}, {memory}_bytes" for memory in memories)
    parameters = _parameters(f"{name}_element", memories)
    checked = f"{parameters}, size_t state_bytes, uint32_t header"
    return f"""{name}_status {name}_init_checked({name}_state *state, {checked});
static inline {name}_status {name}_init({name}_state *state, {parameters})
{{
    return {name}_init_checked(state, {arguments}, sizeof *state, {name.upper()}_HEADER);
}}"""


def checks_defined(name: str) -> str:
    """Return the macros and the function that check the arguments of library functions."""
    capitals = name.upper()
    return f"""#ifdef {capitals}_UNCHECKED
#define IS_MISSING(pointer) 0
#define IS_OUTSIDE(number, count) 0
#else
#define IS_MISSING(pointer) ((pointer) == NULL)
#define IS_OUTSIDE(number, count) (((number) < 0) || ((number) >= (count)))
#endif

static {name}_status state_status(const {name}_state *state)
{{
#ifdef {capitals}_UNCHECKED
    (void)state;
    return {capitals}_OK;
#else
    {name}_status status = (state == NULL) ? {capitals}_NULL_POINTER : {capitals}_OK;
    if ((status == {capitals}_OK) && (state->library != {capitals}_HEADER)) {{
        status = {capitals}_WRONG_STATE;
    }}
    return status;
#endif
}}"""


def init_defined(name: str, memories: Sequence[str], body: str, *, is_wide: bool) -> str:
    """Return NAME_init_checked. body: statements after the checks.

    is_wide: whether elements of the arena have several bytes, so that memories have to be aligned.
    """
    capitals = name.upper()
    missing = "".join(f" || ({memory} == NULL)" for memory in memories)
    small = " || ".join(
        f"({memory}_bytes < ({capitals}_{memory.upper()}_ELEMENTS * sizeof(element)))"
        for memory in memories
    )
    misaligned = ""
    if is_wide:
        unlike = " || ".join(
            f"(((uintptr_t){memory} % sizeof(element)) != 0U)" for memory in memories
        )
        misaligned = refuse(name, unlike, "MISALIGNED")
    sizes = [f"{word}_bytes" for word in (*memories, "state")]
    ignored = "".join(f"\n    (void){argument};" for argument in (*sizes, "header"))
    parameters = f"{_parameters('element', memories)}, size_t state_bytes, uint32_t header"
    return f"""{name}_status {name}_init_checked({name}_state *state, {parameters})
{{
    {name}_status status = {capitals}_OK;
#ifdef {capitals}_UNCHECKED{ignored}
#else
    if ((state_bytes != sizeof *state) || (header != {capitals}_HEADER)) {{
        status = {capitals}_WRONG_HEADER;
    }}
{refuse(name, f"(state == NULL){missing}", "NULL_POINTER")}\
{refuse(name, small, "TOO_SMALL")}{misaligned}#endif
{where_ok(name, f"    state->library = {capitals}_HEADER;{chr(10)}{body}")}    return status;
}}"""


def refuse(name: str, condition: str, result: str) -> str:
    """Return a statement that sets the status where a condition holds, after no other failure."""
    capitals = name.upper()
    condition = f"({condition})" if " || " in condition else condition
    return f"""    if ((status == {capitals}_OK) && {condition}) {{
        status = {capitals}_{result};
    }}
"""


def where_ok(name: str, statements: str) -> str:
    """Return statements that execute where no check has failed."""
    body = indent(statements, "    ", lambda line: bool(line.strip()) and line[0] != "#")
    return f"    if (status == {name.upper()}_OK) {{\n{body}    }}\n"


def checked_function(
    name: str, verb: str, parameters: str, statements: str, refused: str = "", variable: str = ""
) -> str:
    """Return NAME_verb, which executes statements for a state of this library; it returns the status.

    refused: statements of refuse(). variable: declared before.
    """
    return f"""{name}_status {name}_{verb}({parameters})
{{
{variable}    {name}_status status = state_status(state);
{refused}{where_ok(name, statements)}    return status;
}}
"""
