"""Each task of a joint fine-tuning by itself, from the same model or from the joint result: what each way is worth."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from plmkit.compare.picture import draw_comparison
from plmkit.compare.ways import ALONE, JOINT, THEN
from plmkit.errors import SettingError
from plmkit.language import tr
from plmkit.storage.files import write_json
from plmkit.tasks.finetune import FinetuneRequest, finetune
from plmkit.tasks.mixing import Mixing
from plmkit.tasks.registry import stored_tasks
from plmkit.tasks.scores import summary_of
from plmkit.terminal.screen import Screen
from plmkit.training.run_folder import RunFolder
from plmkit.training.run_record import FinetuneRecord


def finetune_and_compare(
    request: FinetuneRequest, screen: Screen, *, alone: bool = False, then_each: bool = False
) -> FinetuneRecord:
    """Fine-tune; of several tasks, also each alone, and each once more from the joint result, if asked for."""
    check_contrasts(request, alone=alone, then_each=then_each)
    record = finetune(request, screen)
    if not alone and not then_each:
        return record
    ways = {JOINT: dict.fromkeys((files.task.name for files in request.tasks), record)}
    if alone:
        ways = {ALONE: each_task(request, request.model, ALONE, screen), **ways}
    if then_each:
        ways[THEN] = each_task(request, request.out, THEN, screen)
    compared = [compared_task(name, ways) for name in ways[JOINT]]
    record = replace(record, result={**record.result, "comparison": compared})
    folder = RunFolder(request.out)
    with folder.lock():
        write_json(request.out / "scores.json", record.result)
        draw_comparison(compared, request.out, screen.say)
        folder.seal()
    return record


def check_contrasts(request: FinetuneRequest, *, alone: bool, then_each: bool) -> None:
    asked = {"--alone": alone, "--then-each": then_each}
    if not request.others and any(asked.values()):
        raise SettingError(
            tr(
                "{option} compares the tasks of a joint fine-tuning, which --tasks names. Leave it out.",
                option=next(option for option, value in asked.items() if value),
            )
        )
    if then_each and request.settings.scratch:
        raise SettingError(
            tr("--then-each starts from the joint result, and task.scratch from random weights. Drop one.")
        )


def each_task(request: FinetuneRequest, start: Path, way: str, screen: Screen) -> dict[str, FinetuneRecord]:
    """Every task fine-tuned by itself with the settings of all, in a run folder of its own."""
    found = {}
    for number, files in enumerate(request.tasks, start=1):
        task = files.task.name
        place = {"number": number, "count": len(request.tasks)}
        screen.say(
            tr("{task} alone ({number} of {count}):", task=task, **place)
            if way == ALONE
            else tr("{task} from the joint result ({number} of {count}):", task=task, **place)
        )
        own = replace(
            request, model=start, out=request.out / way / task, task=files.task, train=files.train, dev=files.dev,
            test=files.test, columns=files.columns, others=(), mixing=Mixing(), contrast=True,
        )  # fmt: skip
        found[task] = finetune(own, screen)
    return found


def compared_task(name: str, ways: dict[str, dict[str, FinetuneRecord]]) -> dict[str, Any]:
    """The scores of one task by each way that trained it: on test if there is one, else on dev."""
    joint = ways[JOINT][name]
    [task] = [one for one in stored_tasks(joint.trained_tasks) if one.name == name]
    own = own_scores(joint, name, 0)
    part = next((part for part in ("test", "dev") if part in own), None)
    if part is None:
        return {"task": name, "measure": None, "part": None}
    measure = task.chosen_by(own.get("dev", own[part]))
    found = {way: scores_by_seed(records[name], name, part, measure) for way, records in ways.items()}
    return {"task": name, "measure": measure, "part": part, **found}


def scores_by_seed(record: FinetuneRecord, task: str, part: str, measure: str) -> dict[str, Any]:
    """Over the seeds, the score and the gap: by how much it is higher on training rows than on dev."""
    seeds = [own_scores(record, task, number) for number in range(len(record.result["seeds"]))]
    unseen = "dev" if "dev" in seeds[0] else part
    scores = [one[part][measure] for one in seeds]
    gaps = [one["train"][measure] - one[unseen][measure] for one in seeds]
    return {"score": summary_of(scores), "gap": summary_of(gaps), "seeds": scores, "gaps": gaps}


def own_scores(record: FinetuneRecord, task: str, number: int) -> dict[str, dict[str, Any]]:
    """Of one seed, the scores of one task on each part of the data by their plain names."""
    stem = f"{task}." if len(record.tasks) > 1 else ""
    parts = {part: record.result["seeds"][number].get(part, {}) for part in ("train", "dev", "test")}
    found = {
        part: {name.removeprefix(stem): value for name, value in scores.items() if name.startswith(stem)}
        for part, scores in parts.items()
    }
    return {part: scores for part, scores in found.items() if scores}


def mean_of_tasks(compared: Sequence[dict[str, Any]], way: str) -> dict[str, Any]:
    """The scores and gaps of a way, each the mean over all tasks that have them, seed by seed."""
    ways = [one[way] for one in compared if way in one]
    scores, gaps = ([fmean(one) for one in zip(*(way[of] for way in ways), strict=True)] for of in ("seeds", "gaps"))
    return {"score": summary_of(scores), "gap": summary_of(gaps), "seeds": scores, "gaps": gaps}
