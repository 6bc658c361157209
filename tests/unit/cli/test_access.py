"""`sabueso tenants`, `keys` and `limits`: what they ask of the gateway, what they say of it, and how they end."""

import hashlib
import json
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from services.runtime.tenants import Tenant

SECRET = {"prefix": "sk-sabueso-abc", "state": "active", "source": "issued", "expires_at": None}
KEY = {"id": "ci", "source": "issued", "scopes": ["search"], "secrets": [SECRET]}
REFUSAL = 403, {"error": {"code": "insufficient_scope", "message": "This key lacks the scope `admin`."}}


def own():
    """The key's own tenant, for whoever asks."""
    return {"GET /v1/usage": [(200, {"tenant": "acme"})] * 3}


def limits(**fields):
    declared = {"requests_per_minute": 600, "tokens_per_minute": 0, "body_bytes": 100, "models": {}}
    return {"declared": declared, "override": None, "effective": declared, "keys_with_overrides": [], **fields}


def test_a_key_is_made_for_the_own_tenant_and_its_secret_printed_once(sabueso, gateway):
    gateway.answers = own() | {"POST /v1/admin/keys/acme": [(201, {**KEY, "key": "sk-sabueso-abc-secret"})]}
    before = datetime.now(UTC)
    words = "keys create ci --scope search --scope agent --label hr --model mini* --expires-in 2h --daily-tokens 9"
    done = sabueso(*words.split())
    assert done.exit_code == 0, done.output
    assert done.stdout.count("sk-sabueso-abc-secret") == 1
    assert "store it now" in done.stdout
    sent = gateway.asked[-1][1]
    ends = datetime.fromisoformat(sent.pop("expires_at"))
    assert timedelta(hours=2) <= ends - before <= timedelta(hours=2, minutes=2)
    assert sent == {
        "id": "ci",
        "scopes": ["search", "agent"],
        "labels": ["hr"],
        "models": ["mini*"],
        "limits": {"daily_tokens": 9},
    }


def test_only_what_is_said_is_sent_for_a_named_tenant(sabueso, gateway):
    gateway.answers = {"POST /v1/admin/keys/other": [(201, {**KEY, "key": "k"})]}
    done = sabueso("keys", "create", "ci", "-t", "other", "--json")
    assert json.loads(done.stdout)["key"] == "k"
    assert gateway.asked == [("POST /v1/admin/keys/other", {"id": "ci"})]


@pytest.mark.parametrize("span", ["2 weeks", "", "-1h", "1.5h", "h", "9999999999d"])
def test_a_span_that_is_none_ends_with_status_2_before_anything_is_asked(sabueso, gateway, span):
    assert sabueso("keys", "create", "ci", "--expires-in", span).exit_code == 2
    assert sabueso("keys", "rotate", "ci", "--overlap", span).exit_code == 2
    assert gateway.asked == []


def test_keys_of_all_pages_are_listed_with_each_secret(sabueso, gateway):
    old = {**SECRET, "prefix": "sk-sabueso-old", "expires_at": "2030-01-01T00:00:00Z"}
    gateway.answers = own() | {
        "GET /v1/admin/keys/acme?limit=1000&after=": [(200, {"data": [KEY], "after": "ci"})] * 2,
        "GET /v1/admin/keys/acme?limit=1000&after=ci": [
            (200, {"data": [{**KEY, "id": "app", "secrets": [old, SECRET]}], "after": None})
        ]
        * 2,
    }
    done = sabueso("keys", "list")
    assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == ["ci", "app", "sk-sabueso-abc"]
    assert "2030-01-01T00:00" in done.stdout
    assert [key["id"] for key in json.loads(sabueso("keys", "list", "--json").stdout)["data"]] == ["ci", "app"]


def test_a_rotation_says_how_long_the_old_secret_works(sabueso, gateway):
    gateway.answers = own() | {"POST /v1/admin/keys/acme/ci/rotate": [(200, {**KEY, "key": "new-secret"})]}
    done = sabueso("keys", "rotate", "ci", "--overlap", "2d")
    assert "new-secret" in done.stdout
    assert "2d more" in done.stdout
    assert gateway.asked[-1][1] == {"overlap_seconds": 172_800}


def test_a_key_is_revoked_only_after_a_yes(sabueso, gateway):
    gateway.answers = own() | {"DELETE /v1/admin/keys/acme/ci": [(200, {**KEY, "source": "file"})]}
    refused = sabueso("keys", "revoke", "ci")
    assert refused.exit_code == 1
    assert [asked for asked, _ in gateway.asked] == ["GET /v1/usage"]
    done = sabueso("keys", "revoke", "ci", "--yes")
    assert done.exit_code == 0
    assert "the tenant's file too" in done.output


def test_a_secret_made_offline_fits_its_lines_and_asks_nobody(sabueso, gateway):
    made = json.loads(sabueso("keys", "hash", "ci", "--scope", "admin", "--json").stdout)
    assert made["entry"]["sha256"] == hashlib.sha256(made["key"].encode()).hexdigest()
    assert Tenant.model_validate({"id": "acme", "keys": [made["entry"]]}).keys[0].scopes == ("admin",)
    printed = sabueso("keys", "hash").stdout
    entry = yaml.safe_load(printed.partition("file:")[2])[0]
    assert entry["sha256"] == hashlib.sha256(printed.splitlines()[0].encode()).hexdigest()
    assert gateway.asked == []


def test_a_refusal_is_one_line_and_status_1(sabueso, gateway):
    for words, asked in [
        (("keys", "list", "-t", "acme"), "GET /v1/admin/keys/acme?limit=1000&after="),
        (("limits", "show", "-t", "acme"), "GET /v1/admin/limits/acme"),
        (("tenants", "list"), "GET /v1/admin/tenants"),
    ]:
        gateway.answers = {asked: [REFUSAL]}
        done = sabueso(*words)
        assert done.exit_code == 1
        assert "insufficient_scope" in str(done.exception)


def test_limits_are_shown_as_declared_replaced_and_in_force(sabueso, gateway):
    override = {"requests_per_minute": 5, "expires_at": None, "set_by": "ops/chief"}
    effective = {**limits()["declared"], "requests_per_minute": 5, "models": {"mini": {"daily_tokens": 1000}}}
    shown = limits(override=override, effective=effective, keys_with_overrides=["ci"])
    gateway.answers = own() | {
        "GET /v1/admin/limits/acme": [(200, shown)],
        "GET /v1/admin/limits/acme/ci": [(200, shown)],
    }
    done = sabueso("limits", "show")
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows[1] == ["requests_per_minute", "600", "5", "5"]
    assert rows[2] == ["tokens_per_minute", "unlimited", "–", "unlimited"]
    assert "mini: daily_tokens 1,000" in done.stdout
    assert "ops/chief until cleared" in done.stdout
    assert "Also replaced: ci" in done.stdout
    assert json.loads(sabueso("limits", "show", "--key", "ci", "--json").stdout) == shown


def test_limits_are_set_with_zero_for_unlimited_and_cleared(sabueso, gateway):
    gateway.answers = own() | {
        "PUT /v1/admin/limits/acme/ci": [(200, limits())],
        "DELETE /v1/admin/limits/acme": [(200, limits())],
    }
    assert sabueso("limits", "set", "--key", "ci", "--tokens-per-minute", "0", "--daily-tokens", "7").exit_code == 0
    assert gateway.asked[-1][1] == {"tokens_per_minute": 0, "daily_tokens": 7}
    assert sabueso("limits", "clear").exit_code == 0
    assert sabueso("limits", "set").exit_code == 1
    assert sabueso("limits", "set", "--daily-tokens", "-1").exit_code == 2


def tenant_view(**fields):
    rates = {"requests_per_minute": 600, "tokens_per_minute": 0}
    return {
        "id": "acme",
        "declared_key_count": 2,
        "issued_key_count": 1,
        "limits": rates,
        "priority": "normal",
        **fields,
    }


def test_tenants_are_listed_and_a_wrong_file_is_status_1(sabueso, gateway):
    wrong = {"valid": False, "reason": "b.yaml: id: bad", "failed_reloads": 3}
    gateway.answers = {
        "GET /v1/admin/tenants": [
            (200, {"data": [tenant_view()], "files": None}),
            (200, {"data": [tenant_view()], "files": wrong}),
        ],
        "GET /v1/admin/tenants/acme": [(200, {"id": "acme", "web": {"sovereign": True}})],
    }
    done = sabueso("tenants", "list")
    assert done.exit_code == 0
    assert done.stdout.splitlines()[1].split() == ["acme", "2", "1", "600", "unlimited", "normal"]
    done = sabueso("tenants", "list")
    assert done.exit_code == 1
    assert "b.yaml: id: bad" in done.output
    assert "sovereign: true" in sabueso("tenants", "show", "acme").stdout


GOOD = "id: acme\nkeys:\n  - id: main\n    sha256: " + "a" * 64 + "\n"


@pytest.mark.parametrize(
    ("text", "line", "field"),
    [
        ("id: Bad Name\n", 1, "id"),
        ("keys: []\n", 1, "id"),
        (f"{GOOD}colour: red\n", 5, "colour"),
        (f"{GOOD}\n# limits\nlimits:\n  tokens_per_minute: many\n", 8, "limits.tokens_per_minute"),
        (f"{GOOD}    scopes: [search, everything]\n", 5, "keys.0.scopes.1"),
        (f"{GOOD}  - id: other\n", 5, "keys.1.sha256"),
        (f"{GOOD}limits:\n\ttokens: 1\n", 6, ""),
        (f"{GOOD}oidc:\n  - issuer: ftp://x\n    audience: a\n", 6, "oidc.0.issuer"),
        ("", 0, ""),
        ("- a\n- b\n", 1, ""),
        ("just words\n", 1, ""),
    ],
)
def test_a_file_that_is_wrong_is_status_2_with_line_field_and_reason(sabueso, tmp_path, text, line, field):
    (tmp_path / "acme.yaml").write_text(text)
    done = sabueso("tenants", "check", str(tmp_path / "acme.yaml"), "--json")
    assert done.exit_code == 2
    found = json.loads(done.stdout)
    assert not found["valid"]
    assert (found["mistakes"][0]["line"], found["mistakes"][0]["field"]) == (line, field)
    assert found["mistakes"][0]["reason"]
    plain = sabueso("tenants", "check", str(tmp_path / "acme.yaml"))
    assert plain.output.startswith(f"acme.yaml:{line}: " if line else "acme.yaml: ")


def test_a_right_file_is_status_0_and_all_mistakes_of_a_wrong_one_are_named(sabueso, tmp_path):
    (tmp_path / "acme.yaml").write_text(GOOD)
    assert sabueso("tenants", "check", str(tmp_path / "acme.yaml")).exit_code == 0
    (tmp_path / "two.yaml").write_text("id: two\npriority: top\nlimits:\n  body_bytes: 0\n")
    done = sabueso("tenants", "check", str(tmp_path / "two.yaml"))
    assert [line.split(": ")[0] for line in done.output.splitlines()] == ["two.yaml:4", "two.yaml:2"]
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    assert sabueso("tenants", "check", str(tmp_path / "binary.yaml")).exit_code == 2
    assert sabueso("tenants", "check", str(tmp_path / "none.yaml")).exit_code == 2


def test_files_that_claim_the_same_name_or_key_are_told_apart(sabueso, tmp_path):
    (tmp_path / "a.yaml").write_text(GOOD)
    (tmp_path / "b.yaml").write_text(GOOD.replace("acme", "other"))
    (tmp_path / "c.yaml").write_text("id: acme\n")
    done = sabueso("tenants", "check", *(str(tmp_path / name) for name in ("a.yaml", "b.yaml", "c.yaml")))
    assert done.exit_code == 2
    assert "b.yaml: keys: the same key is in a.yaml too" in done.output
    assert "c.yaml: id: `acme` is used by a.yaml too" in done.output
