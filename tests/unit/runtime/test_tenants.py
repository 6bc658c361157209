import asyncio

import pytest

from services.runtime.tenants import BadTenantFile, TenantDirectory, load

GOOD = "id: acme\nlimits: {requests_per_minute: 10}\n"
KEY = "keys: [{id: main, sha256: '" + "a" * 64 + "'}]\n"


def write(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder


def test_a_good_file_is_read(tmp_path):
    tenant = load(write(tmp_path, acme=GOOD))["acme"]
    assert tenant.limits.requests_per_minute == 10
    assert tenant.tool("sql_query").enabled


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("id: acme\nlimts: {}\n", "acme.yaml: limts"),
        ("id: acme\nlimits: {requests_per_minute: -1}\n", "acme.yaml: limits.requests_per_minute"),
        ("id: acme\nlimits: [\n", "acme.yaml: line 3"),
        ("id: Acme Corp\n", "acme.yaml: id"),
        ("id: acme\nkeys: [{id: main, sha256: abc}]\n", "acme.yaml: keys.0.sha256"),
        ("id: acme\ntools: {sql_querry: {}}\n", "unknown sql_querry"),
        ("id: acme\nsql: {dsn_secret: x, tables: {}}\n", "acme.yaml: sql.0.tables"),
        ("[]\n", "acme.yaml: file"),
        ("", "acme.yaml: file"),
        ("id: acme\nkeys: [{id: main, expires_at: 2026-13-45}]\n", "acme.yaml: month must be in 1"),
        ("id: " + "1" * 5_001, "acme.yaml: Exceeds the limit"),
        ("id: " + "[" * 20_000, "acme.yaml: maximum recursion depth"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path, text, says):
    with pytest.raises(BadTenantFile, match=says.replace(".", r"\.")):
        load(write(tmp_path, acme=text))


def test_an_empty_folder_is_a_mistake(tmp_path):
    with pytest.raises(BadTenantFile, match="SABUESO_TENANTS_DIR"):
        load(tmp_path)


def test_two_tenants_cannot_share_a_key(tmp_path):
    with pytest.raises(BadTenantFile, match="also a key of tenant `acme`"):
        load(write(tmp_path, acme=GOOD + KEY, other="id: other\n" + KEY))


def test_two_files_cannot_share_an_id(tmp_path):
    with pytest.raises(BadTenantFile, match="used by another file"):
        load(write(tmp_path, acme=GOOD, acme2=GOOD))


def test_a_change_is_taken_up_and_a_bad_one_is_not(tmp_path):
    directory = TenantDirectory(write(tmp_path, acme=GOOD))
    assert not directory.reload()
    write(tmp_path, acme=GOOD, other="id: other\n")
    assert directory.reload()
    assert set(directory.all()) == {"acme", "other"}
    write(tmp_path, other="id: [\n")
    assert not directory.reload()
    assert set(directory.all()) == {"acme", "other"}
    assert directory.failed_reloads == 1


def test_a_file_that_the_parser_chokes_on_changes_nothing(tmp_path):
    directory = TenantDirectory(write(tmp_path, acme=GOOD))
    write(tmp_path, acme="id: acme\nkeys: [{id: main, expires_at: 2026-13-45}]\n")
    assert not directory.reload()
    assert directory.failed_reloads == 1
    write(tmp_path, acme="id: acme\nmodels: [mini]\n")
    assert directory.reload()


def test_a_file_that_is_away_for_a_moment_changes_nothing(tmp_path):
    directory = TenantDirectory(write(tmp_path, acme=GOOD))
    (tmp_path / "acme.yaml").unlink()
    (tmp_path / "acme.yaml").symlink_to(tmp_path / "nowhere")
    assert not directory.reload()
    assert directory.get("acme")
    (tmp_path / "acme.yaml").unlink()
    write(tmp_path, acme="id: acme\nmodels: [mini]\n")
    assert directory.reload()
    assert directory.get("acme").models == ("mini",)


@pytest.mark.parametrize("content", [b"id: \xff", b"id: a\x00b"])
def test_a_file_that_is_no_text_is_named(tmp_path, content):
    (tmp_path / "acme.yaml").write_bytes(content)
    with pytest.raises(BadTenantFile, match=r"acme\.yaml: it is not text"):
        load(tmp_path)


async def test_a_watched_folder_is_followed_until_it_is_closed(tmp_path):
    directory = TenantDirectory(write(tmp_path, acme=GOOD), look_seconds=0.01)
    directory.watch()
    write(tmp_path, other="id: [\n")
    while not directory.failed_reloads:
        await asyncio.sleep(0.01)
    write(tmp_path, other="id: other\n")
    while "other" not in directory.all():
        await asyncio.sleep(0.01)
    await directory.close()
    write(tmp_path, third="id: third\n")
    await asyncio.sleep(0.05)
    assert "third" not in directory.all()
