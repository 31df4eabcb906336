"""A typical hand-written service for vectors or classes: FastAPI with PyTorch (transformers) or ONNX Runtime.

    pip install fastapi uvicorn transformers torch onnxruntime
    python serve_fastapi.py FOLDER [--task embed|predict] [--onnx model.onnx] [--port 8000] [--threads 2]

FOLDER is a Hugging Face folder, or a classifier that `chumoku train` made from scratch (`pip install safetensors`). Of
the latter only the network is served, without the n-grams, with PyTorch's encoder or the file of `chumoku export`. The
service answers `POST /embed` or `POST /predict` with {"inputs": "text" or [texts]} like `chumoku serve`;
`serve_load.py` measures both. Handlers are plain functions, so uvicorn runs them on its thread pool. Vectors are means
over the tokens, of length 1. """

import argparse
import json
from pathlib import Path

import numpy as np
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel


class Request(BaseModel):
    inputs: str | list[str]


def own_config(folder):
    """Returns the configuration of a classifier made by Chumoku, or None for other folders."""
    config = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
    return config if config.get("model_type") == "chumoku_text_classifier" else None


def own_by_torch(arguments, config):
    """Such a classifier in PyTorch, whose encoder uses the same names of weights."""
    import torch
    from safetensors.torch import load_file
    from torch_train import Classifier

    expected = {"norm_order": "pre", "activation": "gelu", "position": "sinusoidal", "pooling": "mean", "causal": False}
    assert all(config[name] == value for name, value in expected.items()), config
    sizes = {name: config[name] for name in ("d_model", "max_length", "d_ff")}
    model = Classifier(config["vocab_size"], config["num_classes"], config["num_layers"], heads=config["num_heads"], dropout=0.0, **sizes)
    weights = load_file(Path(arguments.folder) / "model.safetensors")
    model.load_state_dict({name: weights.get(name, own) for name, own in model.state_dict().items()})
    model.eval()

    def compute(batch):
        mask = torch.from_numpy(batch["attention_mask"]) == 0
        with torch.inference_mode():
            return model(torch.from_numpy(batch["input_ids"]), mask if mask.any() else None).numpy()

    return compute


def own_tokenizer(folder, most):
    """Returns padded arrays of tokens, truncated to the length of the network."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))
    tokenizer.enable_truncation(most)
    tokenizer.enable_padding()

    def encode(texts):
        found = tokenizer.encode_batch(texts)
        return {"input_ids": np.array([each.ids for each in found]), "attention_mask": np.array([each.attention_mask for each in found])}

    return encode


def by_torch(arguments):
    """Returns a function that computes the last hidden states, or the logits, with PyTorch."""
    import torch
    from transformers import AutoModel, AutoModelForSequenceClassification

    kind = AutoModel if arguments.task == "embed" else AutoModelForSequenceClassification
    model = kind.from_pretrained(arguments.folder).eval()

    def compute(batch):
        with torch.inference_mode():
            found = model(**{name: torch.from_numpy(array) for name, array in batch.items()})
        return (found.last_hidden_state if arguments.task == "embed" else found.logits).numpy()

    return compute


def by_onnx(arguments):
    """Returns the same function for ONNX Runtime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = arguments.threads
    session = onnxruntime.InferenceSession(arguments.onnx, options, providers=["CPUExecutionProvider"])
    names = {found.name for found in session.get_inputs()}

    def compute(batch):
        return session.run(None, {name: array for name, array in batch.items() if name in names})[0]

    return compute


def read(arguments):
    """Returns the tokenizer function, the model function, and the classes."""
    if not arguments.onnx:
        import torch

        torch.set_num_threads(arguments.threads)
    if config := own_config(arguments.folder):
        compute = by_onnx(arguments) if arguments.onnx else own_by_torch(arguments, config)
        return own_tokenizer(arguments.folder, config["max_length"]), compute, config["labels"]
    from transformers import AutoConfig, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(arguments.folder)
    compute = by_onnx(arguments) if arguments.onnx else by_torch(arguments)
    labels = AutoConfig.from_pretrained(arguments.folder).id2label
    return lambda texts: dict(tokenizer(texts, padding=True, truncation=True, return_tensors="np")), compute, labels


def service(arguments):
    encode, compute, labels = read(arguments)
    app = FastAPI()

    def computed(request):
        texts = [request.inputs] if isinstance(request.inputs, str) else request.inputs
        batch = encode(texts)
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
