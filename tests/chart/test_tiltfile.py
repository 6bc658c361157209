"""The Tiltfile, evaluated with functions that note what they are asked for, over what the chart really renders."""

import re
from pathlib import Path

import helm_python
import pytest
import starlark
import yaml

from local.programs import GRPC_SERVICES
from tests.chart.cluster_facts import breaches_of_restricted, check_schemas, of_kind, pods
from tests.chart.vllm_pools import merged

SERVICES = {*GRPC_SERVICES, "gateway", "understudy"}
NOTED = ("allow_k8s_contexts", "docker_build", "k8s_resource", "local_resource")
NAMED = ("sync", "fall_back_on", "link", "port_forward")


class Tilt:
    """Tilt's functions. Those that only name something answer with what they were given."""

    def __init__(self):
        self.asked = {name: [] for name in NOTED}
        self.yaml = []
        module = starlark.Module()
        for name in NOTED:
            module.add_callable(name, lambda *args, _calls=self.asked[name], **kwargs: _calls.append((args, kwargs)))
        for name in NAMED:
            module.add_callable(name, lambda *args, _name=name, **kwargs: [_name, *args, kwargs])
        module.add_callable("helm", self.helm)
        module.add_callable("local", self.local)
        module.add_callable("read_file", lambda path: Path(path).read_text())
        module.add_callable("decode_yaml_stream", lambda text: [one for one in yaml.safe_load_all(text) if one])
        module.add_callable("encode_yaml_stream", yaml.safe_dump_all)
        module.add_callable("k8s_yaml", self.k8s_yaml)
        module["TRIGGER_MODE_MANUAL"] = "manual"
        # Tilt allows loops at the top level; the standard does not.
        dialect = starlark.Dialect.extended()
        dialect.enable_top_level_stmt = True
        ast = starlark.parse("Tiltfile", Path("Tiltfile").read_text(), dialect)
        starlark.eval(module, ast, starlark.Globals.standard())

    def helm(self, chart, name, namespace, values, set):
        self.release = (chart, name, namespace)
        layers = [yaml.safe_load(Path(path).read_text()) for path in values]
        for one in set:
            path, _, value = one.partition("=")
            for key in reversed(path.split(".")):
                value = {key: value}
            layers.append(value)
        with helm_python.Chart.load(chart) as loaded:
            rendered = loaded.render(merged(*layers), name=name, namespace=namespace)
        return "\n---\n".join(text for file, text in rendered.items() if file.endswith(".yaml"))

    def local(self, command, **_):
        assert command == "k8s/up.sh seed"
        return "0f" * 32 + "\n"

    def k8s_yaml(self, what):
        self.yaml += [one for one in yaml.safe_load_all(what if "\n" in what else Path(what).read_text()) if one]


@pytest.fixture(scope="module")
def tilt():
    return Tilt()


def name_of(service):
    return f"sabueso-{service.replace('_', '-')}"


def test_every_service_is_built_for_the_image_that_its_pod_wants(tilt):
    built = {kwargs["build_args"]["SERVICE"]: args[0] for args, kwargs in tilt.asked["docker_build"]}
    assert set(built) == SERVICES
    for service in SERVICES:
        pod = of_kind(tilt.yaml, "Deployment")[name_of(service)]["spec"]["template"]
        assert {container["image"].rpartition(":")[0] for container in pod["spec"]["containers"]} == {built[service]}


def test_every_workload_is_shown_in_a_group(tilt):
    workloads = {*of_kind(tilt.yaml, "Deployment"), *of_kind(tilt.yaml, "StatefulSet")}
    shown = {args[0]: kwargs["labels"] for args, kwargs in tilt.asked["k8s_resource"] if "labels" in kwargs}
    assert set(shown) == workloads
    assert all(len(labels) == 1 for labels in shown.values())


def test_a_change_of_code_is_copied_to_where_the_service_runs_from(tilt):
    for _, kwargs in tilt.asked["docker_build"]:
        fall_back, *syncs = kwargs["live_update"]
        service = kwargs["build_args"]["SERVICE"]
        assert [one[1:3] for one in syncs] == [
            [folder, f"/code/{folder}"] for folder in ("services/runtime", f"services/{service}")
        ]
        # Tilt refuses to sync what is not in the build's context.
        assert all(any(folder[1].startswith(only) for only in kwargs["only"]) for folder in syncs)
        assert "requirements.lock" in fall_back[1]
        assert all(Path(path).exists() for path in [*kwargs["only"], *fall_back[1], kwargs["dockerfile"]])


def test_what_the_recipe_copies_is_in_the_context(tilt):
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", Path("services/Dockerfile").read_text(), re.M)
    sources = {word for line in copied for word in line.split() if not word.startswith("--")}
    (_, kwargs) = tilt.asked["docker_build"][0]
    assert all(any(source.startswith(only) for only in kwargs["only"]) for source in sources)


def test_pods_under_development_keep_their_restrictions(tilt):
    check_schemas(tilt.yaml, ("1.37",))
    for _, pod in pods(tilt.yaml):
        assert breaches_of_restricted(pod) == []
        for container in pod["spec"]["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"]


def test_a_service_runs_from_its_copy(tilt):
    for service in SERVICES:
        pod = of_kind(tilt.yaml, "Deployment")[name_of(service)]["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        assert container["command"][-2:] == ["/app", "/code"]
        assert container["command"][2] == Path("k8s/dev/reload.py").read_text()
        assert {"name": "code", "mountPath": "/code"} in container["volumeMounts"]
        assert {"name": "code", "emptyDir": {}} in pod["volumes"]


def test_everything_is_in_the_namespace_that_the_script_makes(tilt):
    (namespace,) = of_kind(tilt.yaml, "Namespace").values()
    assert tilt.release == ("charts/sabueso", "sabueso", namespace["metadata"]["name"])
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert tilt.asked["allow_k8s_contexts"] == [(("kind-sabueso",), {})]


def test_no_hook_runs_as_a_resource(tilt):
    assert not of_kind(tilt.yaml, "Pod")


def test_the_gateway_is_forwarded_and_linked(tilt):
    ((_, gateway),) = [one for one in tilt.asked["k8s_resource"] if "port_forwards" in one[1]]
    assert gateway["port_forwards"][0][1:3] == [8080, 8080]
    assert {one[2] for one in gateway["links"]} >= {"page", "metrics"}


def test_a_button_starts_the_load_test_and_nothing_starts_it_alone(tilt):
    buttons = {args[0]: (args[1], kwargs) for args, kwargs in tilt.asked["local_resource"]}
    command, options = buttons["load-test"]
    assert "loadtests/smoke.py" in command
    assert Path("loadtests/smoke.py").exists()
    for _, options in buttons.values():
        assert options["auto_init"] is False
        assert options["trigger_mode"] == "manual"
