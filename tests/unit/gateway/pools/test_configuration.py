import pytest
import yaml

from services.gateway.pools.configuration import BadPoolsFile, PoolsFile, key_of, load
from services.gateway.pools.pool import pool_at
from services.runtime.settings import WrongSetting

REPLICAS = [{"url": "http://a:8000/v1"}]


def pools(*pools):
    return {"pools": [{"name": f"p{number}", "replicas": REPLICAS, **one} for number, one in enumerate(pools)]}


def written(tmp_path, content):
    path = tmp_path / "pools.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def test_a_file_is_read_with_every_part(tmp_path):
    path = written(
        tmp_path,
        """
pools:
  - name: large
    dns: vllm-large.models.svc:8000
    models: [llama-70b]
    aliases: {chat: llama-70b}
    timeouts: {connect_seconds: 1, first_token_seconds: 30, idle_seconds: 20, total_seconds: 300}
    retries: {most: 1, budget: 0.1}
    hedge_after_ms: 800
    fallback: llama-8b
    max_in_flight: 64
    affinity: session
    health: {path: /health, interval_seconds: 2}
  - name: small
    replicas:
      - {url: "http://10.0.0.1:8000/v1", weight: 2}
      - {url: "https://10.0.0.2:8000/v1"}
    models: [llama-8b]
    aliases: {quick: llama-8b, quickest: quick}
""",
    )
    file = load(path)
    assert [pool.name for pool in file.pools] == ["large", "small"]
    assert [file.resolve(name) for name in ("chat", "quickest", "other")] == ["llama-70b", "llama-8b", "other"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("pools: [", "line 1"),
        ("", "file: "),
        ({"pools": []}, "pools: "),
        ({"pools": [{"name": "a"}]}, "pools.0: Value error, give either `replicas` or `dns`"),
        (pools({"dns": "a:1"}), "give either"),
        (pools({"replicas": [{"url": "ftp://a"}]}), "pools.0.replicas.0.url: Value error, it must look like"),
        (pools({"replicas": [{"url": "http://u:p@a/v1"}]}), "a credential belongs into `api_key_file`"),
        (pools({"replicas": [{"url": "http://a:99999/v1"}]}), "pools.0.replicas.0.url"),
        (pools({"replicas": REPLICAS * 2}), "the same url twice"),
        (pools({"replicas": [{"url": "http://a/v1", "weight": 0}]}), "weight"),
        (pools({"name": "x"}, {"name": "x"}), "names must differ"),
        (pools({"hedge_after": 1}), "pools.0.hedge_after: Extra inputs are not permitted"),
        (pools({"aliases": {"a": "b", "b": "a"}}), "leads in a circle"),
        (pools({"aliases": {"a": "a"}}), "leads in a circle"),
        (pools({"models": ["m"], "aliases": {"m": "x"}}), "`m` is a served model"),
        (pools({"aliases": {"sabueso": "m"}}), "the agent's name"),
        (pools({"dns": "name-without-port", "replicas": []}), "pools.0.dns"),
        (pools({"timeouts": {"total_seconds": -1}}), "pools.0.timeouts.total_seconds"),
    ],
)
def test_a_wrong_file_names_the_field_and_the_reason(tmp_path, content, reason):
    with pytest.raises(BadPoolsFile) as wrong:
        load(written(tmp_path, content))
    assert str(wrong.value).startswith("pools.yaml: ")
    assert reason in str(wrong.value)
    assert wrong.value.setting == "SABUESO_POOLS_FILE"


def test_a_file_that_is_not_there_or_no_text_says_so(tmp_path):
    with pytest.raises(BadPoolsFile, match="cannot be read"):
        load(tmp_path / "nowhere.yaml")
    (tmp_path / "pools.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadPoolsFile):
        load(tmp_path / "pools.yaml")


def test_the_key_comes_from_its_file_without_the_line_end(tmp_path):
    (tmp_path / "key").write_text("secret\n")
    file = PoolsFile.model_validate(pools({"api_key_file": str(tmp_path / "key")}, {}))
    assert [key_of(pool) for pool in file.pools] == ["secret", ""]


@pytest.mark.parametrize("content", [b"two\nlines", b"\xff", None])
def test_a_key_that_cannot_be_one_is_refused_without_being_shown(tmp_path, content):
    if content is not None:
        (tmp_path / "key").write_bytes(content)
    file = PoolsFile.model_validate(pools({"api_key_file": str(tmp_path / "key")}))
    with pytest.raises(BadPoolsFile) as wrong:
        key_of(file.pools[0])
    assert "lines" not in str(wrong.value)


def test_one_url_is_a_pool_with_one_replica_or_with_every_address_of_its_name():
    assert [replica.url for replica in pool_at("http://vllm:8000/v1").replicas] == ["http://vllm:8000/v1"]
    pool = pool_at("https://vllm/v1", every_address=True, max_in_flight=7)
    assert (pool.dns, pool.dns_url, pool.max_in_flight) == ("vllm:443", "https://{}/v1", 7)


@pytest.mark.parametrize("url", ["http://", "http://u:p@host/v1", "http://host:x/v1", "http://host/v1?key=1"])
def test_a_url_that_cannot_be_one_names_the_setting(url):
    with pytest.raises(WrongSetting) as wrong:
        pool_at(url)
    assert wrong.value.setting == "SABUESO_MODEL_URL"
