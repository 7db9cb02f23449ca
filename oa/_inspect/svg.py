"""A small writer of SVG: rectangles, lines, curves and text, the same bytes for the same drawing."""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

#: Width of a character in parts of the font size: a little more than most of a common sans-serif have.
CHARACTER = 0.58


class Drawing:
    """Shapes in the order of drawing; later ones lie above earlier ones. Lengths in pixels from the upper left corner."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.parts: list[str] = []
        self.width = 0.0
        self.height = 0.0

    def _reach(self, x: float, y: float) -> None:
        self.width, self.height = max(self.width, x), max(self.height, y)

    def rectangle(
        self, x: float, y: float, width: float, height: float, fill: str, *, stroke: str = "none",
        radius: float = 0, hint: str = "", opacity: float = 1.0,
    ) -> None:  # fmt: skip
        """A filled rectangle; `hint` is shown under the pointer."""
        self._reach(x + width, y + height)
        title = f"<title>{escape(hint)}</title>" if hint else ""
        shape = f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{radius:g}"'
        faint = f' opacity="{opacity:g}"' if opacity != 1 else ""
        self.parts.append(f'{shape} fill="{fill}" stroke="{stroke}"{faint}>{title}</rect>')

    def text(
        self, x: float, y: float, text: str, *, size: float = 11, fill: str = "#222", anchor: str = "start",
        bold: bool = False,
    ) -> None:  # fmt: skip
        """Text whose baseline begins (or ends, or has its middle) at the point."""
        reach = len(text) * size * CHARACTER
        self._reach(x + {"start": reach, "middle": reach / 2, "end": 0.0}[anchor], y + 4)
        weight = ' font-weight="bold"' if bold else ""
        place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" fill="{fill}" text-anchor="{anchor}"{weight}'
        self.parts.append(f"<text {place}>{escape(text)}</text>")

    def line(
        self, x1: float, y1: float, x2: float, y2: float, stroke: str, *, width: float = 1, dashes: str = ""
    ) -> None:
        """A straight line."""
        self._reach(max(x1, x2), max(y1, y2))
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
        self.parts.append(f'<line {ends} stroke="{stroke}" stroke-width="{width:g}"{dashed}/>')

    def curve(
        self, x1: float, y1: float, x2: float, y2: float, stroke: str, *, width: float = 1, hint: str = ""
    ) -> None:
        """A curve that leaves the first point downwards and comes to the second from above."""
        bend = max(14.0, (y2 - y1) / 2)
        title = f"<title>{escape(hint)}</title>" if hint else ""
        path = f"M{x1:.1f} {y1:.1f}C{x1:.1f} {y1 + bend:.1f} {x2:.1f} {y2 - bend:.1f} {x2:.1f} {y2:.1f}"
        self.parts.append(
            f'<path d="{path}" fill="none" stroke="{stroke}" stroke-width="{width:g}">{title}</path>'
        )

    def svg(self, margin: float = 16) -> str:
        """The file's text."""
        width, height = self.width + margin, self.height + margin
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}"'
            f' viewBox="0 0 {width:.0f} {height:.0f}" font-family="Helvetica, Arial, sans-serif"'
            f' role="img" aria-label={quoteattr(self.title)}>'
        )
        ground = f'<rect width="{width:.0f}" height="{height:.0f}" fill="#fff"/>'
        return "\n".join([head, f"<title>{escape(self.title)}</title>", ground, *self.parts, "</svg>", ""])

    def write(self, path: str | Path) -> Path:
        """Write the file and return its path."""
        target = Path(path)
        target.write_text(self.svg(), encoding="utf-8")
        return target


def fitting(text: str, width: float, size: float) -> str:
    """As much of the text as fits the width, with dots where some is left out."""
    most = max(1, int(width / (size * CHARACTER)))
    return text if len(text) <= most else text[: max(1, most - 1)] + "…"
