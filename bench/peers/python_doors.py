"""Compares Chumoku's wheel with PyTorch in one process: the gain of `chumoku.torch.activate()` and
`chumoku.transformers`.

    python python_doors.py attention              the six shapes of `bench attention`, forward and with gradients
        python python_doors.py overhead               microseconds per call, with one query and one key
    python python_doors.py finetune FOLDER        a step of fine-tuning of a published encoder, 32 texts of 128 tokens
        python python_doors.py contention             the cost of two thread pools: linear, attention, linear

The two sides alternate, and each figure is a median. Answers are compared. Prints Markdown.
"""

import argparse
import statistics
import time

import chumoku.torch
import torch
from torch.nn import functional as F

SHAPES = [
    ("B1 H8 S4096 D64", (1, 8, 4096, 64), False),
    ("the same, causal", (1, 8, 4096, 64), True),
    ("B1 H8 S1024 D64", (1, 8, 1024, 64), False),
    ("B32 H8 S100 D96", (32, 8, 100, 96), False),
    ("B1 H8 S2048 D128", (1, 8, 2048, 128), False),
    ("B64 H12 S32 D32", (64, 12, 32, 32), False),
]


def in_turn(run, seconds):
    """Returns the medians in milliseconds and the last results of both: PyTorch's, then Chumoku's."""
    times, results = ([], []), [None, None]
    for active in (0, 1):
        switch(active)
        run()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[1]) < 3:
        for active in (0, 1):
            switch(active)
            run()  # Warms up: the other side leaves its data in caches, and threads that still spin.
            start = time.perf_counter()
            results[active] = run()
            times[active].append((time.perf_counter() - start) * 1e3)
    switch(False)
    return statistics.median(times[0]), statistics.median(times[1]), results


def switch(active):
    chumoku.torch.activate() if active else chumoku.torch.deactivate()


def attention(arguments):
    print("| numbers | shape | PyTorch forward, ms | ours | ratio | PyTorch with gradients, ms | ours | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    product, count = 1.0, 0
    for dtype in (torch.float32, torch.bfloat16):
        for name, shape, causal in SHAPES:
            torch.manual_seed(0)
            q, k, v, d = (torch.randn(shape).to(dtype) for _ in range(4))
            learns = [x.clone().requires_grad_() for x in (q, k, v)]

            def forward():
                with torch.inference_mode():
                    return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

            def both():
                y = F.scaled_dot_product_attention(*learns, is_causal=causal)
                return torch.autograd.grad(y, learns, d)[0]

            row = f"| {str(dtype)[6:]} | {name} |"
            for run in (forward, both):
                theirs, ours, results = in_turn(run, arguments.seconds)
                a, b = (x.double() for x in results)
                error = ((a - b).norm() / a.norm()).item()
                assert error < (2e-6 if dtype == torch.float32 else 2e-2), f"{name}: differs by {error}"
                row += f" {theirs:.3g} | {ours:.3g} | {theirs / ours:.2f} |"
                product, count = product * theirs / ours, count + 1
            print(row, flush=True)
    print(f"\nGeometric mean: {product ** (1 / count):.2f}")


def overhead(arguments):
    def per_call(run):
        rounds = []
        for _ in range(30):
            start = time.perf_counter()
            for _ in range(200):
                run()
            rounds.append((time.perf_counter() - start) / 200 * 1e6)
        return statistics.median(rounds)

    print("| microseconds a call | PyTorch | activated | chumoku.scaled_dot_product_attention | chumoku.attention |")
    print("|---|---|---|---|---|")
    for name, learns in (("without gradients", False), ("forward, with gradients", True)):
        q = torch.randn(1, 1, 1, 8, requires_grad=learns)
        own = lambda: F.scaled_dot_product_attention(q, q, q)
        figures = [per_call(own)]
        switch(True)
        figures.append(per_call(own))
        switch(False)
        figures.append(per_call(lambda: chumoku.scaled_dot_product_attention(q, q, q)))
        figures.append(per_call(lambda: chumoku.attention(q, q, q)))
        print(f"| {name} | " + " | ".join(f"{x:.1f}" for x in figures) + " |")


def finetune(arguments):
    from transformers import AutoModelForSequenceClassification

    chumoku.transformers.register()
    print("| a step, ms | PyTorch (sdpa) | chumoku | ratio |")
    print("|---|---|---|---|")
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(1000, 20000, (32, 128), generator=generator)
    labels = torch.randint(0, 2, (32,), generator=generator)
    steps = []
    for name in ("sdpa", "chumoku"):
        torch.manual_seed(0)
        model = AutoModelForSequenceClassification.from_pretrained(
            arguments.folder, num_labels=2, attn_implementation=name, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1
        ).train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, fused=True)

        def step(model=model, optimizer=optimizer):
            optimizer.zero_grad()
            loss = model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=labels).loss
            loss.backward()
            optimizer.step()
            return loss.item()

        steps.append(step)
    times = ([], [])
    for round in range(arguments.rounds + 1):
        for step, seen in zip(steps, times):
            start = time.perf_counter()
            loss = step()
            assert loss == loss
            if round:
                seen.append((time.perf_counter() - start) * 1e3)
    theirs, ours = (statistics.median(x) for x in times)
    print(f"| f32 | {theirs:.0f} | {ours:.0f} | {theirs / ours:.2f} |")


def contention(arguments):
    """Measures attention between two linear layers of PyTorch, and alone: the difference is the cost of switching pools."""
    x, weight = torch.randn(32 * 128, 256), torch.randn(256, 256)
    q = torch.randn(32, 8, 128, 32)
    switch(True)

    def timed(run):
        run()
        rounds = []
        for _ in range(60):
            start = time.perf_counter()
            run()
            rounds.append((time.perf_counter() - start) * 1e3)
        return statistics.median(rounds)

    with torch.inference_mode():
        attend = lambda: F.scaled_dot_product_attention(q, q, q)
        linear = lambda: F.linear(x, weight)
        apart = timed(attend) + 2 * timed(linear)
        together = timed(lambda: (linear(), attend(), linear()))
        switch(False)
        own = timed(attend) + 2 * timed(linear)
        own_together = timed(lambda: (linear(), attend(), linear()))
    print("| ms | apart | in turn | more |")
    print("|---|---|---|---|")
    print(f"| chumoku between PyTorch's layers | {apart:.2f} | {together:.2f} | {together - apart:+.2f} |")
    print(f"| PyTorch alone, whose caches are as cold | {own:.2f} | {own_together:.2f} | {own_together - own:+.2f} |")
    loss = (together - apart - (own_together - own)) / together
    print(f"\nLost by taking turns, beyond what PyTorch loses: {loss:+.1%}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["attention", "overhead", "finetune", "contention"])
    parser.add_argument("folder", nargs="?", help="a published encoder")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each figure of `attention`")
    parser.add_argument("--rounds", type=int, default=8)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    chumoku.set_num_threads(arguments.threads)
    print(f"torch {torch.__version__}, chumoku on {chumoku.instruction_set()}, {arguments.threads} threads\n")
    globals()[arguments.what](arguments)


if __name__ == "__main__":
    main()
