import os
from collections.abc import Callable, Sequence
from typing import Any, final

__all__ = [
    "Classifier",
    "Explanation",
    "Options",
    "__version__",
    "attention_backward",
    "attention_forward",
    "attention_plan",
    "attention_statistics",
    "attention_weights",
    "get_num_threads",
    "instruction_set",
    "run_command",
    "set_num_threads",
    "train_classifier",
    "use_openmp",
]

__version__: str

# (address, type of numbers, shape, strides in numbers); None where there is none, of what may be missing.
_Array = tuple[Any, ...] | None

@final
class Options:
    def __new__(
        cls,
        *,
        scale: float | None = None,
        causal: bool = False,
        diagonal: str | int | None = None,
        window: tuple[int | None, int | None] | None = None,
        softcap: float | None = None,
        alibi: Sequence[float] | None = None,
        key_lengths: Sequence[int] | None = None,
        query_offsets: Sequence[int] | None = None,
        key_offsets: Sequence[int] | None = None,
        dropout: float = 0.0,
        seed: int = 0,
        precision: str = "highest",
        openmp: int = 0,
    ) -> Options: ...

def attention_forward(
    options: Options,
    query: _Array,
    key: _Array,
    value: _Array,
    mask: _Array,
    sinks: _Array,
    output: _Array,
    log_sum_exp: _Array,
) -> None: ...
def attention_backward(
    options: Options,
    query: _Array,
    key: _Array,
    value: _Array,
    mask: _Array,
    sinks: _Array,
    output: _Array,
    log_sum_exp: _Array,
    d_output: _Array,
    d_log_sum_exp: _Array,
    d_query: _Array,
    d_key: _Array,
    d_value: _Array,
    d_mask: _Array,
    d_sinks: _Array,
) -> None: ...
def attention_weights(
    options: Options,
    query: _Array,
    key: _Array,
    value: _Array,
    mask: _Array,
    sinks: _Array,
    weights: _Array,
) -> None: ...
def attention_statistics(
    options: Options,
    query: _Array,
    key: _Array,
    value: _Array,
    mask: _Array,
    sinks: _Array,
    mass: _Array,
    entropy: _Array,
    top_keys: _Array,
    top_weights: _Array,
) -> None: ...
def attention_plan(
    options: Options,
    query: _Array,
    key: _Array,
    value: _Array,
    mask: _Array,
    sinks: _Array,
) -> str: ...
def set_num_threads(threads: int) -> None: ...
def get_num_threads() -> int: ...
def use_openmp(address: int) -> None: ...
def instruction_set() -> str: ...
def run_command(args: Sequence[str]) -> int: ...

@final
class Classifier:
    @staticmethod
    def load(folder: str | os.PathLike[str]) -> Classifier: ...
    @property
    def labels(self) -> list[str]: ...
    def explain(self, text: str, name: str) -> Explanation: ...
    def predict(self, texts: Sequence[str], probabilities: tuple[Any, ...]) -> None: ...

@final
class Explanation:
    def json(self) -> str: ...
    def page(self, lang: str) -> str: ...

def train_classifier(
    file: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    epochs: int | None,
    seed: int,
    precision: str,
    from_pretrained: str | os.PathLike[str] | None,
    resume: bool,
    progress: Callable[[dict[str, Any]], Any] | None,
) -> tuple[str, bool]: ...
