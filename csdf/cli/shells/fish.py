"""The completion script of fish."""

from __future__ import annotations

from collections.abc import Sequence

from csdf.cli.shells.words import Command, Option, Value

SCRIPT = """\
# Completion of csdf for fish. Once:  csdf completion fish -o ~/.config/fish/completions/csdf.fish
function __csdf_at
    set -l command csdf
    for word in (commandline -opc)[2..]
        switch "$command $word"
            case {names}
                set command "$command $word"
        end
    end
    test "$command" = "$argv"
end
complete -c csdf -f
{lines}
"""


def fish_script(commands: Sequence[Command]) -> str:
    """Return a script for fish."""
    return SCRIPT.format(
        names=" ".join(f"'{one.name}'" for one in commands[1:]),
        lines="\n".join(line for one in commands for line in _lines(one)),
    )


def _lines(command: Command) -> list[str]:
    """A line for each command of its own, for each option, and for its arguments."""
    head = f"complete -c csdf -n '__csdf_at {command.name}'"
    lines = [f"{head} -a {name} -d {_quoted(purpose)}" for name, purpose in command.commands]
    lines += [f"{head} {_option(option)}" for option in command.options]
    if command.argument is not None and command.argument != Value():
        lines.append(f"{head} {_taken(command.argument)}")
    return lines


def _option(option: Option) -> str:
    names = " ".join(
        f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names
    )
    value = "" if option.value is None else f" -r {_taken(option.value)}"
    return f"{names} -d {_quoted(option.purpose)}{value}"


def _taken(value: Value) -> str:
    files = "-F" if value.is_file else "-f"
    return f"{files} -a '{' '.join(value.words)}'" if value.words else files


def _quoted(text: str) -> str:
    """Return the text in single quotes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
