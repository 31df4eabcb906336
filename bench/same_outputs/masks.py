"""Masks values that differ between runs of one program: times, speeds, measured memory, dates, ports."""

import json
import re
import shutil
import zipfile
from pathlib import Path

NUMBER = r"[0-9][0-9,]*(?:\.[0-9]+)?"
# Patterns for messages and model cards, in both languages.
SAID = [
    # The plan of training, which is estimated from its first steps and their memory.
    (rf"expected time {NUMBER} \w+( {NUMBER} min)? in all", "expected time TIME in all"),
    (rf"全体の予想時間 (最大 )?{NUMBER} (秒|分|時間)( {NUMBER} 分)?", r"全体の予想時間 \1TIME"),
    (rf"(memory|メモリ)( +)((?:at most|最大) )?{NUMBER} [MG]iB", r"\1\2\3MEMORY"),
    (rf"{NUMBER} % (of this time|at the bf16 rate)", r"SHARE \1"),
    (rf"(この時間のうち f32 で|bf16 なら) {NUMBER} %", r"\1 SHARE"),
    (rf"(linear model|線形モデル)(?:s)?(、| in ){NUMBER} (s|秒)", r"\1\2TIME"),
    (rf"(--model ngrams (?:trains in|なら)) {NUMBER} (s|秒)", r"\1 TIME"),
    (rf"done in {NUMBER} (s|min|h)( {NUMBER} min)?", "done in TIME"),
    (rf"完了しました（{NUMBER} (秒|分|時間)( {NUMBER} 分)?）", "完了しました（TIME）"),
    (rf"(of hidden tokens filled in right, after) {NUMBER} (s|min)$", r"\1 TIME"),
    (rf"(隠したトークンの正解率 {NUMBER} %（){NUMBER} (秒|分)", r"\1TIME"),
    # Log of the service.
    (r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z ", "TIME "),
    (r"\b(queue|compute|total)=[0-9.]+ms", r"\1=MS"),
    (r'"(queue_ms|compute_ms|total_ms)":[0-9.]+', r'"\1":"MS"'),
    (r'"time":"[^"]*"', '"time":"TIME"'),
    (r"http://([0-9a-z.]+|\[::1\]):[0-9]+", r"http://\1:PORT"),
    # The search of settings.
    (r'"(seconds_ngrams|seconds_network)":[0-9.e-]+', r'"\1":"TIME"'),
]
# Lines that appear only if something takes seconds.
LATE = re.compile(
    r"^(step|ステップ) [0-9]+ (of|/).*(tokens/s|トークン/秒)$"
    r"|^rows +[0-9]+ of [0-9]+ explained$|^行 .*行を説明しました$|^(words|語|errors|誤り) .*(left out in turn|explained|測定しました|説明しました)$"
    r"|^(look|検査) |^(rows|進捗) .*(a second|毎秒).*$"
)


def apply(folder: Path, program: Path) -> None:
    """Masks the files of one side."""
    # Lines that a slow machine writes more often, and partial output of stopped runs.
    for path in [*folder.rglob("checkpoints"), *folder.glob("stopped-*")]:
        shutil.rmtree(path)
    # Times as a picture.
    (folder / "compare.svg").unlink(missing_ok=True)
    for path in [path for path in folder.rglob("*.xlsx") if path.is_file()]:
        unpacked = path.with_suffix(".xlsx.parts")
        with zipfile.ZipFile(path) as archive:
            archive.extractall(unpacked)
        path.unlink()
        core = unpacked / "docProps/core.xml"
        if core.exists():
            core.write_text(re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", core.read_text()))
    for path in folder.rglob("*"):
        if path.is_file() and (path.parent.name == "said" or path.suffix in (".md", ".json", ".jsonl")):
            text = path.read_bytes().decode("utf-8", "surrogateescape")
            found = masked(path.name, text.replace(str(program), "PROGRAM"))
            if found != text:
                path.write_bytes(found.encode("utf-8", "surrogateescape"))


def masked(name: str, text: str) -> str:
    """Masks the output of the run `name`."""
    for pattern, replacement in SAID:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    lines = [line for line in text.split("\n") if not LATE.match(line)]
    if re.fullmatch(r"serve.*\.err", name):
        # A line is written when its request ends, which may be after the next one starts.
        lines.sort()
    text = "\n".join(lines)
    if name.startswith(("bench-", "slow-compare")):
        text = measured(text)
    return profile(text)


def profile(text: str) -> str:
    """Removes the times from the stages of `--profile`, which are sorted by time."""

    def stages(found: re.Match) -> str:
        names = sorted(re.sub(r"(  +[0-9.]+ ?%?)+ *$", "", line) for line in found[2].split("\n"))
        return found[1] + "\n".join(names)

    return re.sub(r"((?:Where the time went|時間の内訳).*\n\n.*\n)((?:.+\n)*.+)", stages, text)


# The keys of measurements in `bench` and `compare`, and of an operation's cost in the profile.
MEASURED = {
    "median_ms", "min_ms", "max_ms", "all_ms", "runs", "gflops", "tokens_per_second", "peak_bytes",
    "steps", "ms", "ms_without_profile", "ms_idle", "limits", "ms_multiplying", "ms_passing", "meetings", "pieces",
    "training_seconds", "power", "lstm_ms", "attention_ms", "speedup",
}


def measured(text: str) -> str:
    """Removes the measured values from the results of measurements."""

    def is_profile(x):
        return isinstance(x, list) and all(isinstance(one, dict) and "operation" in one for one in x)

    def without(x):
        if isinstance(x, dict):
            # Claims about speed are judged by measurements. Only open claims have a hint.
            kept = {key: value for key, value in x.items() if key != "would_decide"}
            judged = {"verdict", "found"} if "claim" in x else set()
            return {key: "MEASURED" if key in MEASURED | judged else without(value) for key, value in kept.items()}
        # The operations of a profile are sorted by time.
        return sorted(map(without, x), key=str) if is_profile(x) else list(map(without, x)) if isinstance(x, list) else x

    # `compare`: the time of training, the times of steps, and their consequences.
    text = re.sub(rf" +{NUMBER} (s|min|秒|分)  ", "  TIME  ", text)
    text = re.sub(r"(Milliseconds of a training step|学習 1 ステップのミリ秒)[\s\S]*", r"\1\n", text)
    # The rows of the profile's table depend on their times.
    text = re.sub(r"((?:Where the time goes|時間の内訳).*\n\n)(?:.+\n)+", r"\1TABLE\n", text)
    lines = []
    for line in text.split("\n"):
        if line.startswith("{"):
            line = json.dumps(without(json.loads(line)), ensure_ascii=False)
        elif re.match(r"(time|speed|memory|時間|速度|メモリ|Where|A step|Threads synchronized|reading|スレッドは|1 ステップ|積和は|読み出し) ?|.* billion mult|  [0-9]", line):
            line = re.sub(NUMBER, "N", line)
        lines.append(line)
    return "\n".join(lines)
