"""The peer of `gemm_speed`: PyTorch's matrix product in f32 and bf16, on the shapes of linear layers.

    python torch_gemm.py                    2 threads
    python torch_gemm.py --threads 1

Computes `C = A Bᵀ` of random numbers into preallocated memory. Prints one JSON object per line: shape, dtype and the
median GFLOP/s of the timed runs after a warm-up.
"""

import argparse
import json
import statistics
import time

import torch

SHAPES = [(4096, 1024, 256), (4096, 256, 1024), (2048, 2048, 2048)]


def measure(shape, dtype, runs):
    """Returns the seconds of each run after a warm-up."""
    rows, columns, depth = shape
    a = torch.randn(rows, depth).to(dtype)
    b = torch.randn(columns, depth).to(dtype)
    out = torch.empty(rows, columns, dtype=dtype)
    times = []
    for run in range(runs + 3):
        start = time.perf_counter()
        torch.mm(a, b.t(), out=out)
        if run >= 3:
            times.append(time.perf_counter() - start)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=15)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    for dtype in [torch.float32, torch.bfloat16]:
        for shape in SHAPES:
            times = measure(shape, dtype, arguments.runs)
            operations = 2e-9 * shape[0] * shape[1] * shape[2]
            print(
                json.dumps(
                    {
                        "shape": "x".join(map(str, shape)),
                        "dtype": str(dtype).removeprefix("torch."),
                        "threads": arguments.threads,
                        "gflops": round(operations / statistics.median(times), 1),
                        "best_gflops": round(operations / min(times), 1),
                        "torch": torch.__version__,
                    }
                )
            )


if __name__ == "__main__":
    main()
