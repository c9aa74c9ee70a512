"""One self-contained page of what models attend to: it opens without a network, and has everything inside."""

import base64
import html
import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from plmkit.insight.attention import Attended, AttentionPart
from plmkit.language import comma, language, tr

FOLDER = Path(__file__).parent


def page(models: Sequence[Sequence[Attended]]) -> str:
    """The page of one model or two; of each, what it attends to at one checkpoint or several."""
    names = names_of([frames[-1].model for frames in models])
    data = {
        "words": words(),
        "models": [model_data(name, frames) for name, frames in zip(names, models, strict=True)],
    }
    return whole(tr("Attention of {names}", names=tr(" and ").join(names)), ("page.css",), "page.js", data)


def whole(title: str, styles: Sequence[str], script: str, data: dict[str, Any]) -> str:
    """A page with everything inside; its data have the `words` that it says."""
    parts = {
        "language": "zh-CN" if language() == "zh" else "en",
        "title": html.escape(title),
        "style": "".join((FOLDER / name).read_text(encoding="utf-8") for name in styles),
        "script": "".join((FOLDER / name).read_text(encoding="utf-8") for name in ("parts.js", script)),
        "data": json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"),
    }
    text = (FOLDER / "page.html").read_text(encoding="utf-8")
    before, *others = text.split("{{")
    return before + "".join(parts[key] + rest for key, rest in (other.split("}}", 1) for other in others))


def names_of(folders: Sequence[str]) -> list[str]:
    """The last part of each folder's path, or as many parts as tell two folders apart."""
    paths = [Path(folder).parts or (folder,) for folder in folders]
    for count in range(1, max(map(len, paths)) + 1):
        names = ["/".join(parts[-count:]) for parts in paths]
        if len(set(names)) == len(set(folders)):
            break
    return names


def model_data(name: str, frames: Sequence[Attended]) -> dict[str, Any]:
    return {"name": name, "frames": [frame_data(frame) for frame in frames]}


def frame_data(attended: Attended) -> dict[str, Any]:
    found = attended.attribution
    return {
        "label": tr("final weights") if attended.step is None else tr("step {step:,}", step=attended.step),
        "tokens": attended.tokens,
        "parts": [part_data(part, attended.parts) for part in attended.parts],
        "attribution": {"output": found.output, "tokens": found.tokens, "scores": rounded(found.scores)},
        "replaced": None if attended.replaced is None else rounded(attended.replaced),
        "mix": {place: rounded(shares) for place, shares in attended.mix.items()},
    }


def part_data(part: AttentionPart, parts: Sequence[AttentionPart]) -> dict[str, Any]:
    return {
        "title": part_title(part, parts),
        "kind": part.kind,
        "queries": part.queries,
        "keys": part.keys,
        "memory": part.memory,
        "layers": part.layers,
        "heads": part.heads,
        "weights": packed(part.weights),
        "entropy": rounded(part.entropy),
        "distance": rounded(part.distance),
        "diagonal": rounded(part.diagonal),
    }


def packed(weights: np.ndarray) -> str:
    """Square roots in bytes, compressed: small weights, which are most of a long text's, keep their digits."""
    roots = np.rint(255 * np.sqrt(weights)).astype(np.uint8)
    return base64.b64encode(zlib.compress(roots.tobytes(), 6)).decode("ascii")


def unpacked(text: str, shape: tuple[int, ...]) -> np.ndarray:
    """The weights, as the page reads them."""
    roots = np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype=np.uint8)
    return (roots.reshape(shape) / 255.0) ** 2


def rounded(values: np.ndarray) -> Any:
    """Four digits are more than a reader needs."""
    digits = np.vectorize(lambda value: float(f"{value:.4g}"), otypes=[float])
    return digits(values).tolist()


def part_title(part: AttentionPart, parts: Sequence[AttentionPart]) -> str:
    """What attends to what, among all parts of the model."""
    if part.kind == "cross":
        return tr("alignment (decoder → encoder)")
    if part.kind == "query":
        return tr("query stream (left to right)")
    if any(other.kind == "query" for other in parts):
        return tr("content stream (all tokens visible)")
    if any(other.kind == "cross" for other in parts):
        return tr("encoder") if part.encodes else tr("decoder")
    return tr("self-attention")


def mix_titles() -> dict[str, str]:
    """By where a task reads the mix."""
    return {
        "input": tr("Weights of the layers in the mix at the input"),
        "output": tr("Weights of the layers in the mix at the output"),
    }


def words() -> dict[str, Any]:
    """Everything that the page says, in the reader's language; {names} are filled in by the page."""
    return {
        "part": tr("Attention"),
        "overview": tr("Layers × heads"),
        "view": tr("View"),
        "lines": tr("Lines"),
        "matrix": tr("Matrix"),
        "from": tr("From"),
        "to": tr("To"),
        "checkpoint": tr("Checkpoint"),
        "head": tr("Layer {{layer}}, head {{head}}"),
        "layer": tr("layer {{layer}}"),
        "cell": tr(
            "Layer {{layer}}, head {{head}}: entropy {{entropy}} bits, distance {{distance}} tokens, "
            "diagonal {{diagonal}}%"
        ),
        "attends": tr("{{token}} attends to {{list}}"),
        "attended": tr("{{token}} is attended to by {{list}}"),
        "hint": tr("Point at a token to see its attention; click to keep it."),
        "remembered": tr("Tokens marked in orange are in recurrent memory."),
        "keys": tr("Arrow keys change layer and head; Tab moves on; in a list of tokens, arrows move and Enter keeps."),
        "attribution": tr("Attribution (gradient × input)"),
        "caution": tr(
            "Attention alone is not an explanation: it shows where a layer looks, not what the output depends on. "
            "Here, blue tokens raise this output and orange ones lower it, to first order."
        ),
        "replaced": tr("Probability that each token was replaced"),
        "mix": mix_titles(),
        "words": tr("words alone"),
        "statistics": tr("Statistics of every head"),
        "meaning": tr(
            "Entropy of a token's attention; mean distance to what it attends to; share on its own position, or on the "
            "diagonal of an alignment."
        ),
        "columns": [tr("layer"), tr("head"), tr("entropy (bits)"), tr("distance (tokens)"), tr("diagonal")],
        "comma": comma(),
        "light": tr("Light"),
        "dark": tr("Dark"),
    }
