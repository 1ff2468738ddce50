"""Lists the functions of NVML that the simulator does not have: python list_refused.py HEADERS > refused.def

HEADERS is the folder with the nvml.h of the newest CUDA release. What api.def has is left out.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
ELSEWHERE = {"nvmlErrorString"}  # differs in kind; in init.c


def refused(header: str, own: str) -> list[str]:
    """Names that `header` declares and `own`, the text of api.def, does not have."""
    declared = set(re.findall(r"\bDECLDIR\s+(nvml\w+)\s*\(", header))
    known = set(re.findall(r"^API\w*\((\w+)", own, re.MULTILINE))
    return sorted(declared - known - ELSEWHERE)


if __name__ == "__main__":
    print('/* Made by list_refused.py: what NVML has and this one answers with "not supported". */')
    for name in refused((Path(sys.argv[1]) / "nvml.h").read_text(), (HERE / "api.def").read_text()):
        print(f"REFUSED({name})")
