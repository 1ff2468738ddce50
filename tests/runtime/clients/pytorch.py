"""PyTorch as people use it, under a limit: prints what a test compares, one line of JSON for each step that argv names."""

from __future__ import annotations

import json
import sys
import time

import torch
from torch import nn

GIB = 1 << 30


def memory() -> dict[str, object]:
    """All that there is, to its own OutOfMemoryError, and again after it was freed."""
    free, total = torch.cuda.mem_get_info()
    kept, refusal = [], ""
    while not refusal and len(kept) < 100:
        try:
            kept.append(torch.empty(GIB, dtype=torch.uint8, device="cuda"))
        except torch.cuda.OutOfMemoryError as error:
            refusal = str(error)
    reserved, pieces = torch.cuda.memory_reserved(), len(kept)
    kept.clear()
    torch.cuda.empty_cache()
    again = torch.empty(2 * GIB, dtype=torch.uint8, device="cuda").numel()
    return {
        "total": total,
        "free": free,
        "pieces": pieces,
        "refusal": refusal,
        "reserved": reserved,
        "freed": torch.cuda.mem_get_info()[0],
        "again": again,
        "properties": torch.cuda.get_device_properties(0).total_memory,
    }


def bytes_return() -> dict[str, object]:
    """Copies to the card and back, pinned and beside other work."""
    numbers = torch.arange(1 << 20, dtype=torch.int64).pin_memory()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        there = numbers.to("cuda", non_blocking=True)
        back = there.to("cpu", non_blocking=True)
    stream.synchronize()
    return {"same": bool(torch.equal(numbers, back))}


def training() -> dict[str, object]:
    """Kernels of PyTorch, cuBLAS and cuDNN, forth and back; a graph of them; they do not compute, so no number is looked at."""
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 30 * 30, 10)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    images = torch.randn(16, 3, 32, 32, device="cuda")
    labels = torch.zeros(16, dtype=torch.int64, device="cuda")
    for _ in range(3):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    half = torch.randn(256, 256, device="cuda", dtype=torch.float16)
    torch.matmul(half, half)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.matmul(half, half)
    graph.replay()
    torch.cuda.synchronize()
    return {"allocated": torch.cuda.memory_allocated()}


def products() -> dict[str, object]:
    """Matrix products for some seconds, as many as the share lets through."""
    matrix = torch.randn(4096, 4096, device="cuda")
    torch.cuda.synchronize()
    number, began = 0, time.monotonic()
    while time.monotonic() < began + 6:
        for _ in range(10):
            torch.matmul(matrix, matrix)
        torch.cuda.synchronize()
        number += 10
    return {"number": number, "seconds": time.monotonic() - began}


STEPS = {"memory": memory, "bytes": bytes_return, "training": training, "products": products}

for name in sys.argv[1:]:
    print(json.dumps(STEPS[name]()), flush=True)
