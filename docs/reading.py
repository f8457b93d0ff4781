"""Runs the snippets of docs/reading.md and compares what they print with the blocks below them.

In the root of the repository, after `go run ./docs/pictures`:

    pip install datasets torch torchcodec duckdb pandas polars pyspark
    python docs/reading.py           # exits with 1 where something differs
    python docs/reading.py --write   # writes what was printed into docs/reading.md

Neither the build nor the tests need it.
"""

import pathlib
import re
import subprocess
import sys

PAGE = pathlib.Path("docs/reading.md")
BLOCK = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.S)


def run(code):
    """Returns what a snippet prints, without spaces at the ends of lines."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"a snippet failed:\n{code}\n{done.stderr}")
    return "".join(line.rstrip() + "\n" for line in done.stdout.strip("\n").splitlines())


def main():
    different = []

    def answer(match):
        code, before = match.groups()
        printed = run(code)
        if printed != before:
            different.append(code)
        return f"```python\n{code}```\n\n```text\n{printed}```\n"

    text = BLOCK.sub(answer, PAGE.read_text())
    if "--write" in sys.argv:
        PAGE.write_text(text)
    elif different:
        sys.exit("these snippets print something else now:\n" + "\n".join(different))
    print("all snippets ran")


if __name__ == "__main__":
    main()
