"""The run that --out already holds: continued, restored, or refused."""

from dataclasses import replace

from plmkit.errors import CheckpointError, FolderError
from plmkit.language import tr
from plmkit.storage.tensors import WEIGHTS
from plmkit.terminal.screen import Screen
from plmkit.training.checkpoint import averaged
from plmkit.training.request import PretrainRequest
from plmkit.training.run_folder import RunFolder
from plmkit.training.run_record import UNFINISHED, PretrainRecord, VectorsRecord


def found_run(request: PretrainRequest, screen: Screen) -> PretrainRecord | None:
    """The run in --out, with its weights restored if they are missing."""
    folder = request.folder
    folder.check()
    found = earlier_run(request)
    if found and found.is_finished and not folder.has_weights:
        restore(folder, found, screen)
        found = earlier_run(request)
    return found


def earlier_run(request: PretrainRequest) -> PretrainRecord | None:
    """The run in --out, which must have the same settings as this request."""
    folder = request.folder
    record = folder.record
    if record is None:
        return None
    if isinstance(record, VectorsRecord):
        raise FolderError(tr("--out {out} holds another run. Use another folder.", out=request.out))
    if not isinstance(record, PretrainRecord):
        raise FolderError(tr("--out {out} holds a fine-tuned model. Use another folder.", out=request.out))
    if changed := folder.differences(request.record):
        raise FolderError(
            tr(
                "--out {out} holds a run with other settings: {changed}.\n"
                "Run the same command to continue it, or use another --out.",
                out=request.out,
                changed=tr("; ").join(map(str, changed[:3])),
            )
        )
    return record


def check_same_budget(request: PretrainRequest, finished: PretrainRecord) -> None:
    """Refuse another budget for a finished run, which would not be trained any further."""
    if request.budget in (finished.asked, finished.budget):
        return
    raise FolderError(
        tr(
            "{out} holds a finished run with another budget: {found}, not {asked}.\n"
            "Add --extend to train for a budget beyond what is done, use another --out, or give the same budget.",
            out=request.out,
            found=finished.asked,
            asked=request.budget,
        )
    )


def summary_line(record: PretrainRecord) -> str:
    result = record.result
    work = tr("{steps:,} steps, {tokens:,} tokens", steps=result["steps"], tokens=result["tokens"])
    scores = [f"{name} {value:.3f}" for name, value in result.items() if name.startswith("valid/")]
    return tr(", ").join([work, *scores])


def restore(folder: RunFolder, record: PretrainRecord, screen: Screen) -> None:
    """Restore the missing weights of a finished run from its last checkpoint, or resume from an earlier one."""
    out = folder.path
    try:
        content = folder.newest_checkpoint()
    except CheckpointError:
        content = None
    if content is None:
        raise FolderError(
            tr(
                "{out} holds a finished run, but {weights} is missing, and no intact checkpoint has its weights.\n"
                "Copy the folder again from its source, or remove it and train the model again.",
                out=out,
                weights=WEIGHTS,
            )
        )
    state, weights, _ = content
    whole = state.step >= record.result["steps"]
    with folder.lock():
        if whole:
            if record.run.average > 1:
                _, weights = averaged(folder.checkpoints, record.run.average)
            folder.write(replace(record, checksum=folder.save_weights(weights)))
        else:
            folder.write(replace(record, state=UNFINISHED, checksum=None, result={}))
        folder.seal()
    if whole:
        screen.say(
            tr(
                "{file} was missing and has been restored from the checkpoint at step {step:,}.",
                file=out / WEIGHTS,
                step=state.step,
            )
        )
    else:
        screen.say(
            tr(
                "{file} is missing; training resumes from the checkpoint at step {step:,}.",
                file=out / WEIGHTS,
                step=state.step,
            )
        )


def check_resumable(folder: RunFolder, record: PretrainRecord) -> int | None:
    """The step of the checkpoint to resume from, checked before any text is read."""
    out = folder.path
    try:
        whole = folder.newest_checkpoint()
    except CheckpointError:
        if not record.has_model:
            raise
        whole = None
    if whole is None and record.has_model:  # it would silently start from random weights
        raise FolderError(
            tr(
                "{out} holds a finished model, but no intact checkpoint to continue from.\n"
                "Continue training in another folder: --from {out} --out DIR.",
                out=out,
            )
        )
    return None if whole is None else whole[0].step


def check_unchanged(request: PretrainRequest, earlier: PretrainRecord | None) -> None:
    """Check again once the folder is locked: another process may have trained here while the text was read."""
    if earlier_run(request) != earlier:
        raise FolderError(
            tr(
                "Another process has written to {out} since this one started.\n"
                "Run the same command again to continue from there.",
                out=request.out,
            )
        )
    if earlier is None:
        request.folder.claim()
