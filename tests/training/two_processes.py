"""Run by torchrun in each of two processes: pretrain each recipe into the folder of its name."""

import sys
from pathlib import Path

import torch
from distributed_cases import order_of

from plmkit.terminal.screen import Screen
from plmkit.training.pretrain import pretrain
from plmkit.training.world import World, close

if __name__ == "__main__":
    torch.distributed.init_process_group("gloo")
    corpus, *folders = map(Path, sys.argv[1:])
    for folder in folders:
        pretrain(order_of(folder.name, corpus, folder), Screen())
    close(World(rank=torch.distributed.get_rank(), size=torch.distributed.get_world_size()))
