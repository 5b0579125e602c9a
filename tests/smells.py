"""Places worth a look, none of them a verdict: `make smells`."""

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

BUILTIN_ERRORS = {"Exception", "ValueError", "RuntimeError", "KeyError", "TypeError", "NotImplementedError", "OSError"}


def main() -> None:
    listed = subprocess.run(["git", "ls-files", "*.py"], check=True, capture_output=True, text=True).stdout.split()
    for name in listed:
        path = Path(name)
        if path.exists():
            for finding in smells(path):
                print(finding)


def smells(path: Path) -> Iterator[str]:
    """Yield one line per place of `path` that is long, wide, or raises a builtin exception in the core."""
    text = path.read_text(encoding="utf-8")
    lines = text.count("\n")
    in_core = path.parts[0] == "lakehouse_core"
    if lines > 500 and path.parts[0] != "tests":
        yield f"{path}: {lines} lines"
    for node in ast.walk(ast.parse(text)):
        where = f"{path}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            positional = len(node.args.args) + len(node.args.posonlyargs)
            if length > 60:
                yield f"{where}: {node.name} has {length} lines"
            if positional > 6:
                yield f"{where}: {node.name} takes {positional} positional parameters"
        elif isinstance(node, ast.ClassDef):
            public = [part for part in node.body if isinstance(part, ast.FunctionDef) and not part.name.startswith("_")]
            if len(public) > 15:
                yield f"{where}: {node.name} has {len(public)} public methods"
        elif in_core and isinstance(node, ast.Raise):
            raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            if isinstance(raised, ast.Name) and raised.id in BUILTIN_ERRORS:
                yield f"{where}: raises {raised.id}"


if __name__ == "__main__":
    main()
