"""From a model folder to a smaller or faster one, with what changed in one table."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from plmkit.architectures.decoder import DecoderModel
from plmkit.compression.comparing import TOLERANCE, gaps_of
from plmkit.compression.decoder_graph import write_decoder
from plmkit.compression.export import graph_of
from plmkit.compression.folder import GRAPH, Compressed, Measured, stored_all, table_of, write_folder
from plmkit.compression.measuring import LOSS, Rows, Speed, compared_scores, rows_for, size_of, speeds_of
from plmkit.compression.onnx_extra import library
from plmkit.compression.pruning import check_prunable, importance_of, kept_of, pruned
from plmkit.compression.quantise import quantised
from plmkit.data.reading.files import COMPRESSED
from plmkit.errors import PlmError, SettingError, nearest
from plmkit.inference.evaluation import can_evaluate_text
from plmkit.inference.loading import Parts, model_of, read_parts, without_generator
from plmkit.inference.model import Model
from plmkit.interop.huggingface import check_new
from plmkit.language import comma, tr
from plmkit.storage.files import new_folder, reported_os_errors, write_json
from plmkit.storage.manifest import seal
from plmkit.tasks.contract import Row
from plmkit.tasks.ngrams import save_ngrams
from plmkit.terminal.labels import label
from plmkit.terminal.screen import Screen
from plmkit.training.run_folder import RunFolder
from plmkit.training.run_record import FinetuneRecord

TARGETS = ("onnx", "int8", "pruned")
MARGIN = 0.01
SHARE = 0.25


@dataclass(frozen=True, kw_only=True)
class Request:
    """The arguments of `plm compress`."""

    model: Path
    to: str
    out: Path
    dev: tuple[str, ...] = ()  # labelled rows, or NAME=FILE for each of several tasks
    margin: float = MARGIN  # by how much a dev score may fall
    train: Path | None = None  # rows by which heads are judged; none: those of the fine-tuning
    heads: float = SHARE  # share of the attention heads that are pruned
    units: float = 0.0  # share of the feed-forward units that are pruned

    def check(self) -> None:
        if self.to not in TARGETS:
            raise SettingError(
                tr(
                    "--to takes {targets}; found '{to}'.{hint}",
                    targets=comma().join(TARGETS),
                    to=self.to,
                    hint=nearest(self.to, TARGETS),
                )
            )
        if not self.margin >= 0:
            raise SettingError(tr("--margin must be 0 or more; found {margin}.", margin=self.margin))
        if not (0 <= self.heads < 1 and 0 <= self.units < 1):
            raise SettingError(tr("--heads and --units are shares, from 0 to below 1."))
        check_new(self.out)


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a compression changed."""

    request: Request
    measures: dict[str, str]  # of each score
    before: Measured
    after: Measured
    difference: float | None = None  # the largest of any state, of a graph with the same weights

    @property
    def losses(self) -> dict[str, float]:
        """By how much each score became worse."""
        falls = {name: score - self.after.scores[name] for name, score in self.before.scores.items()}
        return {name: -fall if self.measures[name] == LOSS else fall for name, fall in falls.items()}

    @property
    def is_kept(self) -> bool:
        return all(loss <= self.request.margin for loss in self.losses.values())

    def as_json(self) -> dict[str, Any]:
        return {
            "to": self.request.to, "model": str(self.request.model), "out": str(self.request.out),
            "written": self.is_kept, "margin": self.request.margin, "measures": self.measures,
            **table_of(self.before, self.after),
            **({} if self.difference is None else {"largest_difference": self.difference}),
        }  # fmt: skip


class MarginError(PlmError):
    """A score fell by more than the margin; nothing was written."""

    def __init__(self, result: Result) -> None:
        name, loss = max(result.losses.items(), key=lambda one: one[1])
        measure = label(result.measures[name]).replace("_", " ")
        super().__init__(
            tr(
                "{measure} is worse by {loss:.4f}, more than the margin of {margin}; nothing was written.\n"
                "Allow more with --margin, or compress less.",
                measure=measure if len(result.measures) == 1 else f"{name}: {measure}",
                loss=loss,
                margin=result.request.margin,
            )
        )
        self.result = result


def compress(request: Request, screen: Screen) -> Result:
    """Write the folder, unless it computes something else or a score falls by more than the margin."""
    request.check()
    parts = without_generator(read_parts(request.model, screen.say))
    check_able(parts)
    before = model_of(parts, "cpu")
    rows = rows_for(before, request.dev, dev_files(request.model), screen.say)
    check_scored(request, before, rows)
    write = WRITERS[request.to]
    with reported_os_errors(request.out.parent), new_folder(request.out) as draft:
        write(draft, request, parts, before, screen)
        after = model_of(read_parts(draft, graphs=True), "cpu")
        difference = compared(before, after, request, screen) if request.to == "onnx" else None
        result = replace(measured(request, before, after, draft, rows), difference=difference)
        if not result.is_kept:
            raise MarginError(result)
        finish(draft, result)
    screen.say(tr("Written to {folder}.", folder=request.out))
    return result


def check_able(parts: Parts) -> None:
    if parts.architecture.reads_images:
        raise PlmError(
            tr("{folder} reads images; plm compress takes models that read text alone.", folder=parts.folder)
        )
    if parts.architecture.translates and not parts.tasks:
        raise PlmError(
            tr(
                "{folder} reads a source and generates a target; plm compress takes models that classify, embed or "
                "generate from left to right.",
                folder=parts.folder,
            )
        )
    if parts.pooling.unknown and not parts.tasks:
        raise PlmError(
            tr(
                "{folder} pools its vectors with {unknown}, which plmkit does not support.",
                folder=parts.folder,
                unknown=comma().join(parts.pooling.unknown),
            )
        )


def dev_files(model: Path) -> Mapping[str, str | None]:
    """The dev files of a fine-tuning, by the name of the task."""
    record = RunFolder(model).record
    return run_files(record, "dev") if isinstance(record, FinetuneRecord) else {}


def run_files(record: FinetuneRecord, part: str) -> Mapping[str, str | None]:
    """The files of that part of a fine-tuning, by the name of the task."""
    if len(record.tasks) == 1:
        return {str(record.tasks[0].get("name")): record.files.get(part)}
    return {name.removesuffix(f".{part}"): file for name, file in record.files.items() if name.endswith(f".{part}")}


def check_scored(request: Request, model: Model, rows: Rows) -> None:
    """Weights with fewer bits, and fewer heads, change predictions: by how much must be known."""
    missing = [name for name in model.tasks if name not in rows.tasks]
    if can_evaluate_text(model) and rows.plain is None:
        missing = [tr("plain text")]
    if request.to != "onnx" and missing:
        raise SettingError(
            tr(
                "--dev is missing: rows of {names}, by which the loss of --to {to} is measured.",
                names=comma().join(missing),
                to=request.to,
            )
        )
    if request.margin > 1 and not can_evaluate_text(model):
        raise SettingError(
            tr(
                "--margin {margin}: scores of this model are at most 1, so that no loss would be too large. Give a "
                "share, such as 0.01 for one percentage point.",
                margin=request.margin,
            )
        )


def write_graph(draft: Path, request: Request, parts: Parts, before: Model, screen: Screen) -> None:
    """The folder of a graph, with 8 bits per weight where that is wanted."""
    screen.say(tr("Exporting {folder} to ONNX...", folder=request.model))
    model = before.network.model
    if isinstance(model, DecoderModel) and can_evaluate_text(before):
        write_decoder(draft, model, bits=8 if request.to == "int8" else 32)
    else:
        graph = graph_of(model, len(parts.vocabulary), str(request.model))
        library("onnx").save(quantised(graph) if request.to == "int8" else graph, str(draft / GRAPH))
    heads = tuple(f"heads.{task.name}." for task in parts.tasks)
    record = Compressed(
        to=request.to, model=str(request.model), architecture=parts.architecture,
        max_length=before.max_length, rows=parts.vocabulary_size, tasks=stored_all(parts.tasks),
    )  # fmt: skip
    weights = {name: weight for name, weight in parts.weights.items() if name.startswith(heads)} if heads else {}
    write_folder(draft, record, parts.tokenizer, parts.tasks, weights, parts.pooling)


def compared(before: Model, after: Model, request: Request, screen: Screen) -> float:
    """The largest difference of any state; more than rounding is refused."""
    gaps = list(gaps_of(before, after))
    worst = max(gaps, key=lambda gap: gap.largest)
    if not worst.largest <= TOLERANCE:
        raise PlmError(
            tr(
                "{folder} is not written: for {rows} rows of {length} tokens the graph computes states that differ by "
                "{largest:.1e} from those of the network, more than {tolerance:.0e}.\n"
                "Please report this with the model's run.json.",
                folder=request.out,
                rows=worst.rows,
                length=worst.length,
                largest=worst.largest,
                tolerance=TOLERANCE,
            )
        )
    screen.say(
        tr(
            "The graph gives the same states as the network, for texts of {lengths} tokens in batches of {sizes}: "
            "largest difference {largest:.1e}.",
            lengths=comma().join(str(length) for length in sorted({gap.length for gap in gaps})),
            sizes=comma().join(str(size) for size in sorted({gap.rows for gap in gaps})),
            largest=worst.largest,
        )
    )
    return worst.largest


def measured(request: Request, before: Model, after: Model, draft: Path, rows: Rows) -> Result:
    """Both models, in turns."""
    measures, scores = compared_scores(before, after, rows)
    speeds = speeds_of([before, after], rows)
    sizes = [size_of(before.folder), size_of(draft)]
    table = [line(*each) for each in zip(sizes, speeds, scores, strict=True)]
    return Result(request=request, measures=measures, before=table[0], after=table[1])


def line(size: int, speed: Speed, scores: dict[str, float]) -> Measured:
    return Measured(size=size, alone=speed.alone, together=speed.together, batch=speed.batch, scores=scores)


def finish(draft: Path, result: Result) -> None:
    """Keep the table in the record, and seal the folder."""
    if result.request.to != "pruned":
        record = replace(Compressed.read(draft), table=table_of(result.before, result.after))
        write_json(draft / COMPRESSED, record.as_json())
    seal(draft)


def write_pruned(draft: Path, request: Request, parts: Parts, before: Model, screen: Screen) -> None:
    """A run folder like the one that is pruned, with fewer heads."""
    check_prunable(parts)
    run = RunFolder(request.model)
    record = run.record
    if not isinstance(record, FinetuneRecord):
        raise PlmError(
            tr(
                "{folder} is not a run folder of plm finetune, which --to pruned takes.",
                folder=request.model,
            )
        )
    rows = judging_rows(request, before, record, screen)
    screen.say(tr("Judging heads by {count:,} rows...", count=sum(map(len, rows.values()))))
    made = pruned(parts, kept_of(importance_of(before, rows), request.heads, request.units))
    folder = RunFolder(draft)
    checksum = folder.save_weights(made.weights)
    parts.tokenizer.save(draft, before.max_length)
    save_ngrams(draft, {task.name: task.ngrams for task in parts.tasks if task.ngrams is not None})
    folder.write(replace(record, architecture=made.architecture, checksum=checksum))


def judging_rows(request: Request, before: Model, record: FinetuneRecord, screen: Screen) -> dict[str, list[Row]]:
    """Labelled rows of each task: those it was trained on, or the given ones."""
    given = () if request.train is None else (str(request.train),)
    found = rows_for(before, given, run_files(record, "train"), screen.say)
    if missing := [name for name in before.tasks if name not in found.tasks]:
        raise SettingError(
            tr(
                "The rows that {folder} was trained on are not there any more: {names}. Name labelled rows by which "
                "heads are judged: --train FILE.",
                folder=request.model,
                names=comma().join(missing),
            )
        )
    return {name: rows for name, (_, rows) in found.tasks.items()}


Write = Callable[[Path, Request, Parts, Model, Screen], None]
WRITERS: dict[str, Write] = {"onnx": write_graph, "int8": write_graph, "pruned": write_pruned}
