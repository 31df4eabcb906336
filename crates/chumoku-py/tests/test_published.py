"""Compares published models with our attention and with PyTorch's. `CHUMOKU_CHECKPOINTS` names a folder with minilm, e5
and smollm2."""

import os
import pathlib

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import chumoku.transformers  # noqa: E402

FOLDER = os.environ.get("CHUMOKU_CHECKPOINTS")
TEXTS = ["I would buy it again tomorrow, and so would my neighbour's dog.", "Attention is", "It was cold."]


def both(auto, name):
    if FOLDER is None:
        pytest.skip("CHUMOKU_CHECKPOINTS names no folder of published models")
    chumoku.transformers.register()
    folder = pathlib.Path(FOLDER) / name
    load = lambda attention: auto.from_pretrained(folder, attn_implementation=attention, dtype=torch.float32).eval()
    return load("eager"), load("chumoku")


def tokens(name, pad, **options):
    file = pathlib.Path(FOLDER) / name / "tokenizer.json"
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(file), pad_token=pad, **options)
    return dict(tokenizer(TEXTS, padding=True, return_tensors="pt", return_token_type_ids=False))


def close(a, b, mask):
    a, b = a[mask.bool()], b[mask.bool()]
    torch.testing.assert_close(a / a.abs().max(), b / a.abs().max(), atol=5e-6, rtol=0)


@pytest.mark.parametrize("name, pad", [("minilm", "[PAD]"), ("e5", "<pad>")])
def test_encoders(name, pad):
    eager, ours = both(transformers.AutoModel, name)
    inputs = tokens(name, pad)
    with torch.no_grad():
        close(eager(**inputs).last_hidden_state, ours(**inputs).last_hidden_state, inputs["attention_mask"])


def test_a_language_model():
    eager, ours = both(transformers.AutoModelForCausalLM, "smollm2")
    inputs = tokens("smollm2", "<|endoftext|>", padding_side="left")
    with torch.no_grad():
        a, b = (made(**inputs, output_hidden_states=True).hidden_states[-1] for made in (eager, ours))
    close(a, b, inputs["attention_mask"])
    options = {"max_new_tokens": 40, "do_sample": False, "pad_token_id": 0}
    assert torch.equal(eager.generate(**inputs, **options), ours.generate(**inputs, **options))
