"""charts/vllm: which values are taken, which are refused and how, and that all of them render."""

import itertools
import re
from pathlib import Path

import helm_python
import pytest
import yaml

from tests.chart.cluster_facts import (
    KUBERNETES,
    Refused,
    check_schemas,
    documents,
    manifests_of,
    of_kind,
    run_helm,
    template,
    texts,
)
from tests.chart.known_metrics import exporters
from tests.chart.vllm_pools import KITCHEN_SINK, PREFETCH, PROFILES, WEIGHTS, merged, profile, rendered, with_large

CLAIM = {"from": "claim", "prefetch": PREFETCH}
IMAGE = {"from": "image", "image": {"registry": "r", "repository": "m", "digest": "sha256:" + "0" * 64}}
PROFILE_NAMES = sorted(path.stem for path in PROFILES.glob("*.yaml") if path.stem != "staging")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"gpus": 0.5}, "gpus"),
        ({"gpus": 3}, "gpus"),
        ({"gpus": "4"}, "gpus"),
        ({"gpuz": 4}, "gpuz"),
        ({"gpu": {"products": ["NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"]}}, "products"),
        ({"gpu": {"products": ["NVIDIA-H100-80GB-HBM3-SHARED"]}}, "products"),
        ({"gpu": {"products": []}}, "products"),
        ({"resources": {"cpu": "500m"}}, "cpu"),
        ({"resources": {"memory": "64Gi"}}, "memory"),
        ({"shmGi": 100}, "shmGi"),
        ({"maxNumQueuedReqs": 100}, "maxNumQueuedReqs"),
        ({"maxNumBatchedTokens": 256, "maxNumSeqs": 512, "maxNumQueuedReqs": 512}, "maxNumBatchedTokens"),
        ({"startupSeconds": 605}, "startupSeconds"),
        ({"drain": {"marginSeconds": 5}}, "marginSeconds"),
        ({"drain": {"shutdownSeconds": 0}}, "shutdownSeconds"),
        ({"kvCacheDtype": "int2"}, "kvCacheDtype"),
        ({"extraArgs": ["--tensor-parallel-size=8"]}, "--tensor-parallel-size has a value"),
        ({"extraArgs": ["--no-enable-prefix-caching"]}, "prefix-caching has a value"),
        ({"extraArgs": ["--api-key=secret"]}, "--api-key has a value"),
        # vLLM reads both alike.
        ({"extraArgs": ["--max_num_seqs=8"]}, "--max-num-seqs has a value"),
        ({"extraEnv": {"HF_HUB_OFFLINE": "0"}}, "HF_HUB_OFFLINE"),
        ({"extraEnv": {"VLLM_API_KEY": "secret"}}, "VLLM_API_KEY"),
        ({"apiKey": {"value": "secret"}}, "value"),
        ({"lora": {"maxRank": 48}}, "maxRank"),
        ({"structuredOutputs": {"disableAnyWhitespace": True}}, "disableAnyWhitespace"),
        ({"lora": {"enabled": True, "maxLoras": 20}}, "maxCpuLoras"),
        ({"model": {"path": "../other"}}, "path"),
        ({"model": {"path": "/models/x"}}, "path"),
        ({"autoscaling": {"running": 1}}, "running"),
        ({"autoscaling": {"kvCache": 2}}, "kvCache"),
        ({"autoscaling": {"enabled": True, "waiting": 200}}, "waiting"),
        ({"autoscaling": {"enabled": True, "minReplicas": 3}}, "minReplicas"),
        ({"autoscaling": {"scaleDownSeconds": 60}}, "scaleDownSeconds"),
        ({"weights": {"existingClaim": ""}}, "existingClaim: name a PersistentVolumeClaim"),
        ({"weights": {"from": "claim"}}, "prefetch.enabled"),
        ({"weights": {"from": "claim", "prefetch": {"enabled": True}}}, "revision"),
        ({"weights": {"from": "claim", "prefetch": PREFETCH | {"checksums": {}}}}, "checksums"),
        ({"weights": {"from": "claim", "prefetch": PREFETCH | {"revision": "main"}}}, "revision"),
        ({"weights": CLAIM | {"claim": {"accessMode": "ReadWriteOnce"}}, "replicas": 2}, "ReadWriteMany"),
        # One replica is one pod too many: the Job waits for the volume that it holds.
        ({"weights": CLAIM | {"claim": {"accessMode": "ReadWriteOncePod"}}}, "ReadWriteMany"),
        ({"weights": {"from": "image"}}, "digest"),
        ({"weights": IMAGE | {"prefetch": PREFETCH}}, "prefetch"),
        ({"enabled": False}, "enable one"),
    ],
)
def test_wrong_settings_of_a_pool_are_refused_by_name(settings, says):
    with pytest.raises(Exception, match=says) as refused:
        rendered(**with_large(**settings))
    assert "nil pointer" not in str(refused.value)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({}, "existingClaim"),
        ({"existingClaim": "models"}, "existingClaim"),
        (merged(WEIGHTS, {"pools": {"Large": {}}}), "Large"),
        (merged(WEIGHTS, {"pools": {"a" * 21: {}}}), "a" * 21),
        (merged(WEIGHTS, {"image": {"digest": "latest"}}), "digest"),
        (merged(WEIGHTS, {"global": {"imageRegistry": "https://reg.local/"}}), "imageRegistry"),
        (merged(WEIGHTS, {"networkPolicy": {"enable": False}}), "enable"),
        (merged(WEIGHTS, {"pools": {"other": {}}}), "both serve meta-llama"),
        # Names of objects that another pool, or the test, has.
        (merged(WEIGHTS, {"pools": {"large-headless": {"model": {"name": "a"}}}}), "large-headless"),
        (merged(WEIGHTS, {"pools": {"large-prefetch": {"model": {"name": "a"}}}}), "large-prefetch"),
        (merged(WEIGHTS, {"pools": {"pools-test": {"model": {"name": "a"}}}}), "pools-test"),
        # Null takes a default away: a limit of none, or a nil pointer.
        (merged(WEIGHTS, {"defaults": {"maxNumSeqs": None}}), "maxNumSeqs"),
        (merged(WEIGHTS, {"defaults": {"resources": {"cpu": None}}}), "cpu"),
        (merged(WEIGHTS, {"defaults": {"lora": None}}), "lora"),
        (merged(WEIGHTS, {"networkPolicy": None}), "networkPolicy"),
        (merged(WEIGHTS, {"networkPolicy": {"from": None}}), "from"),
    ],
)
def test_wrong_values_are_refused_by_name(values, says):
    with pytest.raises(Exception, match=says):
        rendered(**values)


TOGGLES = {
    "scaled": {"defaults": {"autoscaling": {"enabled": True}}},
    "lora": {"pools": {"large": {"lora": {"enabled": True, "adapters": {"sql": "lora/sql"}}}}},
    "prefetched": {"defaults": {"weights": CLAIM}},
    "image": {"pools": {"large": {"weights": IMAGE}}},
    "small": {"pools": {"small": {"enabled": True, "weights": {"from": "existingClaim", "existingClaim": "m"}}}},
    "key": {"defaults": {"apiKey": {"existingSecret": "key"}}},
    "no policies": {"networkPolicy": {"enabled": False}},
    "monitor": {"podMonitor": {"enabled": True}},
    "registry": {"global": {"imageRegistry": "reg.local"}},
    "pull secrets": {"image": {"pullSecrets": [{"name": "key"}]}},
    "placed": {
        "defaults": {
            "nodeSelector": {"a": "b"},
            "priorityClassName": "p",
            "podAnnotations": {"a": "b"},
            "podLabels": {"a": "b"},
        }
    },
    "no tolerations": {"defaults": {"tolerations": []}},
    "replicas": {"defaults": {"replicas": 3}},
}


def test_settings_go_together_two_by_two():
    for first, second in itertools.combinations(TOGGLES, 2):
        if {first, second} == {"prefetched", "image"}:
            continue
        files = texts("vllm", **merged(WEIGHTS, TOGGLES[first], TOGGLES[second]))
        text = "\n---\n".join(content for name, content in files.items() if name.endswith(".yaml"))
        manifests = [one for one in yaml.load_all(text, Loader=yaml.CSafeLoader) if one]
        names = [(one["kind"], one["metadata"]["name"]) for one in manifests]
        assert len(set(names)) == len(names), (first, second)
        assert "<no value>" not in text, (first, second)
        assert "%!" not in text, (first, second)


@pytest.mark.parametrize("name", ["default", *PROFILE_NAMES])
def test_every_profile_fits_the_schemas_of_kubernetes(name):
    check_schemas(rendered(**(WEIGHTS if name == "default" else profile(name))), KUBERNETES[-1:])


def test_everything_at_once_fits_the_oldest_and_the_newest_kubernetes():
    check_schemas(rendered(**KITCHEN_SINK), (KUBERNETES[0], KUBERNETES[-1]))


def test_the_programs_render_the_same_twice_as_the_library_does(helm_major):
    for values in (WEIGHTS, KITCHEN_SINK):
        first = template(helm_major, values, chart="vllm")
        assert first == template(helm_major, values, chart="vllm")
        assert in_order(manifests_of(first)) == in_order(rendered(**values))


def in_order(manifests):
    return sorted(manifests, key=lambda one: (one["kind"], one["metadata"]["name"]))


def test_image_volumes_are_refused_where_the_cluster_is_too_old(helm_template):
    values = with_large(weights=IMAGE)
    assert "sha256:" in helm_template(values, chart="vllm", kube_version="1.33")
    with pytest.raises(Refused, match=r"1\.33 or newer"):
        helm_template(values, chart="vllm", kube_version="1.32")


@pytest.mark.parametrize("name", ["kitchen sink", *PROFILE_NAMES])
def test_both_programs_find_nothing_to_say_about_it(helm_major, name):
    values = KITCHEN_SINK if name == "kitchen sink" else profile(name)
    done = run_helm(helm_major, "lint", "--strict", "charts/vllm", "--kube-version", "1.34.0", values=values)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_release_with_a_long_name_is_refused_before_a_name_is_cut():
    with helm_python.Chart.load("charts/vllm") as chart, pytest.raises(Exception, match="51 characters"):
        chart.render(WEIGHTS, name="a" * 50, namespace="default")


def test_a_volume_of_one_node_can_be_filled_before_its_pool_comes():
    weights = CLAIM | {"claim": {"accessMode": "ReadWriteOnce"}}
    pools = {"next": {"enabled": False, "model": {"path": "next"}, "weights": weights}}
    claims = of_kind(rendered(**merged(WEIGHTS, {"pools": pools})), "PersistentVolumeClaim")
    assert claims["try-next-weights"]["spec"]["accessModes"] == ["ReadWriteOnce"]


def test_a_pool_that_only_fetches_has_names_that_fit_too():
    pools = {"next": {"enabled": False, "model": {"path": "next"}, "weights": CLAIM}}
    with pytest.raises(Exception, match=r"pools\.next: .* 51 characters"):
        texts("vllm", release="a" * 48, **merged(WEIGHTS, {"pools": pools | {"large": {"enabled": False}, "x": {}}}))


@pytest.mark.parametrize("name", ["123", "1a", "a.b"])
def test_a_release_whose_name_no_service_can_have_is_refused(name):
    with pytest.raises(Exception, match="beginning with a letter"):
        texts("vllm", release=name, **WEIGHTS)


@pytest.mark.parametrize(("release", "namespace", "pool"), [("on", "123", "y"), ("vllm", "1e3", "null")])
def test_releases_pools_and_namespaces_may_be_called_what_yaml_reads_otherwise(release, namespace, pool):
    values = merged(KITCHEN_SINK, {"pools": {pool: {"model": {"name": "example/other"}}}})
    manifests = documents(texts("vllm", release=release, namespace=namespace, **values))
    check_schemas(manifests, KUBERNETES[-1:])
    text = next(one for one in manifests if one["kind"] == "ConfigMap" and one["metadata"]["name"].endswith("-pools"))
    assert pool in [one["name"] for one in yaml.safe_load(text["data"]["pools.yaml"])["pools"]]


def test_every_setting_is_explained():
    """Each line of the values that begins a setting of a pool follows a comment, or its name says all."""
    plain = {
        "replicas",
        "enabled",
        "gpu",
        "model",
        "lora",
        "weights",
        "priorityClassName",
        "podAnnotations",
        "podLabels",
        "name",
    }
    lines = Path("charts/vllm/values.yaml").read_text().splitlines()
    known = yaml.safe_load("\n".join(lines))["defaults"]
    for name in set(known) - plain:
        at = next(n for n, line in enumerate(lines) if line.startswith(f"  {name}:"))
        nearby = " ".join(lines[at - 2 : at])
        assert "#" in nearby, name


def test_what_is_known_of_vllm_is_of_the_version_that_the_chart_runs():
    """Renewed together: flags, parsers and metrics are read from the wheel, and vLLM renames now and then."""
    version = yaml.safe_load(Path("charts/vllm/Chart.yaml").read_text())["appVersion"].removeprefix("v")
    assert exporters()["vllm"]["version"] == version
    for page in ("charts/vllm/README.md", "tests/data/vllm/README.md", "docs/model-pool.md"):
        assert set(re.findall(r"vLLM[^0-9\n]{0,30}v?(\d+\.\d+\.\d+)", Path(page).read_text())) == {version}, page
