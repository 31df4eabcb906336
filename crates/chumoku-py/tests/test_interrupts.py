"""Ctrl-C ends every long call, and other calls keep working."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

np = pytest.importorskip("numpy")

import chumoku  # noqa: E402
from test_classifier import rows  # noqa: E402
from test_models import CHECKPOINTS, pairs, text  # noqa: E402

# Seconds until the signal, and the maximum seconds that a call may take after it. Calls check for signals ten times a
# second.
AFTER, WITHIN = 0.3, 3.0
# How much larger the work is than the part that measures the machine's speed.
PARTS = 40


def ends(work, part):
    """Checks that a call ends long before its work is done. Its work is `PARTS` times that of `part`, since the
    duration depends on the machine."""
    start = time.perf_counter()
    part()
    whole = PARTS * (time.perf_counter() - start)
    threading.Timer(AFTER, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    start = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        work()
        # The call has already ended: still wait for the signal.
        time.sleep(60)
    took = time.perf_counter() - start - AFTER
    assert -0.05 < took < max(WITHIN, whole / 3), f"it went on for {took:.2f} of {whole:.2f} s"


def long(words, seed=0):
    random = np.random.default_rng(seed)
    return " ".join(f"w{i}" for i in random.integers(3000, size=words))


def test_a_classifier():
    texts, labels = rows(120)
    model = chumoku.TextClassifier(epochs=1, progress=None).fit(texts, labels)
    before = model.predict_proba(texts)
    story, many = [long(8000), long(8000 // PARTS)], [long(300, seed) for seed in range(8)] * 600
    for work in (lambda whole: model.explain(story[not whole]), lambda whole: model.predict(many[:: 1 if whole else PARTS])):
        ends(lambda: work(True), lambda: work(False))
        np.testing.assert_array_equal(model.predict_proba(texts), before)


def test_a_language_model():
    model = chumoku.LanguageModel(epochs=1, progress=None).fit(text())
    before = "".join(model.generate("The cat", max_tokens=10))
    story, few = long(6000), long(6000 // PARTS)
    ends(lambda: model.explain(story), lambda: model.explain(few))
    assert "".join(model.generate("The cat", max_tokens=10)) == before
    ends(lambda: model.evaluate([story] * PARTS), lambda: model.evaluate([story]))
    assert "".join(model.generate("The cat", max_tokens=10)) == before


def test_a_translator():
    model = chumoku.Translator(epochs=1, progress=None).fit(*pairs())
    before = list(model.translate(["one two"]))
    many = [long(40, seed) for seed in range(2000)]
    for work in (lambda texts: list(model.translate(texts)), lambda texts: model.evaluate(texts, texts)):
        ends(lambda: work(many), lambda: work(many[::PARTS]))
        assert list(model.translate(["one two"])) == before


def test_the_doctor():
    texts = [long(60, seed) for seed in range(3000)]
    work = lambda n: chumoku.doctor(texts[:n], [f"class {i % 7}" for i in range(n)])  # noqa: E731
    ends(lambda: work(3000), lambda: work(3000 // PARTS))


@pytest.mark.skipif(not CHECKPOINTS.exists(), reason="no checkpoints are here")
def test_an_embedder():
    model = chumoku.Embedder(CHECKPOINTS / "minilm")
    before = model.transform(["a text"])
    many = [long(200, seed) for seed in range(500)] * 4
    for work, part in [
        (lambda: model.transform(many), lambda: model.transform(many[::PARTS])),
        (lambda: model.explain(long(3000)), lambda: model.explain(long(3000 // PARTS))),
    ]:
        ends(work, part)
        np.testing.assert_array_equal(model.transform(["a text"]), before)


def test_calls_of_other_threads_are_not_interrupted():
    texts, labels = rows(120)
    model = chumoku.TextClassifier(epochs=1, progress=None).fit(texts, labels)
    many, story, found = [long(200, seed) for seed in range(8)] * 30, long(8000), []
    expected = model.predict_proba(many)
    thread = threading.Thread(target=lambda: found.append(model.predict_proba(many)))
    thread.start()
    ends(lambda: model.explain(story), lambda: model.explain(long(8000 // PARTS)))
    thread.join()
    np.testing.assert_array_equal(found[0], expected)


def test_other_threads_on_the_same_pool_continue():
    texts, labels = rows(120)
    model = chumoku.TextClassifier(epochs=1, progress=None).fit(texts, labels)
    writer = chumoku.LanguageModel(epochs=1, progress=None).fit(text())
    expected = "".join(writer.generate("The cat", max_tokens=20))
    query = np.random.default_rng(0).standard_normal((2, 4, 512, 32)).astype(np.float32)
    attended = chumoku.attention(query, query, query)
    found, is_over = [], threading.Event()

    def others():
        while not is_over.is_set():
            try:
                found.append("".join(writer.generate("The cat", max_tokens=20)) == expected)
                found.append(np.array_equal(chumoku.attention(query, query, query), attended))
                found.append(len(chumoku.TextClassifier(epochs=1, progress=None).fit(texts, labels).classes_) == 2)
            except BaseException as error:
                found.append(error)

    thread = threading.Thread(target=others)
    thread.start()
    many = [long(300, seed) for seed in range(8)] * 600
    try:
        for _ in range(6):
            ends(lambda: model.predict(many), lambda: model.predict(many[::PARTS]))
    finally:
        is_over.set()
        thread.join()
    assert len(found) > 5 and all(each is True for each in found), found


def test_other_calls_are_answered_during_generation():
    code = """
import chumoku
from test_classifier import rows
from test_models import text
chumoku.set_num_threads(1)
writer = chumoku.LanguageModel(epochs=1, progress=None).fit(text())
model = chumoku.TextClassifier(model="ngrams", progress=None).fit(*rows(60))
pieces = [model.predict([piece + " good"])[0] for piece in writer.generate("The cat", max_tokens=20)]
streams = [writer.generate("The cat", max_tokens=9) for _ in range(3)]
print(len(pieces), sum(len(list(stream)) for stream in streams))
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=os.path.dirname(__file__), timeout=120)
    assert found.returncode == 0 and int(found.stdout.split()[0]) > 3, found


def test_exceptions_of_signal_handlers_are_raised():
    texts, labels = rows(120)
    model = chumoku.TextClassifier(epochs=1, progress=None).fit(texts, labels)

    def late(*_):
        raise TimeoutError("late")

    before = signal.signal(signal.SIGALRM, late)
    try:
        signal.setitimer(signal.ITIMER_REAL, AFTER)
        with pytest.raises(TimeoutError, match="late"):
            model.explain(long(8000))
    finally:
        signal.signal(signal.SIGALRM, before)
