"""Words for those who cannot be let in."""

import base64
import hashlib
import json
import re

import pytest
from django.utils import translation

from apps.gateway import pages
from apps.gateway.verdicts import Kind, Verdict
from apps.workloads.models import Phase
from tests.unit.gateway.conftest import MakeWorkload


@pytest.mark.parametrize(
    ("accepted", "preferred", "spoken"),
    [
        ("zh-CN,zh;q=0.9,en;q=0.8", "", "zh-hans"),
        ("en-US,en;q=0.9,zh;q=0.5", "", "en"),
        ("fr-FR, zh;q=0.4", "", "zh-hans"),
        ("fr", "", "en"),
        ("", "", "en"),
        ("*", "", "en"),
        ("zh-CN", "en", "en"),
        (";;q=,\x00", "", "en"),
    ],
)
def test_a_person_is_spoken_to_in_their_language(accepted: str, preferred: str, spoken: str) -> None:
    assert pages.language_of(accepted, preferred) == spoken


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.ALLOWED])
def test_every_kind_has_words_and_a_way_on(make_workload: MakeWorkload, kind: Kind) -> None:
    said = pages.words(Verdict(kind, make_workload(phase=Phase.STOPPED)), unreachable=False)
    assert said.title
    assert said.text
    assert said.link is not None


def test_the_name_of_a_workload_is_text_not_markup(make_workload: MakeWorkload) -> None:
    mine = make_workload(phase=Phase.STOPPED, name="<script>alert(1)</script>")
    html = pages.html(pages.words(Verdict(Kind.STOPPED, mine), unreachable=False))
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


def test_only_a_page_that_waits_carries_the_script_and_the_policy_allows_it(make_workload: MakeWorkload) -> None:
    mine = make_workload(phase=Phase.STARTING, version=12)
    waiting = pages.html(pages.words(Verdict(Kind.STARTING, mine), unreachable=False), version=12)
    stopped = pages.html(pages.words(Verdict(Kind.STOPPED, mine), unreachable=False))
    assert 'data-version="12"' in waiting
    assert "<script>" not in stopped
    for part in re.findall(r"<(?:style|script)>(.*?)</(?:style|script)>", waiting, re.DOTALL):
        digest = base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in pages.POLICY


def test_programs_get_the_same_as_a_problem(make_workload: MakeWorkload) -> None:
    said = pages.words(Verdict(Kind.STOPPED, make_workload(phase=Phase.STOPPED, name="试")), unreachable=False)
    told = json.loads(pages.problem(said, status=503, code=Kind.STOPPED))
    assert (told["title"], told["status"], told["code"]) == (said.title, 503, "stopped")


def test_the_page_for_an_authoriser_that_is_down_is_made_in_every_language() -> None:
    before = translation.get_language()
    made = pages.down()
    assert set(made) == {"en", "zh-hans"}
    assert all(f'lang="{language}"' in page for language, page in made.items())
    assert translation.get_language() == before
