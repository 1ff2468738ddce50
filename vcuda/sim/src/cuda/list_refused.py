"""Lists the functions of the driver that the simulator does not have: python list_refused.py HEADERS... > refused.def

HEADERS are folders with cuda.h and cudaTypedefs.h of one CUDA release each, the newest last. What api.def has is left out.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).parent


def abis(folder: Path) -> set[tuple[str, int, str]]:
    """(name as asked for, CUDA version of the ABI, suffix of the stream flavour) of everything with a typed pointer."""
    found = re.findall(r"\bPFN_(cu\w+?)_v(\d+)(_ptsz|_ptds)?\)", (folder / "cudaTypedefs.h").read_text())
    return {(name, int(since), suffix) for name, since, suffix in found}


def newest_symbols(folder: Path) -> dict[str, str]:
    """The symbol that cuda.h puts in the place of a name."""
    text = (folder / "cuda.h").read_text()
    return dict(re.findall(r"#define (cu\w+)\s+(?:__CUDA_API_PT[DS][SZ]\()?(cu\w+)\)?\s*$", text, re.MULTILINE))


def known() -> set[tuple[str, int]]:
    text = (HERE / "api.def").read_text()
    plain = re.findall(r"^API\w*\(\w+, \"(\w+)\", (\d+)", text, re.MULTILINE)
    return {(name, int(since)) for name, since in plain}


def refused(folders: list[Path]) -> list[str]:
    every = set().union(*(abis(folder) for folder in folders))
    symbols: dict[str, str] = {}
    for folder in folders:
        symbols |= newest_symbols(folder)
    versions: dict[str, list[int]] = defaultdict(list)
    for name, since, suffix in sorted(every):
        if not suffix:
            versions[name].append(since)
    lines = []
    for name, since_list in sorted(versions.items()):
        for place, since in enumerate(since_list):
            if (name, since) in known():
                continue
            symbol = name if place == 0 else f"{name}_v{place + 1}"
            if len(since_list) == 1 and re.fullmatch(rf"{name}_v\d+", symbols.get(name, "")):
                symbol = symbols[name]
            following = min((later for later in since_list if later > since), default=10**6)
            twins = [
                (at, suffix) for other, at, suffix in every if other == name and suffix and since <= at < following
            ]
            if twins:
                at, suffix = min(twins)
                lines.append(f'REFUSED_TS({symbol}, "{name}", {since}, {suffix}, {at})')
            else:
                lines.append(f'REFUSED({symbol}, "{name}", {since})')
    return lines


if __name__ == "__main__":
    print(
        '/* Made by list_refused.py: what the driver has and this one answers with "not supported". As api.def, without parameters. */'
    )
    print("\n".join(refused([Path(word) for word in sys.argv[1:]])))
