"""What the strict content security policy and the sprite of icons ask of templates and scripts."""

import re
from pathlib import Path

import pytest
from django.template.loader import get_template

PROJECT = Path(__file__).parents[3]
TEMPLATES = sorted((PROJECT / "templates").rglob("*.html"))
OURS = [path for path in TEMPLATES if "gateway" not in path.parts]


def _relative(path: Path) -> str:
    return str(path.relative_to(PROJECT / "templates"))


@pytest.mark.parametrize("path", OURS, ids=_relative)
def test_no_template_has_inline_script_or_style(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"<style|\sstyle=|javascript:|\son[a-z]+=\"", text)
    for tag in re.findall(r"<script[^>]*>", text):
        assert "src=" in tag


@pytest.mark.parametrize("path", OURS, ids=_relative)
def test_every_template_compiles(path: Path) -> None:
    get_template(_relative(path))


def test_the_sprite_has_the_icons_that_are_used_and_no_others() -> None:
    script = (PROJECT / "scripts" / "assets.mjs").read_text(encoding="utf-8")
    block = script[script.index("export const icons = [") : script.index("];")]
    listed = set(re.findall(r'"([a-z0-9-]+)"', block))
    used: set[str] = set()
    for path in OURS:
        used |= set(re.findall(r'{% icon "([a-z0-9-]+)"', path.read_text(encoding="utf-8")))
        used |= set(re.findall(r'icon_name="([a-z0-9-]+)"', path.read_text(encoding="utf-8")))
    from apps.dashboard.steps import _look
    from apps.dashboard.workload_views import _LOOKS
    from apps.workloads.models import Phase

    used |= {icon for _tone, icon in _LOOKS.values()} | {_look(p, ended=e)[0] for p in Phase for e in (True, False)}
    used |= {"help-circle", "trash", "circle-dashed"}  # of state_of and steps_of
    navigation = (PROJECT / "apps" / "dashboard" / "navigation.py").read_text(encoding="utf-8")
    used |= set(re.findall(r'item\("[a-z]+", "([a-z0-9-]+)"', navigation))
    assert used == listed


def test_the_looks_reload_under_a_new_name_when_a_module_they_import_changes() -> None:
    from apps.dashboard.storage import ModuleStaticFilesStorage

    patterns = [extension for extension, _patterns in ModuleStaticFilesStorage.patterns]
    assert "js/*.js" in patterns
    for path in (PROJECT / "static" / "js").glob("*.js"):
        for source in re.findall(r"^import .*? from (.*?)$", path.read_text(encoding="utf-8"), re.MULTILINE):
            assert source.startswith(('"./', '"../')), source
            assert source.endswith(";"), "the rewriting needs the semicolon"
