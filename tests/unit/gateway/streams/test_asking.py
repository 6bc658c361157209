"""The one change of a request's bytes."""

import json

import pytest

from services.gateway.streams.asking import outgoing

CHAT, PLAIN = "/v1/chat/completions", "/v1/completions"


def sent(body, path=CHAT):
    return outgoing(path, body, json.loads(body))


@pytest.mark.parametrize("path", [CHAT, PLAIN])
def test_usage_is_asked_for_where_the_client_did_not(path):
    body = '{ "model":"m",  "z": 1.0, "messages":[{"content":"año \\" {"}], "stream":true}'.encode()
    changed = sent(body, path)
    assert changed.hides_usage
    assert changed.streamed
    assert changed.body == b'{"stream_options":{"include_usage":true},' + body[1:]


@pytest.mark.parametrize("options", ["{}", "null", '{"include_usage":false}', '{"include_usage":null}'])
def test_options_without_usage_become_such_with(options):
    changed = sent(b'{"stream_options": %b, "stream": true, "a": [ 1 ]}' % options.encode())
    assert changed.hides_usage
    assert changed.body.endswith(b', "stream": true, "a": [ 1 ]}')
    assert json.loads(changed.body)["stream_options"] == {"include_usage": True}


def test_other_options_stay():
    changed = sent(
        b'{"stream":true,"stream_options":{"include_usage":false,"continuous_usage_stats":true,"n":"\xc3\xb1"}}'
    )
    assert json.loads(changed.body)["stream_options"] == {
        "include_usage": True,
        "continuous_usage_stats": True,
        "n": "ñ",
    }


def test_of_options_given_twice_none_escapes():
    body = b'{"stream":true,"stream_options":{"include_usage":true},"stream\\u005foptions":{"include_usage":false}}'
    changed = sent(body)
    assert changed.body.count(b"true}") == 2
    assert changed.hides_usage


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, b'{"stream":false}'),
        (CHAT, b"{}"),
        (CHAT, b'{"stream":null,"stream_options":{}}'),
        ("/v1/embeddings", b'{"input":"x"}'),
    ],
)
def test_what_is_no_stream_stays_as_it_is(path, body):
    found = sent(body, path)
    assert (found.body, found.streamed, found.hides_usage) == (body, False, False)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, b'{"stream":true,"stream_options":{"include_usage":true}}'),
        (CHAT, b'{"stream":true,"stream_options":[1]}'),
        ("/v1/responses", b'{"stream":true}'),
    ],
)
def test_a_stream_that_needs_no_question_stays_as_it_is(path, body):
    found = sent(body, path)
    assert (found.body, found.streamed, found.hides_usage) == (body, True, False)


def test_what_vllm_takes_for_true_is_a_stream_here_too():
    assert sent(b'{"stream":1}').hides_usage
    assert sent(b'{"stream":"true"}').hides_usage


@pytest.mark.parametrize("value", ["True", "yes", "on", "1", "t", "Y"])
def test_so_is_every_word_for_true(value):
    assert sent(json.dumps({"stream": value}).encode()).hides_usage
