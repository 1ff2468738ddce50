"""The pure parts: times in words, bars, columns of charts, frames."""

import json
from pathlib import Path
from typing import Any

from django.utils import translation
from hypothesis import given
from hypothesis import strategies as st

from apps.dashboard import figures, timewords
from apps.dashboard.bars import QuotaBar, Segment, ShareBar, lay_out, width
from apps.dashboard.live.frames import Cursor, Part, part, parts_frame

CASES = json.loads((Path(__file__).parents[2] / "js" / "times.json").read_text(encoding="utf-8"))


def test_ages_and_lengths_are_said_as_the_browser_says_them() -> None:
    with translation.override("en"):
        assert [timewords.age(seconds) for seconds, _text in CASES["ages"]] == [text for _s, text in CASES["ages"]]
        assert [timewords.length(seconds) for seconds, _text in CASES["lengths"]] == [t for _s, t in CASES["lengths"]]


@given(part=st.integers(-10, 10**12), whole=st.integers(-1, 10**12))
def test_a_width_is_always_a_percentage_of_the_bar(part: int, whole: int) -> None:
    assert 0 <= float(width(part, whole).rstrip("%")) <= 100


def test_what_is_borrowed_is_drawn_beside_what_is_guaranteed() -> None:
    bar = ShareBar(guaranteed=300, ceiling=600, memory=8, card_memory=80, limit=450, used=420, memory_used=4)
    assert (bar.guaranteed_width, bar.borrowed_width, bar.used_width) == ("30%", "15%", "42%")
    assert (bar.ceiling_at, bar.memory_width, bar.memory_used_width) == ("60%", "10%", "5%")


def test_no_figures_are_not_the_figure_zero() -> None:
    assert not ShareBar(300, 300, 8, 80).has_figures
    assert ShareBar(300, 300, 8, 80, used=0).has_figures


def test_a_whole_second_of_waiting_fills_what_the_share_may_use_and_no_more() -> None:
    assert ShareBar(300, 300, 8, 80, limit=300, used=300, throttled_ms=5000).throttled_width == "30%"


def test_segments_lie_side_by_side_and_use_stays_inside_its_segment() -> None:
    first, second = lay_out([Segment(300, 350), Segment(600, None)], 1000)
    assert (first.start, first.held_width, first.used_width) == ("0%", "30%", "30%")
    assert (second.start, second.held_width, second.used_width) == ("30%", "60%", "0%")


def test_a_quota_that_a_request_exceeds_is_full_and_over() -> None:
    bar = QuotaBar(used=6, limit=10, added=8)
    assert bar.over
    assert (bar.used_width, bar.added_width) == ("60%", "40%")
    assert QuotaBar(used=6, limit=None, added=8).added_width == "0%"


def test_series_are_aligned_over_one_time_and_holes_stay_holes() -> None:
    own: dict[str, list[int | None]] = {"at": [1, 2], "used": [10, 20]}
    card: dict[str, list[int | None]] = {"at": [2, 3], "card": [200, None]}
    assert figures.align([("0.", own), ("0.", card)]) == {
        "at": [1, 2, 3],
        "0.used": [10, 20, None],
        "0.card": [None, 200, None],
    }


def test_a_part_whose_times_alone_have_moved_on_keeps_its_tag() -> None:
    before = part('<p>ready <time datetime="2026-03-02" data-say="age">1 min ago</time></p>')
    after = part('<p>ready <time datetime="2026-03-02" data-say="age">2 min ago</time></p>')
    assert before.tag == after.tag
    assert before.tag != part("<p>failed</p>").tag


_parts = st.dictionaries(st.sampled_from("abc"), st.text(max_size=4), min_size=3, max_size=3)


@given(states=st.lists(_parts, min_size=1, max_size=6))
def test_snapshot_and_patches_give_what_a_fresh_snapshot_gives(states: list[dict[str, str]]) -> None:
    seen: dict[str, str] = {}
    cursor, seq = Cursor(), None
    for state in states:
        parts = {name: part(html) for name, html in state.items()}
        frame, cursor = parts_frame("home:", parts, cursor, at=0.0)
        if frame is None:
            continue
        if frame.snapshot is not None:
            seen = {}
        else:
            assert frame.before == seq
        carried = (frame.snapshot or frame.patch or {})["parts"]
        seen |= {name: each["html"] for name, each in carried.items()}
        seq = frame.seq
    assert seen == states[-1]


def test_a_page_that_was_just_rendered_is_sent_nothing() -> None:
    parts = {"rows": Part("<p>one</p>", "tag")}
    frame, cursor = parts_frame("home:", parts, Cursor.of({"seq": 0, "tags": {"rows": "tag"}}), at=0.0)
    assert frame is None
    assert cursor.seq == 0


def test_a_cursor_of_nonsense_is_answered_with_a_snapshot() -> None:
    nonsense: Any
    for nonsense in (None, [], "x", {"seq": "1"}, {"seq": True}, {"seq": -1}, {"tags": {}}):
        assert Cursor.of(nonsense) == Cursor()
