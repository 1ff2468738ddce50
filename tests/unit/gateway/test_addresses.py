from urllib.parse import parse_qs, urljoin, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from apps.gateway import addresses

TRICKS = st.lists(
    st.sampled_from(
        [
            "/",
            "\\",
            "//",
            "http:",
            "javascript:",
            "evil.example",
            "@",
            "..",
            "?",
            "#",
            "%2f",
            " ",
            "\t",
            "\n",
            "lab",
            "é",
        ]
    )
).map("".join)


@pytest.mark.parametrize("page", ["/lab", "/lab/tree/a%20b.ipynb?reset#cell=3", "/a/../b"])
def test_a_page_of_the_same_host_is_kept(page: str) -> None:
    assert addresses.safe_page(page) == page


@pytest.mark.parametrize(
    "page",
    ["", "/", "lab", "//evil.example", "/\\evil.example", "https://evil.example", "/a\nb", "/_tessera/enter?ticket=x", "/" + "a" * 3000],
)  # fmt: skip
def test_anything_else_becomes_the_default_page(page: str) -> None:
    assert addresses.safe_page(page) == addresses.DEFAULT_PAGE


@given(TRICKS)
def test_no_page_leads_to_another_host(page: str) -> None:
    origin = addresses.origin("mine")
    landed = urlsplit(urljoin(origin, addresses.safe_page(page)))
    assert f"{landed.scheme}://{landed.netloc}" == origin


def test_usual_ports_are_left_out(settings: Settings) -> None:
    settings.GATEWAY_SCHEME, settings.GATEWAY_DOMAIN, settings.GATEWAY_PUBLIC_PORT = "https", "gpu.example.org", 443
    assert addresses.origin("a") == "https://a.gpu.example.org"
    settings.GATEWAY_PUBLIC_PORT = 8443
    assert addresses.origin("a") == "https://a.gpu.example.org:8443"


def test_a_ticket_and_a_page_survive_being_put_into_an_address() -> None:
    assert parse_qs(urlsplit(addresses.enter("mine", "a:b+c/=&")).query) == {"ticket": ["a:b+c/=&"]}
    assert parse_qs(urlsplit(addresses.sign_in("mine", "/lab?a=b&c")).query) == {"next": ["/lab?a=b&c"]}
