"""A made set of pictures: two coloured shapes, one above or to the left of the other, and what is to be seen."""

import json
import random
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw

COLOURS = {"red": (220, 40, 40), "green": (40, 170, 60), "blue": (50, 80, 230), "yellow": (240, 210, 40)}
SHAPES = ("square", "circle", "triangle")
SIDE, PLACES = 64, 4  # pixels, and places along each side
CELL = SIDE // PLACES


@dataclass(frozen=True, kw_only=True)
class Shape:
    colour: str
    shape: str
    row: int
    column: int

    @property
    def box(self) -> tuple[int, int, int, int]:
        """Left, top, right and bottom in pixels."""
        left, top = self.column * CELL, self.row * CELL
        return left, top, left + CELL - 1, top + CELL - 1

    @property
    def words(self) -> str:
        return f"a {self.colour} {self.shape}"


def scene(rng: random.Random) -> tuple[Shape, Shape, str]:
    """Two different shapes in one column or in one row, and the caption."""
    kinds = rng.sample([(colour, shape) for colour in COLOURS for shape in SHAPES], 2)
    fixed, (first, second) = rng.randrange(PLACES), sorted(rng.sample(range(PLACES), 2))
    above = rng.random() < 0.5
    places = ((first, fixed), (second, fixed)) if above else ((fixed, first), (fixed, second))
    one, other = (
        Shape(colour=colour, shape=shape, row=row, column=column)
        for (colour, shape), (row, column) in zip(kinds, places, strict=True)
    )
    return one, other, f"{one.words} {'above' if above else 'left of'} {other.words}"


def draw(shapes: tuple[Shape, ...], path: Path) -> None:
    picture = Image.new("RGB", (SIDE, SIDE), (235, 235, 235))
    pen = ImageDraw.Draw(picture)
    for one in shapes:
        left, top, right, bottom = (edge + inset for edge, inset in zip(one.box, (2, 2, -2, -2), strict=True))
        if one.shape == "square":
            pen.rectangle((left, top, right, bottom), fill=COLOURS[one.colour])
        elif one.shape == "circle":
            pen.ellipse((left, top, right, bottom), fill=COLOURS[one.colour])
        else:
            pen.polygon(((left, bottom), ((left + right) // 2, top), (right, bottom)), fill=COLOURS[one.colour])
    picture.save(path)


def write_shapes(folder: Path, count: int, seed: int) -> tuple[Path, list[tuple[Shape, Shape, str]]]:
    """captions.jsonl and its pictures, and what is in each."""
    rng = random.Random(seed)
    (folder / "pictures").mkdir(parents=True)
    scenes, lines = [], []
    for number in range(count):
        one, other, caption = scene(rng)
        draw((one, other), folder / "pictures" / f"{number}.png")
        scenes.append((one, other, caption))
        lines.append(json.dumps({"image": f"pictures/{number}.png", "caption": caption}) + "\n")
    table = folder / "captions.jsonl"
    table.write_text("".join(lines), encoding="utf-8")
    return table, scenes
