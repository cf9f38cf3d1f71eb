"""The completion script of bash."""

from __future__ import annotations

from collections.abc import Sequence

from csdf.cli.shells.words import Command, Value

SCRIPT = """\
# Completion of csdf for bash. In ~/.bashrc:  eval "$(csdf completion bash)"
_csdf() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD - 1]}}"
    COMPREPLY=()
    local command="csdf" word words="" files="" IFS=$'\\n'
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD - 1}}"; do
        case "$command $word" in
            {names}) command="$command $word" ;;
        esac
    done
    case "$command $before" in
{values}
    *)
        case "$command" in
{arguments}
        esac
        case "$current" in -*)
            files=""
            case "$command" in
{options}
            esac ;;
        esac ;;
    esac
    COMPREPLY=($(IFS=' '; compgen -W "$words" -- "$current"))
    if [ -n "$files" ]; then
        compopt -o filenames 2> /dev/null
        COMPREPLY+=($(compgen -f -- "$current"))
    fi
}}
complete -F _csdf csdf
"""


def bash_script(commands: Sequence[Command]) -> str:
    """Return a script that bash evaluates; it completes without starting Python."""
    return SCRIPT.format(
        names="|".join(f'"{one.name}"' for one in commands[1:]),
        values="\n".join(_value(one) for one in commands if one.options),
        arguments="\n".join(
            f'            "{one.name}") {_reply(one.argument or _names(one))} ;;'
            for one in commands
        ),
        options="\n".join(
            f'                "{one.name}") words="{_all_options(one)}" ;;' for one in commands
        ),
    )


def _value(command: Command) -> str:
    """A case for the value of each option of the command that takes one."""
    return "\n".join(
        f"    {'|'.join(_quoted(command.name, name) for name in option.names)}) "
        f"{_reply(option.value)} ;;"
        for option in command.options
        if option.value is not None
    )


def _quoted(command: str, option: str) -> str:
    return f'"{command} {option}"'


def _reply(value: Value) -> str:
    words = f'words="{" ".join(value.words)}"' if value.words else ""
    files = "files=yes" if value.is_file else ""
    return "; ".join(filter(None, (words, files))) or "return"


def _names(command: Command) -> Value:
    return Value(tuple(name for name, _ in command.commands))


def _all_options(command: Command) -> str:
    return " ".join(name for option in command.options for name in option.names) or "--help"
