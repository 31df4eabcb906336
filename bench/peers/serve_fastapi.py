"""A service of vectors or classes as people write it by hand: FastAPI, with PyTorch (transformers) or ONNX Runtime behind it.

    pip install fastapi uvicorn transformers torch onnxruntime
    python serve_fastapi.py FOLDER [--task embed|predict] [--onnx model.onnx] [--port 8000] [--threads 2]

FOLDER is one that transformers reads. It answers `POST /embed` or `POST /predict` with {"inputs": "text" or [texts]} as `chumoku serve`
does; `serve_load.py` asks both. Handlers are plain functions, so that uvicorn runs them on its pool of threads. Vectors are
means of the tokens', of length 1.
"""

import argparse

import numpy as np
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from transformers import AutoTokenizer


class Request(BaseModel):
    inputs: str | list[str]


def by_torch(arguments):
    """What PyTorch computes: the last hidden states, or the logits."""
    import torch
    from transformers import AutoModel, AutoModelForSequenceClassification

    torch.set_num_threads(arguments.threads)
    kind = AutoModel if arguments.task == "embed" else AutoModelForSequenceClassification
    model = kind.from_pretrained(arguments.folder).eval()

    def compute(batch):
        with torch.inference_mode():
            found = model(**{name: torch.from_numpy(array) for name, array in batch.items()})
        return (found.last_hidden_state if arguments.task == "embed" else found.logits).numpy()

    return compute, model.config.id2label


def by_onnx(arguments):
    """The same of ONNX Runtime."""
    import onnxruntime
    from transformers import AutoConfig

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = arguments.threads
    session = onnxruntime.InferenceSession(arguments.onnx, options, providers=["CPUExecutionProvider"])
    names = {found.name for found in session.get_inputs()}

    def compute(batch):
        return session.run(None, {name: array for name, array in batch.items() if name in names})[0]

    return compute, AutoConfig.from_pretrained(arguments.folder).id2label


def service(arguments):
    tokenizer = AutoTokenizer.from_pretrained(arguments.folder)
    compute, labels = by_onnx(arguments) if arguments.onnx else by_torch(arguments)
    app = FastAPI()

    def computed(request):
        texts = [request.inputs] if isinstance(request.inputs, str) else request.inputs
        batch = dict(tokenizer(texts, padding=True, truncation=True, return_tensors="np"))
        return compute(batch), batch["attention_mask"]

    @app.post("/embed")
    def embed(request: Request):
        hidden, mask = computed(request)
        mean = (hidden * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
        return (mean / np.linalg.norm(mean, axis=1, keepdims=True)).tolist()

    @app.post("/predict")
    def predict(request: Request):
        logits, _ = computed(request)
        powers = np.exp(logits - logits.max(1, keepdims=True))
        rows = powers / powers.sum(1, keepdims=True)
        found = [[{"label": labels[i], "score": float(row[i])} for i in np.argsort(-row)] for row in rows]
        return found[0] if isinstance(request.inputs, str) else found

    return app


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--task", choices=["embed", "predict"], default="embed")
    parser.add_argument("--onnx")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    uvicorn.run(service(arguments), host="127.0.0.1", port=arguments.port, log_level="warning")
