from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from apps.gateway import cookies

NAMES = st.text("abcdefgh_-", min_size=1, max_size=8)
PAIRS = st.lists(st.tuples(NAMES, st.text("xyz0123=|", max_size=8)), max_size=8)


def test_ours_is_taken_out_and_the_others_stay_in_order() -> None:
    values, rest = cookies.split("_xsrf=2|a; tessera_pass=one; theme=dark;tessera_pass=two", "tessera_pass")
    assert values == ("one", "two")
    assert rest == "_xsrf=2|a; theme=dark"


def test_a_name_that_only_begins_like_ours_is_not_ours() -> None:
    assert cookies.split("tessera_pass2=a; xtessera_pass=b", "tessera_pass") == ((), "tessera_pass2=a; xtessera_pass=b")


def test_a_flood_of_planted_cookies_is_not_looked_at_in_full() -> None:
    values, rest = cookies.split("; ".join(["tessera_pass=x"] * 1000), "tessera_pass")
    assert len(values) == cookies.MAX_TRIED
    assert rest == ""


@given(PAIRS, PAIRS, st.text("abc", min_size=1))
def test_whatever_surrounds_it_user_code_never_sees_ours(
    before: list[tuple[str, str]], after: list[tuple[str, str]], secret: str
) -> None:
    own = "tessera_pass"
    pairs = [*before, (own, secret), *after]
    values, rest = cookies.split("; ".join(f"{name}={value}" for name, value in pairs), own)
    assert values == (secret,)
    assert rest == "; ".join(f"{name}={value}" for name, value in [*before, *after])


def test_with_tls_the_cookie_is_bound_to_its_host_by_the_browser(settings: Settings) -> None:
    settings.GATEWAY_SCHEME = "https"
    made = cookies.setting("s")
    assert made.startswith("__Host-tessera_pass=s;")
    assert {"Secure", "HttpOnly", "Path=/", "SameSite=Lax"} <= set(made.split("; "))
    assert "Domain" not in made
