"""The Tiltfile, evaluated with functions that note what they are asked for."""

from pathlib import Path

import starlark

from local.programs import GRPC_SERVICES


def evaluate():
    asked = {"docker_build": [], "helm": [], "k8s_resource": []}
    module = starlark.Module()
    for name in asked:
        module.add_callable(name, lambda *args, _calls=asked[name], **kwargs: _calls.append((args, kwargs)))
    for name in ("allow_k8s_contexts", "k8s_yaml"):
        module.add_callable(name, lambda *args, **kwargs: None)
    # Tilt allows loops at the top level; the standard does not.
    dialect = starlark.Dialect.extended()
    dialect.enable_top_level_stmt = True
    ast = starlark.parse("Tiltfile", Path("Tiltfile").read_text(), dialect)
    starlark.eval(module, ast, starlark.Globals.standard())
    return asked


def test_every_service_is_built_and_shown():
    asked = evaluate()
    wanted = {*GRPC_SERVICES, "gateway"}
    assert {kwargs["build_args"]["SERVICE"] for _, kwargs in asked["docker_build"]} == wanted
    assert {args[0] for args, _ in asked["k8s_resource"]} == {f"sabueso-{name.replace('_', '-')}" for name in wanted}
    assert asked["helm"][0][0] == ("charts/sabueso",)
