"""Every search provider against a local server that plays its API."""

import asyncio
import gzip
import json
import logging
from urllib.parse import parse_qs, urlsplit

import pytest

from services.web_tool.search.json_api import JsonApi
from services.web_tool.search.provider import Cause, ProviderFailed, Query
from tests.integration.search_apis import KEY, PAGES, SHAPES, Api, Cut, answer, provider


async def asked(name, query=None, *answers, **more):
    """What the provider finds, and the request line, headers and body that it sent."""
    async with Api(*(answers or [answer(SHAPES[name]())])).listening() as api:
        made = provider(name, api.url, **more)
        try:
            found = await made.search(query or Query("precio del cobre", "es", 7))
        finally:
            await made.close()
    head, body = api.asked[0]
    return found, head, body


async def failure(name, *answers):
    with pytest.raises(ProviderFailed) as caught:
        await asked(name, None, *answers)
    return caught.value


@pytest.fixture(params=SHAPES)
def name(request):
    return request.param


class TestProvider:
    """What holds for each of them."""

    async def test_results_keep_their_order_and_fields(self, name):
        found, _, _ = await asked(name)
        assert found.provider == name
        assert [result.url for result in found.results] == [url for url, _, _ in PAGES]
        assert "Second" in found.results[1].title
        assert "about a" in found.results[0].snippet
        assert "Jan" in found.results[0].published or "2026-01-02" in found.results[0].published

    async def test_no_results_are_an_answer(self, name):
        found, _, _ = await asked(name, None, answer(SHAPES[name]([])))
        assert found.results == []

    async def test_the_key_travels_in_a_header_and_never_in_the_url(self, name):
        _, head, body = await asked(name)
        assert KEY.get_secret_value() not in head.split("\r\n")[0] + body
        assert (KEY.get_secret_value() in head) == (name != "searxng")

    async def test_odd_entries_are_left_out(self, name):
        shape = json.dumps(SHAPES[name]([("https://a.example/x", "t", "s")]))
        for entry in ('"noise"', "null", "[]", "{}", '{"url": 7, "link": {}, "title": [], "pagemap": {"metatags": 3}}'):
            one = shape.replace('"results": [', f'"results": [{entry}, ').replace(
                '"organic": [', f'"organic": [{entry}, '
            )
            one = one.replace('"items": [', f'"items": [{entry}, ')
            found, _, _ = await asked(name, None, answer(one.encode()))
            assert [result.url for result in found.results if result.url] == ["https://a.example/x"]

    @pytest.mark.parametrize("body", [b'{"web": 1, "results": {}, "organic": null, "items": "x"}', b"{}"])
    async def test_an_answer_of_another_shape_finds_nothing(self, name, body):
        found, _, _ = await asked(name, None, answer(body))
        assert not found.results

    async def test_a_packed_answer_is_read(self, name):
        packed = gzip.compress(json.dumps(SHAPES[name]()).encode())
        found, _, _ = await asked(name, None, answer(packed, content_encoding="gzip"))
        assert len(found.results) == 2

    @pytest.mark.parametrize(
        ("page", "cause"),
        [
            (answer(b"", 500), Cause.ANSWER),
            (answer(b"", 503), Cause.ANSWER),
            (answer(b"", 429), Cause.QUOTA),
            (answer(b"", 402), Cause.QUOTA),
            (answer(b"", 401), Cause.CONFIGURATION),
            (answer(b"<html>", 403, "text/html"), Cause.CONFIGURATION),
            (answer(b"", 404), Cause.CONFIGURATION),
            (answer(b"", 302, location="https://elsewhere.example/"), Cause.CONFIGURATION),
            (answer(b"", 422), Cause.REQUEST),
            (answer(b"", 418), Cause.REQUEST),
            (answer(gzip.compress(b" " * 9_000_000), content_encoding="gzip"), Cause.ANSWER),
            (answer(b"x", content_encoding="br"), Cause.ANSWER),
            (answer(b"not gzip", content_encoding="gzip"), Cause.ANSWER),
            (answer(b" " * 5_000_000), Cause.ANSWER),
            (Cut(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{"), Cause.UNREACHABLE),
            (Cut(b"SSH-2.0\r\n\r\n"), Cause.UNREACHABLE),
            (0.01, Cause.UNREACHABLE),
        ],
        ids=lambda value: value[:24].decode() if isinstance(value, bytes) else str(value),
    )
    async def test_each_failure_has_its_cause(self, name, page, cause):
        failed = await failure(name, page)
        assert failed.cause is cause
        assert failed.metadata["dependency"] == name

    @pytest.mark.parametrize("body", [b"<html>consent</html>", b"[1]", b"", b"[" * 100_000])
    async def test_a_success_that_is_no_json_object_is_a_failure(self, name, body):
        failed = await failure(name, answer(body, content_type="text/html"))
        assert failed.cause is (Cause.CONFIGURATION if name == "searxng" else Cause.ANSWER)

    async def test_nobody_there_is_unreachable(self, name):
        made = provider(name, "http://127.0.0.1:1")
        with pytest.raises(ProviderFailed) as caught:
            await made.search(Query("q"))
        assert caught.value.cause is Cause.UNREACHABLE
        await made.close()

    async def test_neither_key_nor_query_is_in_an_error_or_a_log(self, name, caplog):
        caplog.set_level(logging.INFO)
        logging.getLogger("httpx2").setLevel(logging.WARNING)  # as services/runtime/telemetry.py does
        failed = await failure(name, answer(b"precio del cobre k3y-of-the-test", 500))
        told = failed.message + repr(failed.__cause__) + str(failed.metadata) + caplog.text
        assert "k3y" not in told
        assert "cobre" not in told

    async def test_a_cancelled_search_ends_at_once(self, name):
        async with Api(30.0).listening() as api:
            made = provider(name, api.url)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await made.search(Query("q"))
            await made.close()

    async def test_a_gateway_with_a_path_keeps_its_path(self, name):
        async with Api(answer(SHAPES[name]())).listening() as api:
            made = provider(name, f"{api.url}/gateway/{name}/")
            await made.search(Query("q"))
            await made.close()
        assert api.asked[0][0].split()[1].startswith(f"/gateway/{name}/")


def parameters(head):
    return {name: values[0] for name, values in parse_qs(urlsplit(head.split()[1]).query).items()}


async def test_searxng_is_asked_for_json_in_the_language():
    _, head, _ = await asked("searxng")
    assert head.startswith("GET /search?")
    assert parameters(head) == {"q": "precio del cobre", "format": "json", "language": "es"}


@pytest.mark.parametrize(
    ("query", "sent"),
    [
        ("!!g cobre", "g cobre"),
        ("!images :fr <3 cobre", "images fr 3 cobre"),
        ("cobre!", "cobre!"),
        ("!!", '"!!"'),
        ("a < b", "a b"),
    ],
)
async def test_a_query_gives_searxng_no_commands(query, sent):
    _, head, _ = await asked("searxng", Query(query))
    assert parameters(head)["q"] == sent


async def test_engines_of_searxng_that_do_not_answer_are_named():
    silent = [["bing", "timeout"], "qwant", [], None]
    found, _, _ = await asked("searxng", None, answer(SHAPES["searxng"](unresponsive_engines=silent)))
    assert found.unresponsive_engines == ["bing", "qwant", "None"]


async def test_brave_is_asked_by_its_documentation():
    _, head, _ = await asked("brave", country="ES")
    assert head.startswith("GET /res/v1/web/search?")
    assert parameters(head) == {
        "q": "precio del cobre", "count": "7", "search_lang": "es", "country": "ES", "result_filter": "web",
        "text_decorations": "false",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("language", "sent"), [("zh", "zh-hans"), ("ja", "jp"), ("pt", "pt-pt"), ("eo", None), ("", None)]
)
async def test_brave_gets_only_languages_that_it_takes(language, sent):
    _, head, _ = await asked("brave", Query("q", language))
    assert parameters(head).get("search_lang") == sent


async def test_brave_gets_at_most_fifty_words():
    _, head, _ = await asked("brave", Query(" ".join("abcdefg"[i % 7] for i in range(190))))
    assert len(parameters(head)["q"].split()) == 50


async def test_tavily_is_asked_by_its_documentation():
    _, head, body = await asked("tavily")
    assert head.startswith("POST /search ")
    assert "authorization: bearer k3y-of-the-test" in head.lower()
    assert json.loads(body) == {"query": "precio del cobre", "max_results": 7, "search_depth": "basic"}


async def test_serper_is_asked_by_its_documentation():
    _, head, body = await asked("serper", country="ES")
    assert head.startswith("POST /search ")
    assert json.loads(body) == {"q": "precio del cobre", "num": 10, "hl": "es", "gl": "es"}


async def test_google_is_asked_by_its_documentation():
    _, head, _ = await asked("google", Query("q", "es", 20), country="ES")
    assert head.startswith("GET /customsearch/v1?")
    assert "x-goog-api-key: k3y-of-the-test" in head.lower()
    assert parameters(head) == {"cx": "cx-1", "q": "q", "num": "10", "hl": "es", "lr": "lang_es", "gl": "es"}


@pytest.mark.parametrize(
    ("name_", "status", "body", "cause"),
    [
        ("brave", 422, {"error": {"code": "SUBSCRIPTION_TOKEN_INVALID", "status": 422}}, Cause.CONFIGURATION),
        ("brave", 422, {"error": {"code": "VALIDATION", "status": 422}}, Cause.REQUEST),
        ("brave", 429, {"error": {"code": "RATE_LIMITED", "status": 429}}, Cause.QUOTA),
        ("tavily", 432, {"detail": {"error": "This request exceeds your plan's set usage limit."}}, Cause.QUOTA),
        ("tavily", 433, {"detail": {"error": "This request exceeds the pay-as-you-go limit."}}, Cause.QUOTA),
        ("tavily", 401, {"detail": {"error": "Unauthorized: missing or invalid API key."}}, Cause.CONFIGURATION),
        ("serper", 403, {"message": "Unauthorized.", "statusCode": 403}, Cause.CONFIGURATION),
        ("serper", 400, {"message": "Not enough credits", "statusCode": 400}, Cause.QUOTA),
        ("google", 400, {"error": {"details": [{"reason": "API_KEY_INVALID"}]}}, Cause.CONFIGURATION),
        ("google", 403, {"error": {"errors": [{"reason": "dailyLimitExceeded"}]}}, Cause.QUOTA),
        ("google", 403, {"error": {"status": "PERMISSION_DENIED"}}, Cause.CONFIGURATION),
        ("google", 429, {"error": {"status": "RESOURCE_EXHAUSTED"}}, Cause.QUOTA),
    ],
)  # fmt: skip
async def test_what_a_refusal_says_counts_more_than_its_status(name_, status, body, cause):
    assert (await failure(name_, answer(body, status))).cause is cause


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry_after": "7"}, 7),
        ({"retry_after": "99999999"}, 3600),
        ({"retry_after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0),
        ({"retry_after": "soon"}, None),
        ({"x_ratelimit_remaining": "0, 1000", "x_ratelimit_reset": "2, 1419704"}, 2),
        ({"x_ratelimit_remaining": "1, 0", "x_ratelimit_reset": "1, 900"}, 900),
        ({"x_ratelimit_remaining": "x", "x_ratelimit_reset": "1"}, None),
        ({}, None),
    ],
)
async def test_a_provider_says_how_long_it_wants_to_rest(headers, seconds):
    failed = await failure("brave", answer(b"", 429, **headers))
    assert (failed.retry_after and failed.retry_after.total_seconds()) == (seconds or None) or (
        failed.retry_after is not None and failed.retry_after.total_seconds() == seconds
    )


async def test_commercial_providers_go_through_the_proxy():
    async with Api(answer(SHAPES["brave"]())).listening() as proxy:
        made = JsonApi("brave", "http://api.search.example", proxy=proxy.url)
        await made.get("/res/v1/web/search", {"q": "q"})
        await made.close()
    assert proxy.asked[0][0].startswith("GET http://api.search.example/res/v1/web/search?q=q HTTP/1.1")


async def test_proxies_of_the_environment_are_not_used(monkeypatch):
    for variable in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(variable, "http://127.0.0.1:1")
    found, _, _ = await asked("brave")
    assert found.results
