"""The processes of one run, and what they exchange; a single process exchanges nothing."""

import gc
import inspect
import signal
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from types import FrameType
from typing import Any, cast

import torch
from torch import nn

from plmkit.data.batch import Batch, Memory
from plmkit.errors import PlmError, SettingError, is_out_of_memory
from plmkit.language import comma, several, tr
from plmkit.training.device import choose_device
from plmkit.training.processes import local_rank, processes, rank
from plmkit.training.roll_call import RollCall, open_store

PATIENCE = timedelta(days=1)  # the others wait while rank 0 reads the corpus; torchrun notices a process that has died


class LostProcess(PlmError):
    """Another process of the run has ended."""


class Terminated(Exception):
    """torchrun ends this process, mostly because another one has ended."""


@dataclass(frozen=True, kw_only=True)
class World:
    """One of `size` processes that train one model on the parts of one batch."""

    rank: int = 0
    size: int = 1
    device: torch.device = torch.device("cpu")

    @property
    def first(self) -> bool:
        """Whether this process writes the folder, the log and the screen."""
        return self.rank == 0

    @property
    def alone(self) -> bool:
        return self.size == 1

    def sum(self, numbers: Sequence[float]) -> list[float]:
        """Each number added up over all processes."""
        if self.alone:
            return list(numbers)
        import torch.distributed as distributed

        joint = torch.tensor(numbers, dtype=torch.float64)  # on the CPU: no device has to wait for it
        distributed.all_reduce(joint)
        return cast(list[float], joint.tolist())

    def agreed(self, number: float) -> float:
        """The number of the first process."""
        return self.sum([number if self.first else 0.0])[0]

    def any(self, fact: bool) -> bool:
        return self.sum([float(fact)])[0] > 0

    def wait(self) -> None:
        """Wait until all processes are here."""
        self.sum([0.0])

    @contextmanager
    def first_alone(self) -> Iterator[None]:
        """The first process runs the block before the others, which then find its results in the cache."""
        if not self.first:
            self.wait()
        yield
        if self.first:
            self.wait()

    def rows(self, count: int) -> tuple[int, int]:
        """The rows of this process, of `count`: always the same ones, so that streams of text stay together."""
        start, stop = (-(-count * rank // self.size) for rank in (self.rank, self.rank + 1))
        return start, stop

    def part(self, batch: Batch, seed: int) -> Batch:
        """The rows of this process, with its part of the random numbers that a model samples with."""
        if self.alone:
            return batch
        if batch.continues is not None and batch.examples < self.size:
            raise SettingError(
                tr(
                    "{size} processes share {rows} streams of text (schedule.batch), but each needs one of its own.\n"
                    "Start fewer processes, or raise schedule.batch.",
                    size=self.size,
                    rows=batch.examples,
                )
            )
        if batch.targets is not None:
            predicted = batch.predicted
            draws = torch.rand(int(predicted.sum()), generator=torch.Generator().manual_seed(seed))
            batch = replace(batch, draws=torch.zeros(predicted.shape).masked_scatter(predicted, draws))
        return batch.part(*self.rows(batch.examples))

    def split(self, memory: Memory | None) -> Memory | None:
        """The part of a recurrent memory that belongs to the rows of this process."""
        return None if memory is None else tuple(part[slice(*self.rows(len(part)))] for part in memory)

    def joined(self, memory: Memory | None) -> Memory | None:
        """The recurrent memory of all rows, which a checkpoint holds."""
        if self.alone or memory is None:
            return memory
        import torch.distributed as distributed

        count = int(self.sum([len(memory[0])])[0])
        start, stop = self.rows(count)
        whole = [torch.zeros(count, *part.shape[1:]) for part in memory]
        for all_rows, part in zip(whole, memory, strict=True):
            all_rows[start:stop] = part.cpu()
            distributed.all_reduce(all_rows)  # a sum in which every row has one part that is not zero
        return tuple(all_rows.to(part.dtype) for all_rows, part in zip(whole, memory, strict=True))

    def parallel(self, module: nn.Module) -> nn.Module:
        """The module wrapped so that its gradients are averaged over all processes."""
        if self.alone:
            return module
        from torch.nn.parallel import DistributedDataParallel

        # buffers are the same everywhere; torch 2.13 has renamed this setting
        known = inspect.signature(DistributedDataParallel).parameters
        named = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"
        buffers: dict[str, Any] = {named: False}
        # an objective without predictions in this process leaves weights without a gradient
        return DistributedDataParallel(module, find_unused_parameters=True, **buffers)

    def without_exchange(self, module: nn.Module) -> AbstractContextManager[None]:
        """Accumulate gradients without an exchange, which follows with the last micro-batch."""
        return nullcontext() if self.alone else module.no_sync()  # type: ignore[operator]


@contextmanager
def open_world(device: str = "auto") -> Iterator[World]:
    """The processes that torchrun has started, or this one alone."""
    if processes() == 1:
        yield World(device=choose_device(device))
        return
    import torch.distributed as distributed

    if distributed.is_initialized():  # by a caller from Python, who handles its errors too
        yield World(rank=rank(), size=processes(), device=own_device(device, local_rank()))
        return
    with reported_lost_process():
        distributed.init_process_group(backend(device), rank=rank(), world_size=processes(), timeout=PATIENCE)
        world = World(rank=rank(), size=processes(), device=own_device(device, local_rank()))
        yield world
        close(world)  # not after an error: the others may be gone


@contextmanager
def reported_lost_process() -> Iterator[None]:
    """Name the process that has died in place of the error of one that waits for it, or that torchrun ends."""
    roll_call = RollCall(open_store(), rank(), processes())
    before = on_termination(terminate)
    try:
        yield
    except (RuntimeError, Terminated) as error:
        on_termination(signal.SIG_IGN)
        if is_out_of_memory(error):
            raise
        check_alive(roll_call)
        if isinstance(error, Terminated):  # at the wish of the user, or of a scheduler
            raise SystemExit(128 + signal.SIGTERM) from error
        raise
    except BaseException:
        on_termination(signal.SIG_IGN)  # the error is reported first
        raise
    on_termination(before)
    roll_call.close()


def check_alive(roll_call: RollCall) -> None:
    """Raise LostProcess if another process has failed or died."""
    try:
        failed = roll_call.failed()
        dead = [] if failed else roll_call.dead()
    except RuntimeError:  # without torchrun rank 0 keeps the store, which has ended with it
        failed, dead = False, [0]
    if failed:
        raise LostProcess(tr("Another process has ended this run; its message says why."))
    if dead:
        raise LostProcess(
            tr(
                "The process with rank {rank} (of {size}) has died.\n"
                "Run the same command again to continue from the last checkpoint.",
                rank=comma().join(map(str, dead)),
                size=processes(),
            )
        )


def terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated


def on_termination(handler: Any) -> Any:
    """Set the handler of SIGTERM; returns the one before."""
    try:
        return signal.signal(signal.SIGTERM, handler)
    except ValueError:  # not the main thread, which alone receives signals
        return None


def close(world: World) -> None:
    """Leave together: a group that is closed while its threads work, or while a network still holds it, may abort."""
    import torch.distributed as distributed

    world.wait()
    gc.collect()
    distributed.destroy_process_group()


def backend(device: str) -> str:
    """gloo exchanges what is on the CPU, NCCL what is on GPUs."""
    from torch.distributed import is_nccl_available

    return "cpu:gloo,cuda:nccl" if device != "cpu" and torch.cuda.is_available() and is_nccl_available() else "gloo"


def own_device(name: str, local_rank: int) -> torch.device:
    """One GPU per process; the CPU is shared."""
    if name not in ("auto", "cuda") or not torch.cuda.is_available():
        device = torch.device("cpu") if name == "auto" else choose_device(name)  # gloo exchanges nothing else
        if device.type == "cpu":
            return device
    elif local_rank < torch.cuda.device_count():
        torch.cuda.set_device(local_rank)
        return torch.device("cuda", local_rank)
    raise SettingError(
        tr(
            "Process {rank} of this machine needs its own GPU; found {gpus}, and run.device={name}.\n"
            "Start one process per GPU, with run.device=auto, cuda or cpu.",
            rank=local_rank,
            gpus=several(torch.cuda.device_count(), "GPU"),
            name=name,
        )
    )
