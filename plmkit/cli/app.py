"""The program `plm`: its errors are printed in a few lines, with exit code 2."""

import errno
import os
import sys
from contextlib import suppress
from typing import Annotated, Any, NoReturn

import typer

from plmkit import __version__
from plmkit.cli.typer_words import error_in_language, translate_help
from plmkit.errors import PlmError, is_out_of_memory
from plmkit.language import comma, language, tr, unknown_language
from plmkit.tasks.registry import KINDS
from plmkit.training import usage  # noqa: F401 - the system's counts at the start, which `opened` looks back to
from plmkit.training.processes import check_alone, is_first, processes

# panels of --help, in the order in which they are first used
TRAIN, ASK, LOOK, EXCHANGE = tr("Train"), tr("Use a model"), tr("Look inside"), tr("Exchange and compress")
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # of a disk or a device

app = typer.Typer(
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=tr("Pretrain, fine-tune and compare classic language-model recipes on your own text."),
    epilog="\n\n".join(
        (
            tr("Start with: {command}", command="plm demo"),
            tr("Check your text: {command}", command="plm doctor my_texts/"),
            tr(
                "Train on it: {command}",
                command="plm pretrain bert-mini my_texts/ --out runs/mine --minutes 10",
            ),
            tr("Try the model: {command}", command='plm fill runs/mine "a [MASK] day"'),
        )
    ),
)


def main() -> None:
    """Run `plm`; a mistake of the user's is explained in a few lines, with exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a character is no reason to stop
    arguments = sys.argv[1:] or ["--help"]
    if unknown := unknown_language():
        fail(
            tr(
                "PLM_LANG={name}: there are no messages in this language. "
                "Set PLM_LANG=zh (中文) or PLM_LANG=en (English).",
                name=unknown,
            )
        )
    if language() != "en" and {"-h", "--help"} & set(arguments):
        translate_help()
    try:
        code = app(arguments, prog_name="plm", standalone_mode=False)
        sys.stdout.flush()
    except PlmError as error:
        fail(str(error))
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except BrokenPipeError:
        forget_output()
        sys.exit(1)
    except OSError as error:
        if error.errno not in FULL:
            raise
        forget_output()
        fail(not_writable(error))
    except Exception as error:
        if is_out_of_memory(error):
            fail(tr("Out of memory. Use a smaller batch or a smaller model."))
        if not hasattr(error, "format_message"):  # typer's own errors have it, whichever click they come from
            raise
        fail(misused(error))
    if code == 130 and is_first():
        print(tr("plm: stopped."), file=sys.stderr)
    sys.exit(code if isinstance(code, int) else 0)


def forget_output() -> None:
    """What is still to be printed has nowhere to go, and Python would try once more at its end."""
    with suppress(OSError, ValueError):  # a stdout that is not a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def fail(message: str) -> NoReturn:
    """Print the error and leave; of several processes one prints it, and all leave."""
    from plmkit.training.roll_call import reports_failure

    if processes() == 1 or reports_failure():
        print(f"plm: {message}", file=sys.stderr, flush=True)
    sys.exit(2)


def not_writable(error: OSError) -> str:
    if error.filename is None:
        return tr("The output cannot be written: {reason}. Free some space, or write elsewhere.", reason=error.strerror)
    return tr(
        "{file} cannot be written: {reason}. Free some space, or write elsewhere.",
        file=error.filename,
        reason=error.strerror,
    )


def misused(error: Any) -> str:
    """An error of typer's: what is missing or unknown, and where the help is."""
    context, parameter = getattr(error, "ctx", None), getattr(error, "param", None)
    if type(error).__name__ == "MissingParameter" and parameter is not None and parameter.name in ("out", "task"):
        return missing(parameter.name)
    found = option_of_other_tools(error) or error_in_language(error.format_message())
    command = context.command_path if context else "plm"
    return tr("{problem}\n`{command} --help` lists its options.", problem=found, command=command)


def missing(option: str) -> str:
    if option == "task":
        return tr(
            "--task is missing: one of {names}. `--task classify` sorts texts into classes.", names=comma().join(KINDS)
        )
    return tr("--out is missing: name the output folder, as in --out runs/mine.")


def option_of_other_tools(error: Any) -> str | None:
    """What an option of other tools is called here; None if nobody knows it, or it was another error."""
    option, context = getattr(error, "option_name", None), getattr(error, "ctx", None)
    if option is None or context is None or context.info_name not in ("pretrain", "finetune"):
        return None
    from plmkit.config.habits import option_meant
    from plmkit.config.machine import Machine
    from plmkit.config.settings import names_in
    from plmkit.schedules.schedule import Schedule
    from plmkit.tasks.settings import GROUPS

    training = {"schedule": names_in(Schedule), "run": names_in(Machine)}
    options = {option for parameter in context.command.params for option in parameter.opts}
    here = option_meant(option, options, GROUPS if context.info_name == "finetune" else training)
    return tr("No such option: {option}. In plm it is {here}.", option=option, here=here) if here else None


def version(wanted: bool) -> None:
    if wanted:
        print(f"plmkit {__version__}")
        raise typer.Exit


@app.callback()
def common(
    context: typer.Context,
    show: Annotated[
        bool, typer.Option("--version", callback=version, is_eager=True, help=tr("Print the version."))
    ] = False,
) -> None:
    if context.invoked_subcommand != "pretrain":  # the only one whose processes share the work
        check_alone(f"plm {context.invoked_subcommand}")
