"""Typed reading of environment variables. `NAME_FILE` names a file that holds the value: how secrets arrive in containers."""

import os
from pathlib import Path


def text(name: str, default: str = "") -> str:
    file = os.environ.get(f"{name}_FILE")
    if file:
        return Path(file).read_text(encoding="utf-8").strip()
    return os.environ.get(name, default)


def boolean(name: str, default: bool = False) -> bool:
    value = text(name)
    if value == "":
        return default
    if value.lower() in ("1", "true", "yes", "on"):
        return True
    if value.lower() in ("0", "false", "no", "off"):
        return False
    raise ValueError(f"{name} is {value!r}; say 1 or 0")


def integer(name: str, default: int) -> int:
    value = text(name)
    try:
        return int(value) if value else default
    except ValueError:
        raise ValueError(f"{name} is {value!r}; a whole number is needed") from None


def pairs(name: str) -> dict[str, str]:
    """`key=value` words, separated by commas. Raises ValueError with the name of the setting."""
    found = [word.partition("=") for word in words(name)]
    if any(not sign or not key or not value for key, sign, value in found):
        raise ValueError(f"{name} wants key=value, several separated by commas")
    return {key.strip(): value.strip() for key, _sign, value in found}


def words(name: str, default: str = "") -> list[str]:
    return [word.strip() for word in text(name, default).split(",") if word.strip()]
