"""`chumoku.torch.watch`: the recorded numbers are right, and every model has a page."""

import json
import math

import pytest

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")

import chumoku  # noqa: E402
import chumoku.torch  # noqa: E402


def transformer(name, head):
    transformers = pytest.importorskip("transformers")
    from tiny import config

    torch.manual_seed(0)
    try:
        made = getattr(transformers, head).from_config(config(name))
    except (AttributeError, ValueError) as error:
        pytest.skip(str(error))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in made.parameters():
            p.add_(0.2 * torch.randn(p.shape, generator=generator))
    return made.eval()


def batch(side="right", length=9, missing=3):
    ids = torch.randint(3, 99, (2, length), generator=torch.Generator().manual_seed(2))
    mask = torch.ones_like(ids)
    hidden = slice(length - missing, None) if side == "right" else slice(0, missing)
    mask[1, hidden] = 0
    return {"input_ids": ids, "attention_mask": mask}


class Names:
    """A minimal tokenizer for the page."""

    all_special_ids = [3]

    def decode(self, ids):
        return " ".join(f"t{i}" for i in ids)

    def convert_ids_to_tokens(self, ids):
        return [f"t{i}" for i in ids]


def cosine(a, b):
    return float(torch.nn.functional.cosine_similarity(a, b, dim=0))


def eager_weights(model, inputs):
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    with torch.no_grad():
        found = model(**inputs, output_attentions=True)
    model.set_attn_implementation(before)
    return found


def hooks(model):
    return [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules()]


def test_records_are_right_and_the_model_is_unchanged():
    model, inputs = transformer("bert", "AutoModel"), batch()
    expected = eager_weights(model, inputs)
    before, had = model.config._attn_implementation, hooks(model)
    with torch.no_grad(), chumoku.torch.watch(model) as seen:
        found = model(**inputs)
    real = inputs["attention_mask"].bool()
    torch.testing.assert_close(found.last_hidden_state[real], expected.last_hidden_state[real], atol=5e-6, rtol=1e-4)
    assert model.config._attn_implementation == before and len(seen) == 2
    assert [entry.layer for entry in seen] == [0, 1] and "attention" in seen[0].module
    for entry, weights in zip(seen, expected.attentions):
        assert entry.shape == (2, 4, 9, 9)
        rows = real[:, None, :].expand(2, 4, 9)
        entropy = -(weights * weights.clamp(min=1e-30).log()).sum(-1)
        torch.testing.assert_close(entry.entropy[rows], entropy[rows], atol=1e-4, rtol=0)
        torch.testing.assert_close(entry.weights()[rows], weights[rows], atol=5e-6, rtol=0)
        torch.testing.assert_close(entry.top_weights[..., 0][rows], weights.max(-1).values[rows], atol=5e-6, rtol=0)
        assert (entry.mass[1, :, 6:] == 0).all()
    with torch.no_grad():
        model(**inputs)
    assert len(seen) == 2, "nothing is collected outside"
    assert hooks(model) == had


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize(
    ("name", "head"),
    [("bert", "AutoModel"), ("bert", "AutoModelForSequenceClassification"), ("distilbert", "AutoModelForSequenceClassification"),
     ("roberta", "AutoModelForMaskedLM"), ("modernbert", "AutoModel"), ("gpt2", "AutoModelForCausalLM"),
     ("llama", "AutoModelForCausalLM"), ("gemma2", "AutoModelForCausalLM"), ("gpt_oss", "AutoModelForCausalLM"),
     ("qwen3", "AutoModel")],
)  # fmt: skip
def test_the_page_of_a_model(name, head, side):
    model, inputs = transformer(name, head), batch(side)
    with torch.no_grad(), chumoku.torch.watch(model, Names()) as seen:
        output = model(**inputs)
    found = seen.explain(item=1)
    real = inputs["attention_mask"][1].bool()
    ids = inputs["input_ids"][1][real].tolist()
    has_sink = name == "gpt_oss"
    assert found.words[has_sink:] == [f"t{i}" for i in ids]
    assert found.attention.shape == (2, 4, 6 + has_sink, 6 + has_sink)
    expected = torch.stack(eager_weights(model, inputs).attentions)[:, 1][:, :, real][..., real]
    np.testing.assert_allclose(found.attention[:, :, has_sink:, has_sink:], expected.numpy(), atol=1e-5)
    np.testing.assert_allclose(found.attention.sum(-1), 1, atol=1e-4)
    is_causal = name in ("gpt2", "llama", "gemma2", "gpt_oss", "qwen3")
    assert found.data["causal"] == is_causal
    # Compares the model's output with its output without a token.
    if head == "AutoModelForSequenceClassification":
        p = output.logits[1].softmax(-1)
        assert found.label == model.config.id2label[int(p.argmax())] and found.similarity is None
        best = int(p.argmax())
        without = {n: x[1:, [i for i in range(9) if i != real.nonzero()[2]]] for n, x in inputs.items()}
        with torch.no_grad():
            q = model(**without).logits[0].softmax(-1)[best]
        expected = math.log(p[best] / (1 - p[best])) - math.log(q / (1 - q))
        assert abs(found.effects[2] - expected) < 1e-3
    elif head == "AutoModelForCausalLM":
        last = int(real.nonzero()[-1])
        p = output.logits[1, last].softmax(-1)
        assert found.label == f"t{int(p.argmax())}" and len(found.probabilities) == 10
        assert abs(found.probabilities[found.label] - float(p.max())) < 1e-5
        left = [i for i in range(9) if i != int(real.nonzero()[1])]
        with torch.no_grad():
            q = model(**{n: x[1:, left] for n, x in inputs.items()}).logits[0, last - 1].softmax(-1)[int(p.argmax())]
        change = torch.logit(p.max().double()) - torch.logit(q.double())
        assert abs(found.effects[has_sink + 1] - float(change)) < 1e-3
        if has_sink:
            assert found.words[0] == "(sink)" and (found.attention[:, :, 0, 0] == 1).all() and found.effects[0] == 0
            assert found.data["words"][0]["special"] is True
    else:
        assert found.similarity == 1.0 and all(effect >= -1e-6 for effect in found.effects)
        left = [i for i in range(9) if i != int(real.nonzero()[1])]
        states = lambda output: output.last_hidden_state if hasattr(output, "last_hidden_state") else output.logits
        with torch.no_grad():
            other = states(model(**{n: x[1:, left] for n, x in inputs.items()}))[0][inputs["attention_mask"][1, left].bool()].mean(0)
        assert abs(found.effects[1] - (1 - cosine(states(output)[1][real].mean(0), other))) < 1e-5
    page = found.page("ja")
    assert page.startswith("<!doctype html>") or page.lstrip().lower().startswith("<!doctype")
    assert f"t{ids[0]}" in page and len(found._repr_html_()) < 100_000


@pytest.mark.parametrize("name", ["t5", "marian"])
def test_the_page_of_a_translator(name):
    model, inputs = transformer(name, "AutoModelForSeq2SeqLM"), batch()
    written = torch.randint(3, 99, (2, 5), generator=torch.Generator().manual_seed(4))
    call = inputs | {"decoder_input_ids": written}
    with torch.no_grad(), chumoku.torch.watch(model, Names()) as seen:
        output = model(**call)
    assert len(seen) == 6
    found = seen.explain(item=1)
    assert isinstance(found, chumoku.Alignment)
    ids = inputs["input_ids"][1][:6].tolist()
    assert found.source_words == [f"t{i}" for i in ids] and len(found.target_words) == 5
    assert found.target_words[:4] == [f"t{i}" for i in written[1][1:].tolist()]
    assert found.target_words[4] == f"t{int(output.logits[1, -1].argmax())}"
    eager = eager_weights(model, call)
    expected = torch.stack(eager.cross_attentions)[:, 1][..., :6]
    np.testing.assert_allclose(found.attention, expected.numpy(), atol=1e-5)
    log_p = output.logits[1].log_softmax(-1)
    assert abs(found.data["log_probabilities"][1] - float(log_p[1, written[1, 2]])) < 1e-4
    left = [i for i in range(9) if i != 1]
    with torch.no_grad():
        other = model(input_ids=inputs["input_ids"][1:, left], attention_mask=inputs["attention_mask"][1:, left],
                      decoder_input_ids=written[1:]).logits[0].log_softmax(-1)  # fmt: skip
    change = float(log_p[1, written[1, 2]] - other[1, written[1, 2]])
    assert abs(found.effects[1][1] - change) < 1e-3
    assert found.target_words[0] in found.page() and len(found._repr_html_()) < 100_000
    encoder = seen.explain(item=1, part="encoder")
    np.testing.assert_allclose(encoder.attention, torch.stack(eager.encoder_attentions)[:, 1][..., :6, :6].numpy(), atol=1e-5)
    decoder = seen.explain(item=1, part="decoder")
    assert decoder.data["causal"] and decoder.words == [f"t{i}" for i in written[1].tolist()]
    np.testing.assert_allclose(decoder.attention, torch.stack(eager.decoder_attentions)[:, 1].numpy(), atol=1e-5)
    with pytest.raises(ValueError, match="part: expected one of"):
        seen.explain(part="middle")
    # The effect of a source token on its vector, and of a translation token on the next token.
    full = model.get_encoder()(input_ids=inputs["input_ids"][1:, :6]).last_hidden_state[0].mean(0)
    less = model.get_encoder()(input_ids=inputs["input_ids"][1:, [0, 2, 3, 4, 5]]).last_hidden_state[0].mean(0)
    assert abs(encoder.effects[1] - (1 - cosine(full, less))) < 1e-5 and encoder.data["kind"] == "encoder"
    assert decoder.label == f"t{int(output.logits[1, -1].argmax())}" and decoder.data["kind"] == "language_model"
    with torch.no_grad():
        left = model(**{n: x[1:] for n, x in inputs.items()}, decoder_input_ids=written[1:, [0, 2, 3, 4]]).logits[0, -1]
    p, q = (z.double().softmax(-1)[int(output.logits[1, -1].argmax())] for z in (output.logits[1, -1], left))
    assert abs(decoder.effects[1] - float(torch.logit(p) - torch.logit(q))) < 1e-3


class Reader(torch.nn.Module):
    """A custom module that uses both of PyTorch's entry points."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(50, 16)
        self.first = torch.nn.MultiheadAttention(16, 2, batch_first=True)
        self.layers = torch.nn.ModuleList([torch.nn.Linear(16, 48), torch.nn.Linear(16, 3)])

    def forward(self, ids):
        x = self.embedding(ids)
        x = x + self.first(x, x, x, need_weights=False)[0]
        q, k, v = (t.unflatten(-1, (2, 8)).transpose(1, 2) for t in self.layers[0](x).chunk(3, -1))
        x = torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return self.layers[1](x.mean(1))


def test_custom_modules_that_call_pytorch():
    torch.manual_seed(0)
    model, ids = Reader().eval(), torch.randint(0, 50, (2, 7))
    with torch.no_grad():
        plain = model(ids)
        with chumoku.torch.watch(model) as seen:
            watched = model(ids)
        x = model.embedding(ids)
        expected = model.first(x, x, x, need_weights=True, average_attn_weights=False)[1]
    torch.testing.assert_close(watched, plain, atol=1e-6, rtol=0)
    assert [(entry.module, entry.shape) for entry in seen] == [("first", (2, 2, 7, 7)), ("", (2, 2, 7, 7))]
    torch.testing.assert_close(seen[0].weights(), expected, atol=1e-6, rtol=0)
    found = seen.explain(item=1)
    assert found.label == str(int(plain[1].argmax())) and found.words == [str(i) for i in ids[1].tolist()]
    named = seen.explain(tokens=[f"word{i}" for i in range(7)])
    assert named.words[3] == "word3"
    # Also in training, with gradients, and if the model raises.
    model.train()
    with chumoku.torch.watch(model, top=2) as seen:
        model(ids).sum().backward()
        with pytest.raises(IndexError):
            model(torch.full((1, 3), 99))
        model(ids)
    assert len(seen) == 4 and seen[0].top_keys.shape[-1] == 2 and not seen[0].entropy.requires_grad
    assert seen.explain().attention.shape == (2, 2, 7, 7)
    seen.clear()
    assert len(seen) == 0


def test_unsupported_pages_are_reported():
    model, inputs = transformer("gpt2", "AutoModelForCausalLM"), batch()
    with chumoku.torch.watch() as all_calls, chumoku.torch.watch(model) as seen:
        with pytest.raises(ValueError, match="was not called"):
            seen.explain()
        with torch.no_grad():
            model.generate(inputs["input_ids"][:1], max_new_tokens=3, do_sample=False)
    assert len(seen) == len(all_calls) == 6
    with pytest.raises(ValueError, match="whole text"):
        seen.explain()
    with pytest.raises(ValueError, match="use watch"):
        all_calls.explain()
    with torch.no_grad(), chumoku.torch.watch(model) as seen:
        model(**inputs)
    with pytest.raises(ValueError, match="from 0 to 1, got 2"):
        seen.explain(item=2)
    with pytest.raises(ValueError, match="expected 9 names"):
        seen.explain(tokens=["a"])
    with pytest.raises(ValueError, match="only an encoder"):
        seen.explain(part="cross")
    json.dumps(seen.explain().data)
    for arguments, error, match in ((("bert",), TypeError, "expected a torch.nn.Module"), ((model, None), ValueError, "top: expected")):
        with pytest.raises(error, match=match), chumoku.torch.watch(*arguments, top=0):
            pass


def test_token_names():
    model, inputs = transformer("bert", "AutoModel"), batch("left")
    inputs["input_ids"][1, 4] = 3
    with torch.no_grad(), chumoku.torch.watch(model, Names()) as seen:
        model(**inputs)
    found = seen.explain(item=1)
    assert [word["special"] for word in found.data["words"]] == [False, True, False, False, False, False]
    assert found.effects[1] == 0 and found.effects[0] != 0
    assert "t3" not in found.data["text"].split() and found.data["model"] == "BertModel"
    named = seen.explain(item=1, tokens=[f"w{i}" for i in range(9)])
    assert named.words == [f"w{i}" for i in range(3, 9)]

    class Spaces(Names):
        def decode(self, ids):
            return "  " if ids == [3] else f" x{ids[0]} "

    with torch.no_grad(), chumoku.torch.watch(model, Spaces()) as seen:
        model(**inputs)
    assert seen.explain(item=1).words[:2] == [f"x{int(inputs['input_ids'][1, 3])}", "t3"]


def test_a_training_model_is_evaluated_without_dropout_and_restored():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.BertConfig(vocab_size=99, hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=64)
    model = transformers.AutoModelForSequenceClassification.from_config(config).train()
    ids = torch.randint(3, 99, (1, 40))
    with chumoku.torch.watch(model) as seen:
        model(ids)
    a, b = seen.explain(), seen.explain()
    assert a.effects == b.effects and model.training and a.probabilities == b.probabilities
    # More tokens than fit into one batch of removals: each effect belongs to its token.
    model.eval()
    with torch.no_grad():
        p = model(ids).logits[0].softmax(-1)
        best = int(p.argmax())
        for place in (0, 31, 32, 39):
            q = model(torch.cat([ids[:, :place], ids[:, place + 1 :]], 1)).logits[0].softmax(-1)[best]
            assert abs(a.effects[place] - float(torch.logit(p[best]) - torch.logit(q))) < 1e-3, place


def test_positions_close_the_gap():
    model, inputs = transformer("bert", "AutoModel"), batch(missing=0)
    with torch.no_grad(), chumoku.torch.watch(model) as plain:
        model(**inputs)
    with torch.no_grad(), chumoku.torch.watch(model) as said:
        model(**inputs, position_ids=torch.arange(9).expand(2, 9))
    np.testing.assert_allclose(said.explain().effects, plain.explain().effects, atol=1e-6)


def test_a_translation_with_labels():
    model, inputs = transformer("marian", "AutoModelForSeq2SeqLM"), batch()
    labels = torch.randint(3, 99, (2, 5), generator=torch.Generator().manual_seed(4))
    with torch.no_grad(), chumoku.torch.watch(model, Names()) as seen:
        model(**inputs, labels=labels)
    found = seen.explain(item=1)
    assert found.target_words == [f"t{i}" for i in labels[1].tolist()]
    labels[1, 3:] = -100
    with torch.no_grad(), chumoku.torch.watch(model, Names()) as seen:
        model(**inputs, labels=labels)
    assert seen.explain(item=1).target_words == [f"t{i}" for i in labels[1, :3].tolist()]
    assert seen.explain(item=1, part="decoder").words[0] == "t0"


def test_pytorch_layers_with_a_fast_path():
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 2).eval()
    before = torch.backends.mha.get_fastpath_enabled()
    with torch.no_grad(), chumoku.torch.watch(model) as seen:
        model(torch.randn(2, 5, 16))
        assert not torch.backends.mha.get_fastpath_enabled()
    assert [entry.layer for entry in seen] == [0, 1] and torch.backends.mha.get_fastpath_enabled() == before
    assert torch.nn.functional.scaled_dot_product_attention.__module__ != "chumoku._watch"


def test_modules_are_tracked_after_an_exception():
    model = Reader().eval()
    with torch.no_grad(), chumoku.torch.watch(model) as seen:
        with pytest.raises(IndexError):
            model(torch.full((1, 3), 99))
        model(torch.ones(1, 4, dtype=torch.long))
    assert [entry.module for entry in seen] == ["first", ""]


def test_attention_that_returns_its_weights_is_recorded():
    torch.manual_seed(0)
    layer, x = torch.nn.MultiheadAttention(16, 2, batch_first=True, dropout=0.5).train(), torch.randn(2, 5, 16)
    torch.manual_seed(1)
    plain = layer(x, x, x)[0]
    torch.manual_seed(1)
    with chumoku.torch.watch(layer) as seen:
        watched = layer(x, x, x)[0]
    assert len(seen) == 1 and torch.equal(plain, watched), "watching draws no numbers"


def test_nested_watches():
    model = Reader().eval()
    ids = torch.ones(1, 4, dtype=torch.long)
    with torch.no_grad(), chumoku.torch.watch() as outer, chumoku.torch.watch(model) as inner:
        model(ids)
        inner.explain()
    assert len(outer) == len(inner) == 2
    with torch.no_grad(), chumoku.torch.watch(model) as one, chumoku.torch.watch(model) as other:
        model(ids)
    assert len(one) == len(other) == 2 and one.explain().data["layers"] == 2


def test_regression_and_multi_label_heads():
    transformers = pytest.importorskip("transformers")
    sizes = dict(vocab_size=99, hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=64)
    ids = torch.randint(3, 99, (1, 6), generator=torch.Generator().manual_seed(0))
    for labels, problem in ((1, None), (3, "multi_label_classification")):
        torch.manual_seed(0)
        config = transformers.BertConfig(**sizes, num_labels=labels, problem_type=problem)
        model = transformers.AutoModelForSequenceClassification.from_config(config).eval()
        with torch.no_grad(), chumoku.torch.watch(model) as seen:
            logits = model(ids).logits[0]
            other = model(ids[:, 1:]).logits[0]
            model(ids)
        found, best = seen.explain(), int(logits.argmax())
        assert found.data["exclusive"] is False and found.data["kind"] == "classifier"
        assert abs(found.probabilities[found.label] - float(logits[best].sigmoid())) < 1e-5
        assert abs(found.effects[0] - float(logits[best] - other[best])) < 1e-4


def test_submodules_in_evaluation_mode_stay_so():
    model = Reader().train()
    model.first.eval()
    with chumoku.torch.watch(model) as seen:
        model(torch.ones(1, 4, dtype=torch.long))
    seen.explain()
    assert model.training and not model.first.training and model.layers.training


def test_temporary_changes_are_undone():
    model = transformer("bert", "AutoModelForSequenceClassification")
    model.set_attn_implementation("eager")
    fast = torch.backends.mha.get_fastpath_enabled()
    one, other = chumoku.torch.watch(model), chumoku.torch.watch(model)
    one.__enter__(), other.__enter__()
    one.__exit__(None, None, None)
    assert model.config._attn_implementation == "chumoku" and not torch.backends.mha.get_fastpath_enabled()
    other.__exit__(None, None, None)
    assert model.config._attn_implementation == "eager" and torch.backends.mha.get_fastpath_enabled() == fast
    both = transformer("t5", "AutoModelForSeq2SeqLM")
    both.encoder.set_attn_implementation("eager")
    with chumoku.torch.watch(both):
        assert both.encoder.config._attn_implementation == both.config._attn_implementation == "chumoku"
    assert both.encoder.config._attn_implementation == "eager"


def test_concurrent_watches_in_threads():
    import threading

    model, ids = Reader().eval(), torch.ones(1, 4, dtype=torch.long)
    plain = torch.nn.functional.scaled_dot_product_attention
    counts = []

    def use():
        for _ in range(20):
            with torch.no_grad(), chumoku.torch.watch(model) as seen:
                model(ids)
                counts.append([entry.module for entry in seen])

    threads = [threading.Thread(target=use) for _ in range(3)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert counts == [["first", ""]] * 60
    assert torch.nn.functional.scaled_dot_product_attention is plain


def test_a_hook_removed_during_a_call_of_another_thread():
    import threading

    model, failed = Reader().eval(), []
    with chumoku.torch.watch(model):
        [before], [after] = ([*hooks.values()] for hooks in (model._forward_pre_hooks, model._forward_hooks))

        def call():
            try:
                # PyTorch has forgotten that they take keyword arguments.
                before(model, ())
                after(model, (), None)
            except TypeError as error:
                failed.append(error)

        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
    assert not failed


def test_a_translator_with_source_and_target_of_equal_length():
    """Operations on the source do not affect a translation with the same number of tokens."""
    model, inputs = transformer("marian", "AutoModelForSeq2SeqLM"), batch()
    call = inputs | {"decoder_input_ids": inputs["input_ids"].flip(1)}
    with torch.no_grad(), chumoku.torch.watch(model, Names()) as seen:
        model(**call)
    with torch.no_grad(), chumoku.torch.watch(model, Names()) as other:
        model(**inputs, decoder_input_ids=inputs["input_ids"].flip(1)[:, :5])
    for part in ("encoder", "cross"):
        found, expected = (np.array(each.explain(item=1, part=part).effects, float)[:5] for each in (seen, other))
        np.testing.assert_allclose(found[:4], expected[:4], atol=1e-4)


def test_decoders_made_of_encoders_and_encoder_decoder_classifiers():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    side = transformers.BertConfig(vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
    config = transformers.EncoderDecoderConfig.from_encoder_decoder_configs(side, side)
    model, inputs = transformers.EncoderDecoderModel(config).eval(), batch(missing=0)
    with torch.no_grad(), chumoku.torch.watch(model) as seen:
        model(**inputs, decoder_input_ids=inputs["input_ids"])
    for part in ("encoder", "decoder"):
        assert seen.explain(part=part).attention.shape == (2, 4, 9, 9)
    assert seen.explain().attention.shape == (2, 4, 9, 9)
    config = transformers.BartConfig(
        vocab_size=99, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=64, num_labels=3, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    model = transformers.BartForSequenceClassification(config).eval()
    ids = torch.cat([inputs["input_ids"], torch.full((2, 1), 2)], 1)

    class Ends(Names):
        all_special_ids = [2]

    with torch.no_grad(), chumoku.torch.watch(model, Ends()) as seen:
        p = model(ids).logits[0].softmax(-1)
    found = seen.explain()
    assert found.label == model.config.id2label[int(p.argmax())] and found.attention.shape == (1, 4, 10, 10)


def test_unexplainable_calls_are_reported():
    model, inputs = transformer("t5", "AutoModelForSeq2SeqLM"), batch()
    with torch.no_grad(), chumoku.torch.watch(model) as seen:
        model.generate(**inputs, max_new_tokens=2)
    with pytest.raises(ValueError, match="source .* with its translation|no attention was recorded|whole text"):
        seen.explain()
    bert = transformer("bert", "AutoModel")
    inputs["attention_mask"][1] = 0
    with torch.no_grad(), chumoku.torch.watch(bert) as seen:
        bert(**inputs)
    with pytest.raises(ValueError, match="text 1 of the batch, got only padding"):
        seen.explain(item=1)
    sideways = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(16, 2, 32), 1).eval()
    with torch.no_grad(), chumoku.torch.watch(sideways) as seen:
        sideways(torch.randn(7, 3, 16))
    with pytest.raises(ValueError, match="batch_first"):
        seen.explain()


def test_module_names_do_not_mislead():
    class Cross(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.cross_encoder, self.head = Reader(), torch.nn.Identity()
            self.cross_encoder.multihead_attn = self.cross_encoder.first
            del self.cross_encoder.first

        def forward(self, ids):
            inner = self.cross_encoder
            x = inner.embedding(ids)
            return inner.layers[1]((x + inner.multihead_attn(x, x, x)[0]).mean(1))

    model = Cross().eval()
    with torch.no_grad(), chumoku.torch.watch(model) as seen:
        model(torch.ones(1, 4, dtype=torch.long))
    assert seen[0].module == "cross_encoder.multihead_attn" and seen.explain().attention.shape == (1, 2, 4, 4)


def test_models_that_return_only_the_last_logits():
    model, inputs = transformer("llama", "AutoModelForCausalLM"), batch(missing=0)
    with torch.no_grad(), chumoku.torch.watch(model, Names()) as seen:
        short = model(**inputs, logits_to_keep=1).logits
    assert seen.explain().label == f"t{int(short[0, -1].argmax())}"
