"""Fails when a string that people see has no Chinese translation, or a fuzzy one, or is not collected yet."""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
CATALOGUE = Path("locale/zh_Hans/LC_MESSAGES/django.po")
COLLECT = [
    "makemessages",
    "-l",
    "zh_Hans",
    "--no-location",
    "--no-obsolete",
    "-i",
    "build",
    "-i",
    "node_modules",
    "-i",
    ".venv",
    "-i",
    "var",
]


def entries(text: str) -> dict[str, str]:
    """msgid -> rest of its entry, without the header and the dates in it."""
    found = {}
    for block in re.split(r"\n\n+", text):
        match = re.search(r'^msgid ((?:".*"\n?)+)', block, re.MULTILINE)
        if match and match[1].strip() != '""':
            found[match[1]] = block
    return found


def main() -> int:
    committed = entries((PROJECT / CATALOGUE).read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        saved = Path(folder) / "django.po"
        shutil.copy2(PROJECT / CATALOGUE, saved)
        try:
            subprocess.run([sys.executable, "manage.py", *COLLECT, "-v0"], cwd=PROJECT, check=True)
            collected = entries((PROJECT / CATALOGUE).read_text(encoding="utf-8"))
        finally:
            shutil.copy2(saved, PROJECT / CATALOGUE)
    problems = [f"not collected (run: make messages): {key.strip()}" for key in collected.keys() - committed.keys()]
    problems += [f"no longer used (run: make messages): {key.strip()}" for key in committed.keys() - collected.keys()]
    for key, block in committed.items():
        if "#, fuzzy" in block or re.search(r"^#,.*\bfuzzy\b", block, re.MULTILINE):
            problems.append(f"fuzzy: {key.strip()}")
        elif re.search(r'^msgstr(?:\[\d\])? ""[ ]*(?:\n(?!")|\Z)', block, re.MULTILINE):
            problems.append(f"not translated: {key.strip()}")
    print("\n".join(sorted(problems)) or f"{len(committed)} strings, all translated")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
