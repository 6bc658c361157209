"""charts/vllm: what a pod of a pool is told, where it may go, how it starts and how it ends."""

from pathlib import Path

import pytest

from tests.chart.cluster_facts import breaches_of_restricted, containers, of_kind, pods, quantity, render
from tests.chart.vllm_pools import (
    KITCHEN_SINK,
    PREFETCH,
    PROFILES,
    WEIGHTS,
    flag,
    pool_pod,
    profile,
    rendered,
    server,
    variables,
    with_large,
)

CASES = ("default", "kitchen sink", "prod-h100", "tp2", "staging", "airgap", "gke", "prefetch")


def values_of(case):
    match case:
        case "default":
            return WEIGHTS
        case "kitchen sink":
            return KITCHEN_SINK
        case "staging":
            return profile("tp2", "staging")
        case _:
            return profile(case)


@pytest.fixture(scope="module", params=CASES)
def manifests(request):
    return rendered(**values_of(request.param))


@pytest.fixture(scope="module")
def default():
    return rendered(**WEIGHTS)


@pytest.fixture
def pool_pods(manifests):
    return [deployment["spec"]["template"] for deployment in of_kind(manifests, "Deployment").values()]


def test_every_profile_is_looked_at():
    assert {path.stem for path in PROFILES.glob("*.yaml")} <= set(CASES)


# ---- what vLLM is told


def test_the_default_is_the_reference_configuration_on_four_gpus(default):
    words = server(pool_pod(default))["args"]
    assert words[0] == "serve"
    assert {
        "--tensor-parallel-size=4",
        "--enable-auto-tool-choice",
        "--tool-call-parser=llama3_json",
        "--max-model-len=16384",
        "--quantization=fp8_per_tensor",
        "--enable-prefix-caching",
        "--enable-chunked-prefill",
    } <= set(words)
    assert words[words.index("--served-model-name") + 1] == "meta-llama/Llama-3.1-70B-Instruct"


def test_every_flag_and_parser_is_one_of_the_pinned_version(pool_pods):
    known = set(Path("tests/data/vllm/flags.txt").read_text().split())
    parsers = set(Path("tests/data/vllm/tool_parsers.txt").read_text().split())
    for pod in pool_pods:
        words = [word.partition("=") for word in server(pod)["args"]]
        assert {name for name, _, _ in words if name.startswith("--")} <= known
        assert {value for name, _, value in words if name == "--tool-call-parser"} <= parsers


def test_bf16_files_are_not_given_a_method_that_wants_fp8_files(default):
    # vLLM 0.33: "The `fp8` quantization method no longer supports online quantization".
    assert flag(server(pool_pod(default)), "quantization") in ("fp8_per_tensor", "fp8_per_channel", "fp8_per_block")


def test_a_pod_has_as_many_gpus_as_tensor_parallelism_asks_for(pool_pods):
    for pod in pool_pods:
        resources = server(pod)["resources"]
        gpus = resources["limits"]["nvidia.com/gpu"]
        assert gpus == resources["requests"]["nvidia.com/gpu"] == flag(server(pod), "tensor-parallel-size")
        assert gpus.isdigit()
        assert int(gpus) > 0


def test_a_pool_of_its_own_needs_no_tool_parser():
    words = server(pool_pod(rendered(**with_large(toolCallParser="", quantization=""))))["args"]
    assert not [word for word in words if word.startswith(("--tool-call", "--enable-auto", "--quantization"))]


def test_adapters_are_served_under_their_names():
    lora = {"enabled": True, "maxRank": 64, "adapters": {"sql": "lora/sql", "es": "lora/es"}}
    words = server(pool_pod(rendered(**with_large(lora=lora))))["args"]
    at = words.index("--lora-modules")
    assert words[at + 1 : at + 3] == ["es=/models/lora/es", "sql=/models/lora/sql"]
    assert "--max-lora-rank=64" in words


def test_settings_of_a_pool_take_the_place_of_the_defaults_even_when_they_are_empty():
    values = with_large(toolCallParser="", gpu={"runtimeClassName": ""}, lora={"enabled": False})
    values["defaults"] |= {"gpu": {"runtimeClassName": "nvidia"}, "lora": {"enabled": True}}
    pod = pool_pod(rendered(**values))
    assert "runtimeClassName" not in pod["spec"]
    assert "--enable-lora" not in server(pod)["args"]


def test_weights_come_from_a_volume_and_nothing_is_fetched(pool_pods):
    for pod in pool_pods:
        container = server(pod)
        assert variables(container).items() >= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}.items()
        (mount,) = [one for one in container["volumeMounts"] if one["name"] == "models"]
        assert mount == {"name": "models", "mountPath": "/models", "readOnly": True}
        assert container["args"][1].startswith("/models/")


def test_it_listens_on_both_families_of_addresses(pool_pods):
    assert {flag(server(pod), "host") for pod in pool_pods} == {"::"}


# ---- where it may go


def test_only_whole_sxm_gpus_will_do(pool_pods):
    for pod in pool_pods:
        affinity = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        (term,) = affinity["nodeSelectorTerms"]
        product = term["matchExpressions"][0]
        assert product["key"] in ("nvidia.com/gpu.product", "cloud.google.com/gke-accelerator")
        assert product["operator"] == "In"
        assert product["values"] in (["NVIDIA-H100-80GB-HBM3"], ["nvidia-h100-80gb"])
        assert {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"} in pod["spec"]["tolerations"]


def test_pods_of_pools_are_guaranteed(pool_pods):
    for pod in pool_pods:
        for container in containers(pod):
            assert container["resources"]["requests"] == container["resources"]["limits"]
            assert {"cpu", "memory"} <= set(container["resources"]["limits"])
            assert container["resources"]["limits"]["cpu"].isdigit()


def test_a_rollout_never_asks_for_more_gpus_than_there_are(manifests):
    for deployment in of_kind(manifests, "Deployment").values():
        assert deployment["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}


def test_shared_memory_is_memory_and_leaves_room_for_the_rest(pool_pods):
    for pod in pool_pods:
        (volume,) = [one for one in pod["spec"]["volumes"] if one["name"] == "shm"]
        assert volume["emptyDir"]["medium"] == "Memory"
        memory = quantity(server(pod)["resources"]["limits"]["memory"])
        assert quantity(volume["emptyDir"]["sizeLimit"]) * 2 <= memory


def test_volumes_on_disk_fit_the_ephemeral_storage(pool_pods):
    for pod in pool_pods:
        sizes = [one["emptyDir"] for one in pod["spec"]["volumes"] if "emptyDir" in one]
        on_disk = sum(quantity(one["sizeLimit"]) for one in sizes if "medium" not in one)
        assert on_disk < quantity(server(pod)["resources"]["limits"]["ephemeral-storage"])


# ---- how it starts


def test_the_probe_and_vllm_wait_for_the_start_equally_long(manifests):
    for deployment in of_kind(manifests, "Deployment").values():
        container = server(deployment["spec"]["template"])
        probe = container["startupProbe"]
        budget = probe["periodSeconds"] * probe["failureThreshold"]
        assert str(budget) == variables(container)["VLLM_ENGINE_READY_TIMEOUT_S"]
        assert budget >= 1800
        assert deployment["spec"]["progressDeadlineSeconds"] > budget


def test_a_pod_that_waits_for_its_files_has_not_failed():
    """`helm --wait` and the alerts on stuck rollouts believe the Deployment."""
    weights = {"from": "claim", "prefetch": PREFETCH | {"maxSeconds": 20000}}
    deployment = of_kind(rendered(**with_large(weights=weights)), "Deployment")["try-large"]
    assert deployment["spec"]["progressDeadlineSeconds"] > 20000 + 1800


def test_a_slow_disk_has_a_longer_budget():
    container = server(pool_pod(rendered(**with_large(startupSeconds=5400))))
    assert container["startupProbe"]["failureThreshold"] == 540
    assert variables(container)["VLLM_ENGINE_READY_TIMEOUT_S"] == "5400"


def test_a_busy_engine_is_not_restarted(pool_pods):
    for pod in pool_pods:
        live, ready = server(pod)["livenessProbe"], server(pod)["readinessProbe"]
        assert live["timeoutSeconds"] >= 5
        assert ready["timeoutSeconds"] >= 5
        assert live["periodSeconds"] * live["failureThreshold"] >= 120
        assert live["periodSeconds"] * live["failureThreshold"] > ready["periodSeconds"] * ready["failureThreshold"]
        assert "initialDelaySeconds" not in live


def test_every_cache_is_below_a_writable_folder(pool_pods):
    wanted = {"HOME", "HF_HOME", "VLLM_CACHE_ROOT", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "TRITON_CACHE_DIR"}
    wanted |= {"TORCHINDUCTOR_CACHE_DIR", "FLASHINFER_WORKSPACE_BASE", "NUMBA_CACHE_DIR", "OUTLINES_CACHE_DIR"}
    for pod in pool_pods:
        container = server(pod)
        on_disk = {one["name"] for one in pod["spec"]["volumes"] if "emptyDir" in one}
        writable = tuple(one["mountPath"] for one in container["volumeMounts"] if one["name"] in on_disk)
        places = {name: value for name, value in variables(container).items() if value.startswith("/")}
        assert wanted <= set(places)
        assert all(value.startswith(writable) for value in places.values())


def test_the_user_has_a_name(pool_pods):
    # PyTorch asks for it, and the image knows no such number.
    assert all({"USER", "LOGNAME"} <= set(variables(server(pod))) for pod in pool_pods)


# ---- how it ends


def test_running_answers_may_end_before_the_pod_does(pool_pods):
    for pod in pool_pods:
        before = server(pod)["lifecycle"]["preStop"]["sleep"]["seconds"]
        draining = int(flag(server(pod), "shutdown-timeout"))
        assert before >= 10
        assert draining >= 60
        assert pod["spec"]["terminationGracePeriodSeconds"] >= before + draining + 15


# ---- what every pod of the chart is held to


def test_every_pod_is_restricted_and_alone(manifests):
    seen = list(pods(manifests))
    assert {owner["kind"] for owner, _ in seen} >= {"Deployment", "Pod"}
    for owner, pod in seen:
        assert breaches_of_restricted(pod) == [], owner["metadata"]["name"]
        assert pod["spec"]["enableServiceLinks"] is False
        assert pod["spec"]["automountServiceAccountToken"] is False
        assert pod["spec"]["serviceAccountName"] in of_kind(manifests, "ServiceAccount")
        for container in containers(pod):
            assert container["securityContext"]["readOnlyRootFilesystem"]
            assert {"requests", "limits"} <= set(container["resources"])
            assert {"cpu", "memory"} <= set(container["resources"]["requests"])


def test_cpu_pods_ask_for_no_gpu():
    for owner, pod in pods(render("vllm", **KITCHEN_SINK)):
        gpus = any("nvidia.com/gpu" in one["resources"]["limits"] for one in containers(pod))
        assert gpus is (owner["kind"] == "Deployment")
        assert gpus is ("tolerations" in pod["spec"])


def test_labels_of_yours_are_on_every_pod_of_a_pool_and_take_the_place_of_none():
    own = {"cost-centre": "answers", "app.kubernetes.io/name": "ours"}
    manifests = rendered(**KITCHEN_SINK)
    for owner, pod in pods(manifests):
        if owner["kind"] == "Pod":
            continue
        labels = pod["metadata"]["labels"]
        assert labels["cost-centre"] == "answers", owner["metadata"]["name"]
        assert labels["app.kubernetes.io/name"] != own["app.kubernetes.io/name"]
    selectors = [one["spec"]["selector"]["matchLabels"] for one in of_kind(manifests, "Deployment").values()]
    assert not any("cost-centre" in selector for selector in selectors)
