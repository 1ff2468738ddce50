"""Prints the part of requirements.txt that the packages in a list need, with the hashes that the whole project is locked to.

subset.py uv.lock requirements.txt agent.in

Standard library only: runs while an image is built.
"""

import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path


def closure(lock: str, wanted: Iterable[str]) -> set[str]:
    """Everything that the wanted packages depend on, whatever the machine: markers are left to who installs."""
    needs: dict[str, set[str]] = {}
    for package in tomllib.loads(lock)["package"]:
        extras = package.get("optional-dependencies", {}).values()
        found = [*package.get("dependencies", ()), *(one for extra in extras for one in extra)]
        needs.setdefault(package["name"], set()).update(one["name"] for one in found)
    reached, open_ = set(), set(wanted)
    while open_:
        name = open_.pop()
        reached.add(name)
        open_ |= needs[name] - reached
    return reached


def main() -> None:
    lock, requirements, listed = (Path(name).read_text() for name in sys.argv[1:])
    wanted = closure(lock, listed.split())
    for block in re.split(r"\n(?=\S)", requirements):
        if re.split(r"[=\[ ;]", block, maxsplit=1)[0] in wanted:
            print(block)


if __name__ == "__main__":
    main()
