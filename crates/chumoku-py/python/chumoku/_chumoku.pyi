import builtins
import os
from collections.abc import Callable, Sequence
from typing import Any, final

__all__ = [
    "Classifier",
    "DoctorResult",
    "Autoencoder",
    "Embedder",
    "Generator",
    "Options",
    "Output",
    "Page",
    "Row",
    "RowAnswerer",
    "RowPredictor",
    "RowReader",
    "Tagger",
    "TextStream",
    "Trace",
    "Translator",
    "__version__",
    "attention_backward",
    "attention_forward",
    "attention_plan",
    "attention_statistics",
    "attention_weights",
    "beside",
    "check",
    "count",
    "examine",
    "example_names",
    "get_num_threads",
    "instruction_set",
    "is_one_of",
    "joined",
    "joined_gradients",
    "label_note",
    "merged_labels",
    "model_kind",
    "read_labels",
    "read_table",
    "run_command",
    "run_in_worker_group",
    "set_num_threads",
    "span_f1",
    "train",
    "unanswered",
    "use_openmp",
    "write_file",
]

__version__: str

# (address, element type, shape, strides in elements); None for an optional array that is absent.
_Array = tuple[Any, ...] | None
_Path = str | os.PathLike[str]
_Row = str | Row
_InnerSteps = tuple[_Row | None, str | None, bool | None]

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
def run_in_worker_group(args: Sequence[str], member: Any, is_coordinator: bool) -> int: ...
def joined_gradients(
    parts: Sequence[tuple[float, float, int]], grads: Sequence[_Array], sum: _Array
) -> tuple[float, float, int]: ...

@final
class Classifier:
    @staticmethod
    def load(folder: _Path) -> Classifier: ...
    @property
    def labels(self) -> list[str]: ...
    @property
    def task(self) -> str: ...
    @property
    def reads_pairs(self) -> bool: ...
    @property
    def columns(self) -> list[str]: ...
    def unread(self, texts: Sequence[_Row]) -> list[str]: ...
    @property
    def thresholds(self) -> list[float] | None: ...
    def bounds(self, level: float) -> tuple[float, float] | None: ...
    def answered(self, texts: Sequence[_Row], level: float) -> list[bool]: ...
    def precise(self, class_: int, level: float) -> float | None: ...
    def known(self, texts: Sequence[_Row]) -> list[float]: ...
    def answers(self, probabilities: list[list[float]]) -> list[int] | None: ...
    def has_tree(self) -> bool: ...
    def tidied(self, labels: list[list[str]]) -> list[list[str]] | None: ...
    def raised(self, thresholds: list[float]) -> list[float]: ...
    def explain(self, text: _Row, name: str, steps: _InnerSteps) -> Page: ...
    def predict(self, texts: Sequence[_Row], probabilities: tuple[Any, ...]) -> None: ...
    def numbers(self, texts: Sequence[_Row]) -> list[list[float]]: ...
    def export(self) -> tuple[bytes, bool, list[tuple[str, str]]]: ...

@final
class Tagger:
    @staticmethod
    def load(folder: _Path) -> Tagger: ...
    @property
    def labels(self) -> list[str]: ...
    def predict(self, texts: Sequence[str]) -> list[list[tuple[int, int, str, str, float]]]: ...
    def explain(
        self, text: str, span: tuple[int, int, str | None] | None, name: str, steps: _InnerSteps
    ) -> Page: ...

@final
class DoctorResult:
    def json(self) -> str: ...
    def html(self, lang: str) -> str: ...
    def csv(self) -> bytes: ...

@final
class Output:
    def __new__(cls, path: _Path, read: Sequence[_Path]) -> Output: ...
    def write(self, content: bytes) -> None: ...
    def commit(self) -> None: ...
    def close(self) -> None: ...

def is_one_of(path: _Path, paths: Sequence[_Path]) -> bool: ...
def write_file(path: _Path, content: bytes, own: bool) -> None: ...
@final
class Row:
    def __len__(self) -> int: ...

def joined(first: str, second: str) -> Row: ...
def beside(text: _Row, cells: list[str]) -> Row: ...
def span_f1(
    truth: Sequence[Sequence[tuple[int, int, str]]], found: Sequence[Sequence[tuple[int, int, str]]]
) -> float: ...
def examine(
    file: _Path,
    test: _Path | None,
    unlabelled: _Path | None,
    pairs: bool,
    folds: int,
    seed: int,
    missing: list[str] | None,
    merge_labels: bool,
) -> DoctorResult: ...

def read_table(file: _Path, reading: dict[str, Any]) -> tuple[str, list[Any], list[Any], str]: ...
def read_labels(labels: list[str], missing: list[str] | None) -> list[str | None]: ...
def merged_labels(labels: list[str], known: list[str]) -> list[str]: ...
def label_note(labels: list[str]) -> str | None: ...

@final
class Translator:
    @staticmethod
    def load(folder: _Path) -> Translator: ...
    def translate(
        self, texts: Sequence[str], beam: int, length_penalty: float
    ) -> list[tuple[list[tuple[str, float]], bool]]: ...
    def score(self, sources: Sequence[str], targets: Sequence[str]) -> str: ...
    def explain(self, text: str, target: str | None, name: str, steps: _InnerSteps) -> Page: ...

@final
class Generator:
    @staticmethod
    def load(folder: _Path, precision: str | None) -> Generator: ...
    @property
    def has_chat_template(self) -> bool: ...
    def generate(
        self,
        prompt: str,
        messages: Sequence[tuple[str, str]] | None,
        max_tokens: int,
        temperature: float,
        top_k: int,
        top_p: float,
        seed: int,
    ) -> TextStream: ...
    def score(self, texts: Sequence[str]) -> str: ...
    def explain(self, text: str, name: str, steps: _InnerSteps) -> Page: ...

@final
class TextStream:
    def __iter__(self) -> TextStream: ...
    def __next__(self) -> str: ...
    @property
    def stop(self) -> str | None: ...

@final
class Autoencoder:
    @staticmethod
    def load(folder: _Path, precision: str | None) -> Autoencoder: ...
    @property
    def width(self) -> int: ...
    @property
    def limit(self) -> int: ...
    @property
    def prompts(self) -> list[str]: ...
    def embed(
        self, texts: Sequence[str], prompt: str | None, normalize: bool | None, vectors: tuple[Any, ...]
    ) -> int: ...
    def reconstruct(self, texts: Sequence[str], beam: int) -> list[tuple[list[tuple[str, float]], bool]]: ...

@final
class Embedder:
    @staticmethod
    def load(folder: _Path, precision: str | None) -> Embedder: ...
    @property
    def width(self) -> int: ...
    @property
    def limit(self) -> int: ...
    @property
    def prompts(self) -> list[str]: ...
    def embed(
        self, texts: Sequence[str], prompt: str | None, normalize: bool | None, vectors: tuple[Any, ...]
    ) -> int: ...
    def explain(self, text: str, target: str | None, name: str) -> Page: ...

@final
class Page:
    @staticmethod
    def read(json: str) -> Page: ...
    def json(self) -> str: ...
    def html(self, lang: str) -> str: ...

@final
class RowReader:
    @staticmethod
    def open(args: Sequence[str]) -> RowReader: ...
    @property
    def description(self) -> str: ...
    @property
    def lang(self) -> str: ...
    def skipped(self) -> str | None: ...
    def part(self, most: int) -> builtins.bytes | None: ...

@final
class RowAnswerer:
    @staticmethod
    def load(args: Sequence[str], each_label: bool) -> RowAnswerer: ...
    @property
    def reads_pairs(self) -> bool: ...
    @property
    def columns(self) -> list[str]: ...
    @property
    def names(self) -> list[str] | None: ...
    def beside(self, text: _Row, cells: list[str]) -> Row: ...
    def answer(self, texts: Sequence[_Row]) -> str: ...
    def write(self, part: builtins.bytes) -> tuple[builtins.bytes, int, int, str | None]: ...

@final
class RowPredictor:
    @staticmethod
    def load(
        folder: _Path,
        *,
        top: int | None,
        abstain: float | None,
        threshold: Sequence[tuple[str | None, float]],
        precision_at_least: Sequence[tuple[str | None, float]],
        set: Sequence[tuple[str, str]],
        precision: str | None,
    ) -> RowPredictor: ...
    @property
    def reads_pairs(self) -> bool: ...
    @property
    def columns(self) -> list[str]: ...
    @property
    def names(self) -> list[str] | None: ...
    def beside(self, text: _Row, cells: list[str]) -> Row: ...
    def answer(self, texts: Sequence[_Row]) -> str: ...

def unanswered(n: int, first: str) -> str: ...

@final
class Trace:
    @staticmethod
    def of_example(source: str, given: str, head: int, backward: bool, name: str | None) -> Trace: ...
    @staticmethod
    def of_model(
        folder: _Path, text: _Row, target: str | None, part: str, layer: int | None, head: int, backward: bool
    ) -> Trace: ...
    def json(self, lang: str) -> str: ...
    def bytes(self, format: str, lang: str, depth: str, digits: int, size: int) -> builtins.bytes: ...

def model_kind(folder: _Path) -> str: ...
def example_names() -> list[str]: ...
def check(source: str, given: str) -> tuple[str, str]: ...
def count(sizes: dict[str, Any]) -> tuple[str, str]: ...
def train(run: dict[str, Any], progress: Callable[[dict[str, Any]], Any] | None) -> str: ...
