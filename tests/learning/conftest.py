"""Small tensors and a busy machine: one torch thread is fastest."""

import torch

torch.set_num_threads(1)
