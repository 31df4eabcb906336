"""What is said to people: in English or Japanese, and of a command line what is Ray's."""

from __future__ import annotations

import os
from typing import Callable, Sequence

Pick = Callable[[str, str], str]
"""Of what is said in English and in Japanese, the one to say."""


class Wrong(Exception):
    """A use that cannot work."""


def english(en: str, ja: str) -> str:
    return en


def japanese(en: str, ja: str) -> str:
    return ja


def pick_of(arguments: Sequence[str]) -> Pick:
    """The language of a command line, as the command chooses it."""
    for at, argument in enumerate(arguments):
        value = argument[len("--lang=") :] if argument.startswith("--lang=") else None
        if argument == "--lang" and at + 1 < len(arguments):
            value = arguments[at + 1]
        if value in ("en", "ja"):
            return japanese if value == "ja" else english
    named = next((os.environ[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if os.environ.get(name)), "")
    return japanese if named.lower().startswith("ja") else english


def own_flags(arguments: Sequence[str], names: Sequence[str], pick: Pick) -> tuple[dict[str, str], list[str]]:
    """The flags that are Ray's, and what is left."""
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
            raise Wrong(pick(f"{name}: expected a value", f"{name} に値がありません"))
        own[name] = value
    return own, rest


def whole(name: str, own: dict[str, str], pick: Pick) -> int | None:
    """The whole number that a flag has, from 1 on."""
    text = own.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 1_000_000):
        raise Wrong(pick(f"{name}: expected a whole number from 1 on, found {text}", f"{name}: 1 以上の整数が必要ですが、{text} です"))
    return int(text)
