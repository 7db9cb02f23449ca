"""Timing of PyTorch on a CUDA device by events, for suites that run ours and PyTorch's kernels side by side."""

from __future__ import annotations

from collections.abc import Callable

import torch


def available() -> bool:
    """Whether PyTorch sees a CUDA device."""
    return torch.cuda.is_available()


def device_us(call: Callable[[], object], number: int) -> Callable[[], float]:
    """A measurement: microseconds of device time of one `call`, in the mean of `number` calls in a row."""

    def measure() -> float:
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        begin.record()
        for _ in range(number):
            call()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) / number * 1e3

    return measure
