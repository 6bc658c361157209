"""The web fixture ranks by shared words and answers as SearXNG does."""

from datetime import date

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demo.web_fixture import make_app, rank, read_pages


@pytest.fixture
def client():
    app = make_app("https://news.demo.example/", lambda: date(2026, 3, 2))
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://fixture")


@pytest.mark.parametrize(
    ("query", "slug"),
    [
        ("¿A cuánto está el cobre hoy?", "precio-del-cobre"),
        ("What is the price of copper today?", "copper-price"),
        ("IPC zona euro", "ipc-zona-euro"),
        ("latest euro-area CPI", "euro-area-cpi"),
        ("cambio de reglamento sobre facturas", "reglamento-facturacion-electronica"),
        ("regulation change late payments", "late-payment-regulation"),
        ("huelga en el puerto", "puerto-huelga"),
        ("electricity price for industry", "electricity-price"),
    ],
)
def test_the_page_on_the_subject_comes_first(query, slug):
    assert rank(query, read_pages())[0].slug == slug


@pytest.mark.parametrize("query", ["quantum chromodynamics", "receta de paella", "the of", "¿?"])
def test_nothing_is_found_where_nothing_matches(query):
    assert rank(query, read_pages()) == []


@given(st.text(max_size=200))
def test_any_query_is_answered_with_known_pages(query):
    assert set(rank(query, read_pages())) <= set(read_pages())


async def test_search_answers_in_the_form_of_searxng(client):
    answer = (await client.get("/search", params={"q": "precio del cobre", "format": "json"})).json()
    assert answer["query"] == "precio del cobre"
    assert answer["unresponsive_engines"] == []
    first = answer["results"][0]
    assert first["url"] == "https://news.demo.example/pages/precio-del-cobre"
    assert first["title"] == "Precio del cobre hoy"
    assert first["publishedDate"] == "2026-03-02"
    assert "2 de marzo de 2026" in first["content"]
    assert first["engine"]


async def test_a_search_in_one_language_finds_pages_of_that_language(client):
    answer = (await client.get("/search", params={"q": "euro", "format": "json", "language": "en-GB"})).json()
    assert answer["results"][0]["url"].endswith("/pages/euro-area-cpi")
    assert not any("zona" in result["title"] for result in answer["results"])


async def test_pages_are_readable_and_dated(client):
    answer = await client.get("/pages/euro-area-cpi")
    assert answer.headers["content-type"].startswith("text/html")
    assert '<html lang="en">' in answer.text
    assert "24 February 2026" in answer.text
    assert "{" not in answer.text


async def test_wrong_requests_are_refused(client):
    assert (await client.get("/search", params={"format": "json"})).status_code == 400
    assert (await client.get("/search", params={"q": "x"})).status_code == 403
    assert (await client.get("/pages/nothing")).status_code == 404
    assert (await client.get("/healthz")).text == "OK"
