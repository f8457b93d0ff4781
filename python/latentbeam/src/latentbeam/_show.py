"""Videos in a notebook, side by side."""

from __future__ import annotations

import base64
import html
from typing import Any, Mapping, Sequence

_MOST = 64 << 20  # bytes of all videos: a notebook keeps them


class Grid:
    """Videos with a line below each. A notebook shows them; as text it is a line for each."""

    def __init__(self, cells: Sequence[tuple[str, bytes, str]], left_out: int, width: int) -> None:
        self.cells, self.left_out, self.width = cells, left_out, width

    def __repr__(self) -> str:
        return "\n".join(text for text, _, _ in self.cells) + self._rest("\n")

    def _rest(self, before: str) -> str:
        return f"{before}and {self.left_out} more" if self.left_out else ""

    def _repr_html_(self) -> str:
        parts = []
        for text, data, kind in self.cells:
            source = f"data:{kind};base64,{base64.b64encode(data).decode()}"
            body = (f'<img src="{source}" width="{self.width}">' if kind.startswith("image/")
                    else f'<video src="{source}" width="{self.width}" autoplay loop muted controls></video>')
            parts.append(f'<figure style="margin:4px;width:{self.width}px">{body}'
                         f'<figcaption style="font-size:11px">{html.escape(text)}</figcaption></figure>')
        return f'<div style="display:flex;flex-wrap:wrap">{"".join(parts)}</div>{self._rest("<p>")}'


_KINDS = {".mp4": "video/mp4", ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp"}


def grid(output: Any, table: Any, columns: Sequence[str], limit: int, width: int) -> Grid:
    """The first rows of a table of videos."""
    cells: list[tuple[str, bytes, str]] = []
    names = [table._column(c) for c in columns]
    size = 0
    rows: list[Mapping[str, Any]] = []
    for row in table.select("id", "prompt", "video_path", *names):
        if len(rows) == limit:
            break
        rows.append(row)
    for row in rows:
        end = row["video_path"][row["video_path"].rfind("."):].lower()
        data = output._bytes(row["video_path"])
        size += len(data)
        if size > _MOST:
            break
        text = f"{row['id']}: {row['prompt']}" + "".join(f", {c.removeprefix('measured_')} {_short(row[c])}" for c in names)
        cells.append((text, data, _KINDS.get(end, "video/mp4")))
    return Grid(cells, len(table) - len(cells), width)


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
