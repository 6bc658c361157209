"""Every alert on a cause fires on planted series, and is quiet on healthy ones."""

import pytest
import yaml

from local import promtool
from tests.chart.alert_rules import flat, rendered, run, series, steady, write_rules, write_tests

pytestmark = pytest.mark.skipif(promtool.find() is None, reason=promtool.HOW)

CAUSES = ("gateway", "agent", "ingestion", "model-pool", "backing", "kubernetes")
ROUTE = {"route": "/v1/search", "status": "200"}
REQUESTS, CALLS = "sabueso_gateway_request_duration_seconds_count", "sabueso_call_duration_seconds_count"
CREDENTIALS = "sabueso_gateway_refused_credentials_total"
TOOLS, ANSWERS = "sabueso_orchestrator_tool_calls_total", "sabueso_orchestrator_answers_total"
MODEL_CALLS = "sabueso_orchestrator_model_calls_total"
JOBS, SUCCESS = "sabueso_ingestion_jobs_total", "vllm:request_success_total"
MODEL = {"model_name": "llama"}
ENGINE = {**MODEL, "engine": "0", "pod": "vllm-0"}
PG, VALKEY, POD = {"instance": "pg:9187"}, {"instance": "valkey:9121"}, {"pod": "try-gateway-7d4b9c5f6d-x2x4z"}
WEEKLY = {"job_name": "try-evaluation-weekly-29371860"}
HEALTHY, AGE = "sabueso_gateway_replica_healthy", "sabueso_gateway_access_age_seconds"
EXPIRY, BROKEN = "sabueso_gateway_next_key_expiry_timestamp_seconds", "sabueso_gateway_broken_streams_total"
SERVICES = ("gateway", "orchestrator", "retrieval", "ingestion", "embedding", "reranking", "sql_tool", "web_tool")
SERVICES = (*SERVICES, "tool_cache", "evaluation")
DAY = 86_400


def infos(*without, **more):
    return [flat("sabueso_service_info", 1, service=one, **more) for one in SERVICES if one not in without]


def counts(name, label, per_minute, **labels):
    return [steady(name, step, **{label: value}, **labels) for value, step in per_minute.items()]


def histogram(name, seconds, **labels):
    """All of two requests a minute take that long; buckets of one second and of ten."""
    return [
        steady(f"{name}_count", 60, **labels),
        *(steady(f"{name}_bucket", 60 if seconds <= le else 0, le=str(float(le)), **labels) for le in (1, 10)),
        steady(f"{name}_bucket", 60, le="+Inf", **labels),
    ]


TTFT, TPOT = "vllm:time_to_first_token_seconds", "vllm:request_time_per_output_token_seconds"
# Alert, what Prometheus has seen, and the labels under which it fires; None: it does not.
CASES = [
    ("ServiceAbsent", infos("tool_cache"), {"service": "tool_cache"}),
    ("ServiceAbsent", infos("gateway"), {"service": "gateway"}),
    ("ServiceAbsent", infos(), None),
    # Five minutes a step, eight days; the last of them is that which is looked at.
    ("TrafficStopped", [series(REQUESTS, "0+300x2250 675000x60", **ROUTE)], {}),
    ("TrafficStopped", [series(REQUESTS, "0+300x2310", **ROUTE)], None),
    ("TrafficStopped", [series(REQUESTS, "0x2310", **ROUTE)], None),
    # Yesterday was Friday: a week ago nobody asked either.
    ("TrafficStopped", [series(REQUESTS, "0x1000 0+300x1250 375000x60", **ROUTE)], None),
    ("TrafficStopped", [], None),
    ("LimiterDegraded", [flat("sabueso_gateway_limiter_store_lost", 1, **POD)], POD),
    ("LimiterDegraded", [flat("sabueso_gateway_limiter_store_lost", 0, **POD)], None),
    ("RevocationsLate", [flat(AGE, 90, **POD)], POD),
    ("RevocationsLate", [flat(AGE, -1, **POD)], POD),
    ("RevocationsLate", [flat(AGE, 1, **POD)], None),
    # The clock of a test starts at 0.
    ("KeyExpiring", [flat(EXPIRY, 13 * DAY)], {}),
    ("KeyExpiring", [flat(EXPIRY, 20 * DAY)], None),
    ("KeyExpiring", [flat(EXPIRY, 0)], None),
    ("ExpiredKeyUsed", [steady(CREDENTIALS, 1, reason="expired")], {}),
    ("ExpiredKeyUsed", [steady(CREDENTIALS, 0.1, reason="expired")], None),
    ("CredentialsRefused", [steady(CREDENTIALS, 120, reason="unknown")], {"reason": "unknown"}),
    ("CredentialsRefused", [steady(CREDENTIALS, 30, reason="unknown")], None),
    (
        "QueueRefusing",
        [steady("sabueso_gateway_queue_refused_total", 12, queue="main", reason="full")],
        {"queue": "main", "reason": "full"},
    ),
    ("QueueRefusing", [steady("sabueso_gateway_queue_refused_total", 1, queue="main", reason="full")], None),
    ("PoolDown", [flat(HEALTHY, 0, pool="big", replica=one) for one in "ab"], {"pool": "big"}),
    ("PoolDown", [flat(HEALTHY, value, pool="big", replica=str(value)) for value in (0, 1)], None),
    ("ReplicaUnhealthy", [flat(HEALTHY, 0, pool="big", replica="a")], {"pool": "big", "replica": "a"}),
    ("ReplicaUnhealthy", [flat(HEALTHY, value, pool="big", replica="a", pod=str(value)) for value in (0, 1)], None),
    (
        "StreamsBreaking",
        [steady(BROKEN, 4, reason="cut"), steady("sabueso_gateway_model_request_seconds_count", 60)],
        {},
    ),
    (
        "StreamsBreaking",
        [steady(BROKEN, 2, reason="cut"), steady("sabueso_gateway_model_request_seconds_count", 60)],
        None,
    ),
    # ---- agent
    ("ServiceFailing", counts(CALLS, "code", {"OK": 50, "INTERNAL": 5}, service="retrieval"), {"service": "retrieval"}),
    ("ServiceFailing", counts(CALLS, "code", {"OK": 50, "INVALID_ARGUMENT": 50}, service="retrieval"), None),
    ("ServiceFailing", counts(CALLS, "code", {"OK": 0, "INTERNAL": 0.5}, service="retrieval"), None),
    ("CacheBypassed", counts("sabueso_tool_cache_lookups_total", "result", {"hit": 8, "bypass": 2}), {}),
    ("CacheBypassed", counts("sabueso_tool_cache_lookups_total", "result", {"hit": 8, "miss": 20}), None),
    (
        "EmbeddingQueueLong",
        [flat("sabueso_embedding_queue_tokens", 50_000, kind="query", **POD)],
        {"kind": "query", **POD},
    ),
    (
        "EmbeddingQueueLong",
        [flat("sabueso_embedding_queue_tokens", 30_000, kind="query", pod=one) for one in "ab"],
        None,
    ),
    ("ToolFailing", counts(TOOLS, "status", {"ok": 7, "error": 3}, tool="sql_query"), {"tool": "sql_query"}),
    ("ToolFailing", counts(TOOLS, "status", {"ok": 9, "error": 1, "not_made": 50}, tool="sql_query"), None),
    ("ToolFailing", counts(TOOLS, "status", {"ok": 0, "error": 0.1}, tool="sql_query"), None),
    ("AnswersPartial", counts(ANSWERS, "finish", {"answered": 7, "partial": 3}), {}),
    ("AnswersPartial", counts(ANSWERS, "finish", {"answered": 9, "partial": 1}), None),
    ("AnswersPartial", counts(ANSWERS, "finish", {"answered": 0, "partial": 0.2}), None),
    ("ModelCallsInvalid", counts(MODEL_CALLS, "valid", {"true": 8, "false": 2}, model="llama"), {"model": "llama"}),
    ("ModelCallsInvalid", counts(MODEL_CALLS, "valid", {"true": 19, "false": 1}, model="llama"), None),
    (
        "SuspicionsHigh",
        [steady("sabueso_orchestrator_suspicions_total", 9, tool="web_search", action="redact")],
        {"tool": "web_search", "action": "redact"},
    ),
    ("SuspicionsHigh", [steady("sabueso_orchestrator_suspicions_total", 1, tool="web_search", action="redact")], None),
    ("ForeignToolChanged", [steady("sabueso_orchestrator_external_tools_refused_total", 0.2, reason="changed")], {}),
    ("ForeignToolChanged", [steady("sabueso_orchestrator_external_tools_refused_total", 9, reason="missing")], None),
    (
        "SearchProviderOut",
        [flat("sabueso_web_tool_provider_state", 2, provider="brave", pod=one) for one in "ab"],
        {"provider": "brave"},
    ),
    (
        "SearchProviderOut",
        [flat("sabueso_web_tool_provider_state", one, provider="brave", pod=str(one)) for one in (0, 2)],
        None,
    ),
    ("SqlSourceRefused", [flat("sabueso_sql_tool_audited_sources", 1, verdict="away")], {"verdict": "away"}),
    (
        "SqlSourceRefused",
        [flat("sabueso_sql_tool_audited_sources", n, verdict=one) for one, n in (("served", 3), ("refused", 0))],
        None,
    ),
    ("VerifiedQueryDefective", [flat("sabueso_sql_tool_defective_verified_queries", 2)], {}),
    ("VerifiedQueryDefective", [flat("sabueso_sql_tool_defective_verified_queries", 0)], None),
    # ---- ingestion
    ("IngestionLagging", [flat("sabueso_ingestion_oldest_job_seconds", 2000, pod=one) for one in "ab"], {}),
    ("IngestionLagging", [flat("sabueso_ingestion_oldest_job_seconds", 1000, pod=one) for one in "ab"], None),
    ("IngestionJobsFailing", counts(JOBS, "status", {"READY": 1, "FAILED": 0.5}), {}),
    ("IngestionJobsFailing", counts(JOBS, "status", {"READY": 10, "FAILED": 1, "CANCELLED": 1}), None),
    ("IngestionJobsFailing", counts(JOBS, "status", {"READY": 0, "FAILED": 0.05}), None),
    (
        "IngestionRetrying",
        [steady("sabueso_ingestion_retries_total", 3, dependency="embedding")],
        {"dependency": "embedding"},
    ),
    ("IngestionRetrying", [steady("sabueso_ingestion_retries_total", 1, dependency="embedding")], None),
    # ---- model pool
    ("VllmAbsent", [series("vllm:num_requests_running", "1x60 _x60", **ENGINE)], MODEL),
    ("VllmAbsent", [flat("vllm:num_requests_running", 0, **ENGINE)], None),
    ("VllmAbsent", [], None),
    (
        "VllmEngineStalled",
        [
            flat("vllm:num_requests_running", 3, **ENGINE),
            flat("vllm:iteration_tokens_total_count", 900, **ENGINE),
            flat("vllm:num_requests_running", 3, **ENGINE | {"pod": "vllm-1"}),
            steady("vllm:iteration_tokens_total_count", 60, **ENGINE | {"pod": "vllm-1"}),
        ],
        {"namespace": "default", **ENGINE},
    ),
    (
        "VllmEngineStalled",
        [flat("vllm:num_requests_running", 0, **ENGINE), flat("vllm:iteration_tokens_total_count", 900, **ENGINE)],
        None,
    ),
    (
        "VllmQueueLong",
        [flat("vllm:num_requests_waiting", 4, **ENGINE), flat("vllm:kv_cache_usage_perc", 0.97, **ENGINE)],
        MODEL,
    ),
    (
        "VllmQueueLong",
        [flat("vllm:num_requests_waiting", 4, **ENGINE), flat("vllm:kv_cache_usage_perc", 0.5, **ENGINE)],
        None,
    ),
    ("VllmKvCacheFull", [flat("vllm:kv_cache_usage_perc", 0.97, **ENGINE)], MODEL),
    # Two engines at 60 % are not 120 %.
    ("VllmKvCacheFull", [flat("vllm:kv_cache_usage_perc", 0.6, **ENGINE | {"pod": one}) for one in "ab"], None),
    ("VllmPreempting", [steady("vllm:num_preemptions_total", 10, **ENGINE)], {**MODEL, "pod": "vllm-0"}),
    ("VllmPreempting", [steady("vllm:num_preemptions_total", 1, **ENGINE)], None),
    ("VllmRequestsFailing", counts(SUCCESS, "finished_reason", {"stop": 60, "error": 1}, **ENGINE), MODEL),
    ("VllmRequestsFailing", counts(SUCCESS, "finished_reason", {"stop": 60, "error": 0.1}, **ENGINE), None),
    ("VllmAborting", counts(SUCCESS, "finished_reason", {"stop": 6, "abort": 3}, **ENGINE), MODEL),
    ("VllmAborting", counts(SUCCESS, "finished_reason", {"stop": 60, "abort": 3}, **ENGINE), None),
    (
        "VllmRejecting",
        [steady("vllm:admission_rejections_total", 1, reason="max_num_queued_reqs", **ENGINE)],
        {**MODEL, "reason": "max_num_queued_reqs"},
    ),
    ("VllmRejecting", [flat("vllm:admission_rejections_total", 7, reason="max_num_queued_reqs", **ENGINE)], None),
    ("VllmFirstTokenSlow", histogram(TTFT, 5, **ENGINE), MODEL),
    ("VllmFirstTokenSlow", histogram(TTFT, 0.5, **ENGINE), None),
    ("VllmOutputTokenSlow", histogram(TPOT, 5, **ENGINE), MODEL),
    ("VllmOutputTokenSlow", [], None),
    (
        "VllmPrefixCacheMissing",
        [
            steady("vllm:prefix_cache_hits_total", 1_000, minutes=240, **ENGINE),
            steady("vllm:prefix_cache_queries_total", 20_000, minutes=240, **ENGINE),
        ],
        MODEL,
    ),
    (
        "VllmPrefixCacheMissing",
        [
            steady("vllm:prefix_cache_hits_total", 10_000, minutes=240, **ENGINE),
            steady("vllm:prefix_cache_queries_total", 20_000, minutes=240, **ENGINE),
        ],
        None,
    ),
    (
        "GpuError",
        [series("DCGM_FI_DEV_XID_ERRORS", "0x80 79x40", Hostname="h", gpu="3", pod="vllm-0")],
        {"Hostname": "h", "gpu": "3", "pod": "vllm-0", "namespace": "default"},
    ),
    ("GpuError", [flat("DCGM_FI_DEV_XID_ERRORS", 0, Hostname="h", gpu="3", pod="vllm-0")], None),
    # ---- backing services
    ("QdrantAbsent", [series("app_status_recovery_mode", "0x60 _x60", pod="q-0")], {}),
    ("QdrantAbsent", [flat("app_status_recovery_mode", 0, pod="q-0")], None),
    ("QdrantRecovering", [flat("app_status_recovery_mode", 1, pod="q-0")], {"pod": "q-0"}),
    ("QdrantRecovering", [flat("app_status_recovery_mode", 0, pod="q-0")], None),
    ("QdrantReplicaDead", [flat("collection_dead_replicas", 1, pod="q-0")], {"pod": "q-0"}),
    ("QdrantReplicaDead", [flat("collection_dead_replicas", 0, pod="q-0")], None),
    ("QdrantFailing", counts("rest_responses_total", "status", {"200": 60, "500": 3}), {}),
    ("QdrantFailing", counts("rest_responses_total", "status", {"200": 60, "404": 30}), None),
    ("PostgresqlDown", [flat("pg_up", 0, **PG)], PG),
    ("PostgresqlDown", [flat("pg_up", 1, **PG)], None),
    (
        "PostgresqlConnectionsHigh",
        [
            *(flat("pg_stat_activity_count", 45, state=one, **PG) for one in "ab"),
            flat("pg_settings_max_connections", 100, **PG),
        ],
        PG,
    ),
    (
        "PostgresqlConnectionsHigh",
        [flat("pg_stat_activity_count", 45, state="a", **PG), flat("pg_settings_max_connections", 100, **PG)],
        None,
    ),
    (
        "PostgresqlDeadlocks",
        [steady("pg_stat_database_deadlocks", 0.2, datname="acme", **PG)],
        {"datname": "acme", **PG},
    ),
    ("PostgresqlDeadlocks", [flat("pg_stat_database_deadlocks", 9, datname="acme", **PG)], None),
    ("PostgresqlReplicaLagging", [flat("pg_replication_lag_seconds", 90, **PG)], PG),
    ("PostgresqlReplicaLagging", [flat("pg_replication_lag_seconds", 2, **PG)], None),
    ("ValkeyDown", [flat("redis_up", 0, **VALKEY)], VALKEY),
    ("ValkeyDown", [flat("redis_up", 1, **VALKEY)], None),
    (
        "ValkeyMemoryHigh",
        [flat("redis_memory_used_bytes", 95, **VALKEY), flat("redis_memory_max_bytes", 100, **VALKEY)],
        VALKEY,
    ),
    # 0 is without a limit.
    (
        "ValkeyMemoryHigh",
        [flat("redis_memory_used_bytes", 95, **VALKEY), flat("redis_memory_max_bytes", 0, **VALKEY)],
        None,
    ),
    ("ValkeyEvicting", [steady("redis_evicted_keys_total", 1, **VALKEY)], VALKEY),
    ("ValkeyEvicting", [flat("redis_evicted_keys_total", 5, **VALKEY)], None),
    ("ValkeyRejecting", [steady("redis_rejected_connections_total", 1, **VALKEY)], VALKEY),
    ("ValkeyRejecting", [flat("redis_rejected_connections_total", 5, **VALKEY)], None),
    ("ValkeyNotPersisting", [flat("redis_aof_last_write_status", 0, **VALKEY)], VALKEY),
    ("ValkeyNotPersisting", [flat("redis_rdb_last_bgsave_status", 0, **VALKEY)], VALKEY),
    ("ValkeyNotPersisting", [flat("redis_aof_last_write_status", 1, **VALKEY)], None),
    (
        "CertificateExpiring",
        [flat("certmanager_certificate_expiration_timestamp_seconds", 13 * DAY, exported_namespace="a", name="web")],
        {"exported_namespace": "a", "namespace": "default", "name": "web"},
    ),
    (
        "CertificateExpiring",
        [flat("certmanager_certificate_expiration_timestamp_seconds", 30 * DAY, exported_namespace="a", name="web")],
        None,
    ),
    # ---- the cluster
    (
        "ReplicasMissing",
        [
            flat("kube_deployment_status_replicas_available", 1, deployment="try-gateway"),
            flat("kube_deployment_spec_replicas", 2, deployment="try-gateway"),
        ],
        {"deployment": "try-gateway"},
    ),
    (
        "ReplicasMissing",
        [
            flat("kube_deployment_status_replicas_available", 1, deployment="else"),
            flat("kube_deployment_spec_replicas", 2, deployment="else"),
        ],
        None,
    ),
    (
        "PodRestarting",
        [steady("kube_pod_container_status_restarts_total", 0.1, container="gateway", **POD)],
        {"container": "gateway", **POD},
    ),
    ("PodRestarting", [flat("kube_pod_container_status_restarts_total", 40, container="gateway", **POD)], None),
    (
        "ContainerOutOfMemory",
        [
            flat("kube_pod_container_status_last_terminated_reason", 1, reason="OOMKilled", container="gateway", **POD),
            series("kube_pod_container_status_restarts_total", "0x85 1x40", container="gateway", **POD),
        ],
        {"container": "gateway", **POD},
    ),
    (
        "ContainerOutOfMemory",
        [
            flat("kube_pod_container_status_last_terminated_reason", 1, reason="OOMKilled", container="gateway", **POD),
            flat("kube_pod_container_status_restarts_total", 1, container="gateway", **POD),
        ],
        None,
    ),
    *(
        (
            "MemoryNearLimit",
            [
                flat("container_memory_working_set_bytes", used, container="gateway", **POD),
                flat("kube_pod_container_resource_limits", 100, resource="memory", container="gateway", **POD),
            ],
            labels,
        )
        for used, labels in ((95, {"container": "gateway", **POD}), (70, None))
    ),
    *(
        (
            "VolumeFilling",
            [
                flat("kubelet_volume_stats_available_bytes", free, persistentvolumeclaim="data"),
                flat("kubelet_volume_stats_capacity_bytes", 100, persistentvolumeclaim="data"),
            ],
            labels,
        )
        for free, labels in ((5, {"persistentvolumeclaim": "data"}), (30, None))
    ),
    ("FileDescriptorsLow", [flat("process_open_fds", 900, **POD), flat("process_max_fds", 1024, **POD)], POD),
    ("FileDescriptorsLow", [flat("process_open_fds", 90, **POD), flat("process_max_fds", 1024, **POD)], None),
    ("JobFailed", [flat("kube_job_failed", 1, condition="true", **WEEKLY)], WEEKLY),
    ("JobFailed", [flat("kube_job_failed", 1, condition="false", **WEEKLY)], None),
    # A load test that failed is a result; and what another release does is that one's.
    ("JobFailed", [flat("kube_job_failed", 1, condition="true", job_name="try-load-test-0a1b2c3d")], None),
    ("JobFailed", [flat("kube_job_failed", 1, condition="true", job_name="try-2-evaluation-weekly-29371860")], None),
    (
        "PodRestarting",
        [steady("kube_pod_container_status_restarts_total", 0.1, container="gateway", pod=f"try-2-{POD['pod'][4:]}")],
        None,
    ),
]
# Where a hundred minutes are too few.
LATER = {"TrafficStopped": "11500m", "VllmPrefixCacheMissing": "200m"}


def groups_of(alert):
    """The rules of one alert, from wherever they are."""
    groups = [group for file in CAUSES for group in rendered()[file]]
    kept = [group | {"rules": [rule for rule in group["rules"] if rule["alert"] == alert]} for group in groups]
    return [group for group in kept if group["rules"]]


def case(alert, seen, labels):
    rules = [rule for group in groups_of(alert) for rule in group["rules"]]
    expected = []
    if labels is not None:
        (rule,) = [one for one in rules if one["labels"].get("service", labels.get("service")) == labels.get("service")]
        expected = [{"exp_labels": labels | rule["labels"]}]
    return {
        "interval": "5m" if alert == "TrafficStopped" else "1m",
        "input_series": seen,
        "alert_rule_test": [
            {"eval_time": LATER.get(alert, "100m"), "alertname": alert, "exp_alerts": expected},
            # Nothing is alarmed about at once.
            {"eval_time": "0m", "alertname": alert, "exp_alerts": []},
        ],
    }


def outcome(folder, cases):
    files = []
    for alert in dict.fromkeys(name for name, _, _ in cases):
        rules = write_rules(folder / f"{alert}.rules.yaml", groups_of(alert))
        tests = [case(*one) for one in cases if one[0] == alert]
        files.append(write_tests(folder / f"{alert}.yaml", rules, tests, "30m" if alert == "TrafficStopped" else "5m"))
    return run("test", "rules", *files)


def test_every_alert_on_a_cause_fires_when_it_should_and_only_then(tmp_path):
    code, told = outcome(tmp_path, CASES)
    assert code == 0, told


def test_rules_and_the_words_of_their_annotations_are_valid(tmp_path):
    for file, groups in rendered().items():
        path = tmp_path / f"{file}.yaml"
        path.write_text(yaml.safe_dump({"groups": groups}))
        code, told = run("check", "rules", str(path))
        assert code == 0, told


def test_annotations_say_what_and_how_much(tmp_path):
    labels = {"tool": "sql_query"}
    (rule,) = [rule for group in groups_of("ToolFailing") for rule in group["rules"]]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": groups_of("ToolFailing")}))
    test = case("ToolFailing", counts(TOOLS, "status", {"ok": 7, "error": 3}, **labels), labels)
    test["alert_rule_test"][0]["exp_alerts"][0]["exp_annotations"] = rule["annotations"] | {
        "summary": "The tool sql_query fails.",
        "description": "30% of its calls ended in an error; the limit is 0.2. Answers go on without it and say so.",
    }
    code, told = run("test", "rules", write_tests(tmp_path / "t.yaml", tmp_path / "rules.yaml", [test], "5m"))
    assert code == 0, told


def test_a_wrong_expectation_is_noticed(tmp_path):
    code, _ = outcome(tmp_path, [("ValkeyDown", [flat("redis_up", 1, **VALKEY)], VALKEY)])
    assert code != 0


def test_a_restarted_process_is_no_failure(tmp_path):
    """Counters begin at 0 again: neither a negative rate nor a burst."""
    seen = [
        series(CALLS, "0+50x50 0+50x60", code="OK", service="retrieval"),
        series(CALLS, "0+1x50 0+1x60", code="INTERNAL", service="retrieval"),
    ]
    code, told = outcome(tmp_path, [("ServiceFailing", seen, None)])
    assert code == 0, told


def test_without_any_series_only_absence_is_told(tmp_path):
    groups = [group for file in CAUSES for group in rendered()[file]]
    alerts = {rule["alert"] for group in groups for rule in group["rules"]} - {"ServiceAbsent"}
    asked = [{"eval_time": "100m", "alertname": alert, "exp_alerts": []} for alert in sorted(alerts)]
    test = {"interval": "1m", "input_series": [], "alert_rule_test": asked}
    code, told = run(
        "test", "rules", write_tests(tmp_path / "t.yaml", write_rules(tmp_path / "r.yaml", groups), [test], "5m")
    )
    assert code == 0, told


def test_each_alert_on_a_cause_has_a_case_that_fires_and_one_that_does_not():
    causes = {rule["alert"] for file in CAUSES for group in rendered()[file] for rule in group["rules"]}
    for alert in causes:
        assert {labels is not None for name, _, labels in CASES if name == alert} == {True, False}, alert
    assert {name for name, _, _ in CASES} == causes
