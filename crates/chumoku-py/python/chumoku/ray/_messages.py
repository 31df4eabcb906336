"""User messages in English or Japanese, and Ray's flags of a command line."""

from __future__ import annotations

import os
from typing import Callable, Sequence

Pick = Callable[[str, str], str]
"""Chooses between the English and the Japanese text."""


class UsageError(Exception):
    """A usage error."""


def english(en: str, ja: str) -> str:
    return en


def japanese(en: str, ja: str) -> str:
    return ja


def pick_of(arguments: Sequence[str]) -> Pick:
    """Returns the language of a command line, chosen as in the command."""
    for at, argument in enumerate(arguments):
        value = argument[len("--lang=") :] if argument.startswith("--lang=") else None
        if argument == "--lang" and at + 1 < len(arguments):
            value = arguments[at + 1]
        if value in ("en", "ja"):
            return japanese if value == "ja" else english
    named = next((os.environ[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if os.environ.get(name)), "")
    return japanese if named.lower().startswith("ja") else english


def own_flags(arguments: Sequence[str], names: Sequence[str], pick: Pick) -> tuple[dict[str, str], list[str]]:
    """Splits Ray's own flags from the remaining arguments."""
    own: dict[str, str] = {}
    rest: list[str] = []
    left = iter(arguments)
    for argument in left:
        if argument == "--":
            rest += [argument, *left]
            break
        name, equals, value = argument.partition("=")
        if name not in names:
            rest.append(argument)
            continue
        if not equals:
            value = next(left, "")
        if not value:
            raise UsageError(pick(f"{name}: expected a value", f"{name} に値がありません"))
        own[name] = value
    return own, rest


def whole_number(name: str, own: dict[str, str], pick: Pick) -> int | None:
    """Returns the value of a flag: a whole number of at least 1."""
    text = own.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 1_000_000):
        raise UsageError(pick(f"{name}: expected a whole number from 1, found {text}", f"{name}: 1 以上の整数が必要ですが、{text} です"))
    return int(text)
