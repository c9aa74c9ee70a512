"""One self-contained page of a report: scores with intervals, classes, confusions, calibration and mistakes."""

from typing import Any

from plmkit.insight.page import whole
from plmkit.language import sentences, tr
from plmkit.tasks.report.report import Report
from plmkit.terminal.labels import label


def report_page(report: Report, *, model: str, file: str) -> str:
    found = report.as_json()
    names = {*(name for name, value in report.scores.items() if isinstance(value, int | float))}
    labels = {name: label(name) for name in (*sorted(names), *COLUMNS, "macro", "weighted", report.mistakes.measure)}
    data = {"words": words(), "labels": labels, "model": model, "file": file, "report": found}
    return whole(
        tr("Report of {model} on {file}", model=model, file=file), ("page.css", "report.css"), "report.js", data
    )


COLUMNS = ("precision", "recall", "f1", "support", "rows")


def words() -> dict[str, Any]:
    """Everything that the page says, in the reader's language; {names} are filled in by the page."""
    resampled = tr("Intervals by bootstrap: {{resamples}} resamples of the rows.")
    axes = tr("Rows are true classes, columns predictions; colours are shares of the row.")
    diagonal = tr("On the diagonal, answers are right as often as their probability says; below it they are too sure.")
    return {
        "scores": tr("Scores"),
        "interval": tr("95% interval {{low}} to {{high}}"),
        "resampled": resampled,
        "counts": sentences((tr("{{counts}}."), resampled)),
        "classes": tr("By class"),
        "slots": tr("By slot"),
        "intents": tr("By intent"),
        "of_intent": tr("Calibration of the intent"),
        "class": tr("class"),
        "confusion": tr("Confusion matrix"),
        "axes": axes,
        "choose": sentences((axes, tr("Click a cell to see its mistakes."))),
        "cell": tr("{{label}} predicted as {{prediction}}: {{rows}} ({{share}} of its class)"),
        "confused": tr("Most frequent confusions"),
        "truth": tr("true class"),
        "predicted": tr("predicted as"),
        "share": tr("share of its class"),
        "calibration": tr("Calibration"),
        "ece": sentences((tr("Expected calibration error {{ece}} ({{bins}} bins)."), diagonal)),
        "scaled": tr("with temperature {{temperature}}"),
        "unscaled": tr("without temperature"),
        "reliability": tr("How often the answers are right"),
        "confidence": tr("probability of the answer"),
        "accuracy": tr("share that is right"),
        "histogram": tr("How sure the answers are"),
        "right": tr("right"),
        "wrong": tr("wrong"),
        "bin": tr("probability {{low}} to {{high}}: {{rows}} rows, {{accuracy}} right"),
        "agreement": tr("Labels by prediction, in tenths of the rows"),
        "prediction": tr("mean prediction"),
        "label": tr("mean label"),
        "tenth": tr("mean prediction {{prediction}}, mean label {{label}} ({{rows}} rows)"),
        "mistakes": tr("Mistakes"),
        "errors": tr("Largest errors"),
        "search": tr("Search the texts"),
        "any_label": tr("any label"),
        "any_prediction": tr("any prediction"),
        "counted": tr("{{shown}} of {{all}}"),
        "kept": tr("The page has the {{kept}} hardest of {{all}}."),
        "line": tr("line {{line}}"),
        "row": tr("row {{row}}"),
        "id": tr("id {{id}}"),
        "said": tr("predicted"),
        "expected": tr("expected"),
        "nothing": tr("(nothing)"),
        "none": tr("No mistakes."),
        "clear": tr("Clear"),
        "more": tr("Show more"),
        "light": tr("Light"),
        "dark": tr("Dark"),
    }
