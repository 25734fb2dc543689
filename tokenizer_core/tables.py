"""Result tables as text, Markdown, HTML and JSON."""

from __future__ import annotations

import html
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from bpeline.tokenizer_core.redaction import in_one_line


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells with column titles.

    Attributes:
        columns: titles; empty for a table of names and values.
        left: indices of left-aligned columns; the others are right-aligned.

    Example:
        >>> Table(("size", "tokens"), [("8k", "1,200")]).lines()
        ['size  tokens', '8k     1,200']
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    left: Collection[int] = (0,)

    @classmethod
    def of(cls, rows: Sequence[Sequence[str]]) -> Table:
        """Build a table whose first row holds the titles."""
        return cls(rows[0], rows[1:])

    def lines(self, *, bordered: bool = False) -> list[str]:
        """Format for a terminal; borders make trailing spaces visible."""
        rows = [[in_one_line(cell) for cell in row] for row in self._texts()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = []
        for row in rows:
            cells = [
                cell.ljust(width) if column_index in self.left else cell.rjust(width)
                for column_index, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            lines.append((" | " if bordered else "  ").join(cells).rstrip())
        if bordered:
            lines.insert(1, "-+-".join("-" * width for width in widths))
        return lines

    def markdown(self) -> str:
        """Format as Markdown, without a final newline."""
        rows = [
            [cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in self._texts()
        ]
        rule = ["---" if at in self.left else "---:" for at in range(len(self.columns))]
        return "\n".join(f"| {' | '.join(row)} |" for row in (rows[0], rule, *rows[1:]))

    def html(self, caption: str = "") -> str:
        """Format as HTML with a caption; without titles, first cells are headers."""
        lines = []
        for at_row, row in enumerate(self._texts()):
            cells = []
            for at, cell in enumerate(row):
                tag = "th" if (at_row == 0 if self.columns else at == 0) else "td"
                side = "left" if at in self.left or not self.columns else "right"
                cells.append(f'<{tag} style="text-align:{side}">{html.escape(cell)}</{tag}>')
            lines.append(f"<tr>{''.join(cells)}</tr>")
        below = f'<p style="opacity:.7">{html.escape(caption)}</p>' if caption else ""
        return f"<table>{''.join(lines)}</table>{below}"

    def json(self) -> list[dict[str, object]]:
        """Return an object for each row, with unformatted cells."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def _texts(self) -> list[list[str]]:
        titles = [self.columns] if self.columns else []
        return [[str(cell) for cell in row] for row in (*titles, *self.rows)]
