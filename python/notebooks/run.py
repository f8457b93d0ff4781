"""Run the code of a notebook as a script, without Jupyter: python run.py first_ten_minutes.ipynb (in the folder where it may write)."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path


def code(notebook: Path) -> list[str]:
    """The code cells of a notebook."""
    return ["".join(cell["source"]) for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]


def main() -> None:
    path = Path(sys.argv[1])
    names: dict[str, object] = {"__name__": "__main__"}
    for number, cell in enumerate(code(path), 1):
        tree = ast.parse(cell, f"{path.name}, cell {number}")
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) and not cell.rstrip().endswith(";") else None
        exec(compile(tree, f"{path.name}, cell {number}", "exec"), names)
        if isinstance(last, ast.Expr):  # its value is printed, as a notebook shows it
            shown = eval(compile(ast.Expression(last.value), f"{path.name}, cell {number}", "eval"), names)
            if shown is not None:
                print(shown)


if __name__ == "__main__":
    main()
