"""The completion script of zsh."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from csdf.cli.shells.words import Command, Value

SCRIPT = """\
#compdef csdf
# Completion of csdf for zsh. In ~/.zshrc, after compinit:  eval "$(csdf completion zsh)"
_csdf() {{
    local command="csdf" word before="${{words[CURRENT - 1]}}"
    local -a found
    for word in "${{(@)words[2,CURRENT - 1]}}"; do
        case "$command $word" in
            ({names}) command="$command $word" ;;
        esac
    done
    case "$command $before" in
{values}
    esac
    case "$command" in
{arguments}
    esac
}}
if [[ "$funcstack[1]" == _csdf ]]; then _csdf "$@"; else compdef _csdf csdf; fi
"""


def zsh_script(commands: Sequence[Command]) -> str:
    """Return a script for zsh, to be evaluated or put into a folder of $fpath."""
    return SCRIPT.format(
        names="|".join(f'"{one.name}"' for one in commands[1:]),
        values="\n".join(line for one in commands for line in _values(one)),
        arguments="\n".join(
            f'    ("{one.name}")\n{_described("option", _options(one), only="-*")}\n'
            f"        {_argument(one)} ;;"
            for one in commands
        ),
    )


def _values(command: Command) -> list[str]:
    """A case for the value of each option of the command that takes one."""
    return [
        f"    ({'|'.join(f'{chr(34)}{command.name} {name}{chr(34)}' for name in option.names)}) "
        f"{_reply(option.value)}; return ;;"
        for option in command.options
        if option.value is not None
    ]


def _reply(value: Value) -> str:
    words = f"compadd -- {' '.join(value.words)}" if value.words else ""
    files = "_files" if value.is_file else ""
    return "; ".join(filter(None, (words, files))) or ":"


def _argument(command: Command) -> str:
    if command.commands:
        return _described("command", command.commands, only="*").strip()
    return _reply(command.argument or Value())


def _options(command: Command) -> list[tuple[str, str]]:
    listed = [(name, option.purpose) for option in command.options for name in option.names]
    return listed or [("--help", "explain")]


def _described(kind: str, entries: Iterable[tuple[str, str]], *, only: str) -> str:
    """Words with their purposes, where what stands there already is like `only`."""
    texts = " ".join(_quoted(f"{name}:{purpose}") for name, purpose in entries)
    shown = f"found=({texts}); _describe {kind} found; return"
    return f"        if [[ $PREFIX == {only} ]]; then {shown}; fi"


def _quoted(text: str) -> str:
    """Return the text in single quotes."""
    return "'" + text.replace("'", "'\\''") + "'"
