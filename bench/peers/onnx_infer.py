"""The encoder of torch_train.py in ONNX Runtime: the peer of `chumoku bench infer --precision highest`.

    python onnx_infer.py                                     4 layers, d_model 256, 32 x 128 tokens, f32
    python onnx_infer.py --layers 2 --d-model 128 --heads 4

torch.onnx exports the model. ONNX Runtime optimizes the graph as far as it can, and also with its tool for encoders if
that finds anything; the faster result counts. Prints one JSON object. The answers are compared with PyTorch's. """

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from onnxruntime.transformers import optimizer
from torch_train import Classifier, parse_arguments, random_batch


def session(path, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def exported(model, ids, folder):
    """Returns the exported model, and the one optimized by the tool for encoders."""
    plain, fused = Path(folder) / "plain.onnx", Path(folder) / "fused.onnx"
    torch.backends.mha.set_fastpath_enabled(False)

    class WithoutPadding(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, ids):
            return self.model(ids, None)

    torch.onnx.export(WithoutPadding(), (ids,), str(plain), input_names=["ids"], output_names=["logits"], dynamo=False)
    heads, width = model.encoder.layers[0].self_attn.num_heads, model.embedding.embedding_dim
    tool = optimizer.optimize_model(str(plain), model_type="bert", num_heads=heads, hidden_size=width)
    print("fused:", tool.get_fused_operator_statistics(), file=sys.stderr)
    tool.save_model_to_file(str(fused))
    return {"exported": plain, "optimized": fused}


def main():
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    ids, _, _, tokens = random_batch([arguments.length] * arguments.batch, arguments, generator)
    model = Classifier(
        arguments.vocab,
        arguments.classes,
        arguments.layers,
        arguments.d_model,
        arguments.heads,
        0.0,
        max_length=arguments.length,
    ).eval()
    with torch.inference_mode():
        expected = model(ids, None).numpy()
    report = {"peer": "onnxruntime", "version": onnxruntime.__version__, "threads": arguments.threads}
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        for name, path in exported(model, ids, folder).items():
            run = session(path, arguments.threads)
            feed = {"ids": ids.numpy()}
            for _ in range(arguments.warmup):
                (found,) = run.run(None, feed)
            error = float(np.abs(found - expected).max())
            assert error < 1e-4, f"{name}: differs from PyTorch by {error}"
            milliseconds = []
            for _ in range(arguments.steps):
                start = time.perf_counter()
                run.run(None, feed)
                milliseconds.append((time.perf_counter() - start) * 1e3)
            report[f"{name}_ms"] = round(statistics.median(milliseconds), 3)
    best = min(report["exported_ms"], report["optimized_ms"])
    print(json.dumps(report | {"median_ms": best, "tokens_per_second": round(tokens / best * 1e3, 1)}))


if __name__ == "__main__":
    main()
