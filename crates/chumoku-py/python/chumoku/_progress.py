"""Reports the progress of training."""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Callable, Iterator


@contextlib.contextmanager
def listener(progress: Callable[[dict], Any] | str | None) -> Iterator[Callable[[dict], Any] | None]:
    """Returns the callback for events; "auto" is a tqdm bar, or lines on standard error."""
    if progress is None or callable(progress):
        yield progress
        return
    if progress != "auto":
        raise ValueError(f'progress: expected "auto", None or something to call, got {progress!r}')
    tqdm = sys.modules.get("tqdm")
    if tqdm is None:
        yield _print_event
        return
    with tqdm.tqdm(unit="step", leave=False) as bar:

        def show(event: dict) -> None:
            if event["event"] == "ready":
                bar.total = event["steps"]
                bar.refresh()
            elif event["event"] == "step":
                bar.set_postfix(loss=f"{event['loss']:.3f}", refresh=False)
                bar.update(event["step"] - bar.n)
            elif _is_note(event):
                bar.write(f"note: {event['text']}", file=sys.stderr)

        yield show


def _is_note(event: dict) -> bool:
    return event["event"] == "message" and event["about"] == "note"


def _print_event(event: dict) -> None:
    if event["event"] == "ready":
        print(f"training: {event['steps']} steps, about {event['expected_seconds']:.0f} s", file=sys.stderr)
    elif event["event"] == "evaluated":
        numbers = ", ".join(f"{name} {x:.3f}" for name, x in event.items() if isinstance(x, float))
        print(f"epoch {event['epoch']}: {numbers}{' (best)' if event['is_best'] else ''}", file=sys.stderr)
    elif _is_note(event):
        print(f"note: {event['text']}", file=sys.stderr)
