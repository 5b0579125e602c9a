"""Help layout: whole sentences in the list of verbs, and an example at the end."""

import click


class Verb(click.Command):
    """A verb whose `epilog` is an example, shown unchanged."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_example(self, formatter)


class VerbGroup(click.Group):
    """A group of verbs, each listed with its whole first sentence."""

    command_class = Verb

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        verbs = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, verb.get_short_help_str(limit=1000)) for name, verb in verbs if verb])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_example(self, formatter)


def _write_example(command: click.Command, formatter: click.HelpFormatter) -> None:
    if command.epilog:
        with formatter.section("Example"):
            for line in command.epilog.splitlines():
                formatter.write(f"{'':>{formatter.current_indent}}{line}\n")
