"""PPTX to blocks: each slide a page and a section, its texts in reading order, tables, charts and speaker notes."""

from collections.abc import Iterator
from io import BytesIO
from typing import Any

from pptx import Presentation
from pptx.enum.shapes import MSO_SHAPE_TYPE, PP_PLACEHOLDER
from pptx.oxml.ns import qn

from services.ingestion.parsed import Outline, Parsed, Unreadable, table
from services.ingestion.parsers.archives import Archive, name_of, xml_root
from services.ingestion.parsers.pictures import Pictures, description
from services.ingestion.parsers.text_encoding import clean
from services.ingestion.parsers.titles import own_language, own_title

_TITLES = {PP_PLACEHOLDER.TITLE, PP_PLACEHOLDER.CENTER_TITLE, PP_PLACEHOLDER.VERTICAL_TITLE}
_BODIES = {PP_PLACEHOLDER.BODY, PP_PLACEHOLDER.OBJECT, PP_PLACEHOLDER.VERTICAL_BODY, PP_PLACEHOLDER.VERTICAL_OBJECT}
# The same on every slide.
_REPEATED = {PP_PLACEHOLDER.DATE, PP_PLACEHOLDER.FOOTER, PP_PLACEHOLDER.HEADER, PP_PLACEHOLDER.SLIDE_NUMBER}
# Shapes whose tops differ by less than this part of the slide's height are read from left to right.
_SAME_ROW = 1 / 40
_DEEPEST_GROUP = 50


def parse_pptx(content: bytes) -> Parsed:
    """Blocks of a presentation. Raises Unreadable when it is damaged, encrypted or a bomb."""
    pictures = Pictures(Archive(content, "pptx"), "pptx")
    try:
        presentation: Any = Presentation(BytesIO(content))
        slides = list(presentation.slides)
    except Exception as error:  # python-pptx raises KeyError, ValueError, lxml and zip errors on damaged files
        raise Unreadable("The pptx is damaged: its main part cannot be read.") from error
    outline = Outline()
    warnings: list[str] = []
    first = ""
    for number, slide in enumerate(slides, 1):
        try:
            title = _Slide(slide, number, outline, pictures, presentation.slide_height or 1).read()
        except (KeyError, ValueError, AttributeError, IndexError, TypeError):
            warnings.append(f"Slide {number} is damaged; a part of it was not read.")
            continue
        first = first or title
        if slide.element.get("show") == "0":
            warnings.append(f"Slide {number} is hidden in the presentation; it was read.")
    warnings += pictures.warnings(outline.blocks)
    properties = presentation.core_properties
    return Parsed(
        title=own_title(properties.title) or first,
        language=own_language(properties.language),
        blocks=tuple(outline.blocks),
        page_count=len(slides),
        warnings=tuple(warnings),
    )


class _Slide:
    def __init__(self, slide: Any, number: int, outline: Outline, pictures: Pictures, height: int) -> None:
        self._slide, self._number, self._outline, self._height = slide, number, outline, height
        self._pictures = pictures

    def read(self) -> str:
        """Adds the slide's blocks; its title, or empty."""
        shape = next((one for one in self._slide.shapes if _placeholder(one) in _TITLES), None)
        title = " ".join(_text(shape.text_frame).split()) if shape is not None and shape.has_text_frame else ""
        if title:
            self._outline.heading(1, title, self._number)
        else:
            # Its number is not the words of anybody, but what comes is not of the slide before.
            self._outline.open(1, f"Slide {self._number}")
        for one in self._ordered(self._slide.shapes, 0):
            if shape is None or one.element is not shape.element:
                self._shape(one)
        self._notes()
        return title

    def _ordered(self, shapes: Any, depth: int) -> Iterator[Any]:
        """Top to bottom and left to right, as people read; a group is read as one thing."""
        if depth > _DEEPEST_GROUP:
            return
        row = max(1, int(self._height * _SAME_ROW))
        placed = [(_position(shape), shape) for shape in shapes]
        for _, shape in sorted(placed, key=lambda one: (one[0][0] // row, one[0][1])):
            if shape.shape_type == MSO_SHAPE_TYPE.GROUP:
                yield from self._ordered(shape.shapes, depth + 1)
            else:
                yield shape

    def _shape(self, shape: Any) -> None:
        kind = _placeholder(shape)
        if kind in _REPEATED:
            return
        if getattr(shape, "has_table", False) and shape.has_table:
            rows = [[clean(_text(cell.text_frame)) for cell in row.cells] for row in shape.table.rows]
            self._outline.add(table(rows), "table", self._number)
        elif getattr(shape, "has_chart", False) and shape.has_chart:
            self._chart(shape.chart)
        elif shape.has_text_frame:
            self._texts(shape.text_frame, listed=kind in _BODIES)
        elif shape.element.tag == qn("p:graphicFrame"):
            self._diagram(shape)
        else:
            self._picture(shape)

    def _picture(self, shape: Any) -> None:
        if described := description(shape.element):
            self._outline.add(f"[{described}]", page=self._number)
        if shape.shape_type == MSO_SHAPE_TYPE.PICTURE and shape.element.blip_rId:
            for text in self._pictures.paragraphs(shape.image.blob):
                self._outline.add(text, page=self._number)

    def _texts(self, frame: Any, *, listed: bool) -> None:
        paragraphs = [(clean(_paragraph(one)).strip(), one.level) for one in frame.paragraphs]
        paragraphs = [(text, level) for text, level in paragraphs if text]
        listed = (listed and len(paragraphs) > 1) or any(level for _, level in paragraphs)
        for text, level in paragraphs:
            if listed:
                self._outline.add(f"{'  ' * level}- {text}", "list", self._number)
            else:
                self._outline.add(text, page=self._number)

    def _chart(self, chart: Any) -> None:
        """Title and numbers of a chart as the file caches them: first column the categories, then each series."""
        if chart.has_title and chart.chart_title.has_text_frame:
            self._outline.add(clean(chart.chart_title.text_frame.text), page=self._number)
        for plot in chart.plots:
            series = [(one.name or "", list(one.values)) for one in plot.series]
            labels = [" / ".join(names) for names in plot.categories.flattened_labels]
            count = max([len(labels), *(len(values) for _, values in series)], default=0)
            rows = [["", *(name for name, _ in series)]]
            for index in range(count):
                label = labels[index] if index < len(labels) else str(index + 1)
                rows.append([label, *(_number(values[index]) if index < len(values) else "" for _, values in series)])
            self._outline.add(clean(table(rows)), "table", self._number)

    def _diagram(self, shape: Any) -> None:
        """The texts of a SmartArt, which lie in a part of their own."""
        for reference in shape.element.iter():
            if name_of(reference) != "relIds":
                continue
            part = self._slide.part.related_part(reference.get(qn("r:dm")))
            root = xml_root(part.blob)
            for point in root.iter() if root is not None else ():
                if name_of(point) == "pt":
                    text = "".join(one.text or "" for one in point.iter() if name_of(one) == "t")
                    self._outline.add(f"- {clean(text)}" if text.strip() else "", "list", self._number)

    def _notes(self) -> None:
        if not self._slide.has_notes_slide:
            return
        frame = self._slide.notes_slide.notes_text_frame
        text = clean(_text(frame)).strip() if frame is not None else ""
        if text:
            self._outline.add(f"Speaker notes: {text}", page=self._number)


def _placeholder(shape: Any) -> Any:
    return shape.placeholder_format.type if shape.is_placeholder else None


def _position(shape: Any) -> tuple[int, int]:
    """Top and left; a shape without a place of its own comes first."""
    try:
        return int(shape.top or 0), int(shape.left or 0)
    except (AttributeError, ValueError, TypeError):
        return 0, 0


def _text(frame: Any) -> str:
    return "\n".join(_paragraph(one) for one in frame.paragraphs)


def _paragraph(paragraph: Any) -> str:
    """With fields and line breaks; the text of equations is among its elements, too."""
    parts: list[str] = []
    for element in paragraph._p.iter():
        name = name_of(element)
        if name == "t":
            parts.append(element.text or "")
        elif name == "br":
            parts.append("\n")
    return "".join(parts)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.10g}"
