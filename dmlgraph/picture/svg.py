"""SVG: one file for any browser and editor; light or dark as the reader prefers.

All text can be selected and searched; nodes and edges have tooltips with all details.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from dmlgraph.picture.drawing import Box, Drawing, Rows
from dmlgraph.picture.families import Family
from dmlgraph.picture.layout import FRAME_HEAD, LABEL, LEADING, LINE, TITLE, Placed, Route, Scene, lay_out, text_width
from dmlgraph.picture.legend import SWATCH, Entry, legend
from dmlgraph.picture.scopes import MOST_BOXES, box_count, in_scopes
from dmlgraph.picture.shapes import INKS, LOOKS, SHAPES, Kind, cap, variables
from dmlgraph.picture.weights import with_weights

HEADING = 34  # height of the title above a scene
GAP = 40  # between two scenes
NOTES = 12  # sentences below a scene; more are counted
NOTE = 18  # height of a note
ROLES = ("title", "line", "weight")  # of texts in boxes
FONT = "system-ui,-apple-system,'Segoe UI','Helvetica Neue',Arial,'Liberation Sans',sans-serif"

_STYLE = f"""\
.dmlgraph{{font-family:{FONT};background:var(--paper)}}
.dmlgraph text{{fill:var(--ink);text-anchor:middle;font-size:{LINE}px}}
.dmlgraph .paper{{fill:var(--paper)}}
.dmlgraph .heading{{font-size:16px;font-weight:600;text-anchor:start}}
.dmlgraph .title{{font-size:{TITLE}px;font-weight:600}}
.dmlgraph .note{{text-anchor:start}}
.dmlgraph .entry{{text-anchor:start;fill:var(--faint)}}
.dmlgraph .line{{fill:var(--faint)}}
.dmlgraph .box .cap{{stroke:none}}
.dmlgraph .label{{font-size:{LABEL}px;fill:var(--faint)}}
.dmlgraph .frame{{fill:var(--panel);stroke:var(--rule);stroke-width:1.4}}
.dmlgraph .wire{{fill:none;stroke:var(--edge);stroke-width:1.2}}
.dmlgraph .head{{fill:var(--edge)}}
.dmlgraph .box path{{stroke-width:1.4}}
.dmlgraph .reference path{{stroke-dasharray:3 2}}
.dmlgraph .edge:hover .wire,.dmlgraph .box:hover path{{stroke-width:2.4}}
"""


def render(drawings: Sequence[Drawing]) -> str:
    """The drawings side by side as one SVG document."""
    scoped = [in_scopes(with_weights(drawing)) for drawing in drawings]
    scenes = [lay_out(drawing, are_open=box_count(drawing) <= MOST_BOXES) for drawing in scoped]
    entries, notes = _legend(scenes), [note for scene in scenes for note in _notes(scene)]
    longest = max((40 + text_width(note, LINE) for note in notes), default=0.0)
    width = max(sum(scene.width for scene in scenes) + GAP * (len(scenes) - 1), _legend_width(entries), longest)
    height = HEADING + max(scene.height for scene in scenes) + NOTE * len(notes) + HEADING
    return "\n".join(_document(scenes, entries, notes, width, height)) + "\n"


def _notes(scene: Scene) -> list[str]:
    shown, more = scene.notes[: NOTES + 1], len(scene.notes) - NOTES - 1
    return [*shown, f"and {more} more: dmlgraph lower --explain shows all"] if more > 0 else list(shown)


def _document(
    scenes: Sequence[Scene], entries: Sequence[Entry], notes: Sequence[str], width: float, height: float
) -> Iterator[str]:
    title = escape(" and ".join(scene.title for scene in scenes))
    box = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" class="dmlgraph" role="img" {box}>'
    yield f"<title>{title}</title>"
    yield f"<style>{_style([*_looks(scenes), *(entry.look for entry in entries)])}</style>"
    yield f'<rect class="paper" width="{width:.0f}" height="{height:.0f}"/>'
    left = 0.0
    for scene in scenes:
        yield f'<g transform="translate({left:.0f} {HEADING})">'
        yield f'<text class="heading" x="20" y="-8">{escape(scene.title)}</text>'
        yield from _scene(scene)
        yield "</g>"
        left += scene.width + GAP
    top = height - HEADING - NOTE * len(notes)
    for index, note in enumerate(notes):
        yield f'<text class="note" x="20" y="{top + NOTE * index + LINE:.0f}">{escape(note)}</text>'
    yield from _legend_items(entries, height - HEADING / 2)
    yield "</svg>"


def _looks(scenes: Sequence[Scene]) -> Iterator[str]:
    for scene in scenes:
        for box in _boxes(scene):
            yield from filter(None, (box.look, box.family))


def _style(looks: Sequence[str]) -> str:
    used = [look for look in LOOKS if look in looks]
    boxes = "".join(f".dmlgraph .{look} path{{fill:var(--{look}-fill);stroke:var(--{look}-line)}}" for look in used)
    texts = "".join(
        f".dmlgraph .{look} text.{role}{{fill:var(--{look}-ink)}}" for look in used if look in INKS for role in ROLES
    )
    return f"{variables('.dmlgraph', used)}\n{_STYLE}{boxes}{texts}"


def _scene(scene: Scene) -> Iterator[str]:
    for route in scene.routes:
        yield _route(route)
    for placed in scene.boxes:
        if placed.inside is None:
            yield _box(placed)
        else:
            yield from _open(placed, placed.inside)


def _open(placed: Placed, inside: Scene) -> Iterator[str]:
    """An open scope: a frame with its name, and what is in it."""
    left, top = placed.x - placed.width / 2, placed.y - placed.height / 2
    yield f'<g class="scope" transform="translate({left:.1f} {top:.1f})">{_tip(placed.box.rows)}'
    yield f'<rect class="frame" width="{placed.width:.0f}" height="{placed.height:.0f}" rx="10"/>'
    yield f'<text class="title note" x="14" y="20">{escape(placed.box.heading)}</text>'
    yield f'<g transform="translate({(placed.width - inside.width) / 2:.1f} {FRAME_HEAD})">'
    yield from _scene(inside)
    yield "</g></g>"


def _box(placed: Placed) -> str:
    box = placed.box
    outline = SHAPES[box.kind].outline(placed.width, placed.height)
    sizes = [TITLE] + [LINE] * (len(box.texts) - 1)
    down = SHAPES[box.kind].slack[1] / 4 if box.kind is Kind.CONSTANT else 0  # below the lid of the cylinder
    y = down - sum(sizes) * LEADING / 2
    lines = []
    for index, (line, size) in enumerate(zip(box.texts, sizes, strict=True)):
        y += size * LEADING
        weight = index - len(box.lines)
        role, tip = ("line", "") if index else ("title", "")
        if weight >= 0:
            role, tip = "weight", _tip(box.weights[weight].box.rows)
        lines.append(f'<text class="{role}" y="{y - size * 0.38:.1f}">{escape(line)}{tip}</text>')
    at = f"translate({placed.x:.1f} {placed.y:.1f})"
    tip = _tip(box.rows)
    end = "" if box.family is None else _cap(box.family, placed.width, placed.height)
    return f'<g class="box {box.look}" transform="{at}">{tip}<path d="{outline}"/>{end}{"".join(lines)}</g>'


def _cap(family: Family, width: float, height: float) -> str:
    return f'<path class="cap" d="{cap(width, height)}" style="fill:var(--{family}-line)"/>'


def _route(route: Route) -> str:
    label = ""
    if route.label is not None:
        x, y = route.label
        label = f'<text class="label" x="{x:.1f}" y="{y + LABEL * 0.35:.1f}">{escape(route.edge.label)}</text>'
    wire, head = f'<path class="wire" d="{route.path}"/>', f'<path class="head" d="{route.arrow}"/>'
    return f'<g class="edge">{_tip(route.edge.rows)}{wire}{head}{label}</g>'


def _tip(rows: Rows) -> str:
    return f"<title>{escape(chr(10).join(f'{what}: {text}' for what, text in rows))}</title>"


# The legend of the kinds in the picture.


def _legend(scenes: Sequence[Scene]) -> list[Entry]:
    return legend((box for scene in scenes for box in _boxes(scene)), scenes[0].overlay)


def _boxes(scene: Scene) -> Iterator[Box]:
    for placed in scene.boxes:
        if placed.inside is None:
            yield placed.box
        else:
            yield from _boxes(placed.inside)


def _legend_width(entries: Sequence[Entry]) -> float:
    return 40 + sum(_legend_step(entry) for entry in entries)


def _legend_step(entry: Entry) -> float:
    return 56 + len(entry.text) * 6.5


def _legend_items(entries: Sequence[Entry], y: float) -> Iterator[str]:
    x = 34.0
    for entry in entries:
        text = f'<text class="entry" x="20" y="4">{entry.text}</text>'
        end = "" if entry.family is None else _cap(entry.family, *SWATCH)
        at = f"translate({x:.0f} {y:.0f})"
        yield f'<g class="box {entry.look}" transform="{at}"><path d="{entry.outline}"/>{end}{text}</g>'
        x += _legend_step(entry)
