"""completion: print the script with which a shell completes verbs, flags, tables, tags and columns."""

from typing import Any, Final

import click
from click.shell_completion import get_completion_class

from lakehouse_core.cli.help import Verb
from lakehouse_core.cli.program import COMPLETION_VARIABLE, PROGRAM


@click.command(
    "completion",
    cls=Verb,
    epilog='eval "$(lakehouse completion bash)"  # in ~/.bashrc\n'
    'eval "$(lakehouse completion zsh)"   # in ~/.zshrc, behind compinit\n'
    "lakehouse completion fish | source   # in ~/.config/fish/config.fish",
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, *, shell: str) -> None:
    """Print the script with which SHELL completes verbs, flags, tables, tags and columns."""
    made: Any = get_completion_class(shell)
    click.echo(made(context.find_root().command, {}, PROGRAM, COMPLETION_VARIABLE).source(), nl=False)


COMMANDS: Final = {"completion": completion}
