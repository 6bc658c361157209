from services.gateway.limits.plan import Limit, every_limit, plan_for, smallest_token_limit
from services.runtime.tenants import Ceilings, Tenant

TENANT = Tenant.model_validate(
    {
        "id": "acme",
        "limits": {
            "requests_per_minute": 100,
            "tokens_per_minute": 5000,
            "concurrent_requests": 0,
            "models": {"big-1": {"tokens_per_minute": 400}, "small-1": {"concurrent_requests": 2}},
            "on_store_loss": {"tokens": "closed"},
        },
    }
)


def test_a_request_counts_against_its_tenant_its_key_and_its_model():
    plan = plan_for(TENANT, "app", Ceilings(requests_per_minute=10, daily_tokens=900), "big-1")
    assert [(one.name, one.owner, one.most, one.on_loss) for one in plan] == [
        ("tenant-requests", "", 100, "local"),
        ("tenant-tokens", "", 5000, "closed"),
        ("key-requests", "app", 10, "local"),
        ("key-daily-tokens", "app", 900, "local"),
        ("model-tokens", "big-1", 400, "closed"),
    ]
    assert smallest_token_limit(plan).most == 400


def test_models_without_limits_of_their_own_add_none():
    assert plan_for(TENANT, "app", Ceilings(), "invented") == plan_for(TENANT, "app", Ceilings())


def test_every_limit_names_each_model_that_has_some():
    found = {(one.scope, one.owner) for one in every_limit(TENANT, "app", Ceilings(concurrent_requests=1))}
    assert found == {("tenant", ""), ("key", "app"), ("model", "big-1"), ("model", "small-1")}


def test_names_in_the_store_differ_by_owner_and_share_the_tenants_hash_tag():
    limits = [Limit("key", "tokens", "a", 1), Limit("key", "tokens", "b", 1), Limit("model", "tokens", "a", 1)]
    names = [limit.store_key("acme") for limit in limits]
    assert len(set(names)) == 3
    assert all("{acme}" in name for name in names)


def test_a_share_is_rounded_up_so_that_nobody_is_shut_out():
    assert [Limit("tenant", "requests", "", most).share(3).most for most in (1, 3, 10)] == [1, 1, 4]
