"""Wires the web tool and runs it."""

from collections.abc import Callable, Mapping, Sequence

from pydantic import SecretStr

from sabueso.web_tool.v1 import web_tool_pb2 as pb
from sabueso.web_tool.v1 import web_tool_pb2_grpc as rpc
from services.runtime.sandbox import Sandbox
from services.runtime.server import Served, run
from services.runtime.settings import WrongSetting
from services.runtime.tenants import TenantDirectory
from services.web_tool.config import Settings
from services.web_tool.connecting import Connector, Proxy
from services.web_tool.fetch import Fetcher
from services.web_tool.pace import Pace
from services.web_tool.reading import Reader
from services.web_tool.robots import Robots
from services.web_tool.search.brave import Brave
from services.web_tool.search.breaker import Breaker
from services.web_tool.search.fallback import Fallback
from services.web_tool.search.google import Google
from services.web_tool.search.provider import Provider
from services.web_tool.search.searxng import SearXNG
from services.web_tool.search.serper import Serper
from services.web_tool.search.tavily import Tavily
from services.web_tool.service import WebToolService, exceptions_from


async def build(settings: Settings) -> Served:
    """The servicer with its providers, its reader and the tenants' files, which are watched. Raises WrongSetting."""
    tenants = TenantDirectory(settings.tenants_dir)
    search = make_search(settings)
    reader = _make_reader(settings)
    service = WebToolService(search, reader, tenants, exceptions_from(settings.allowed_private_addresses))
    tenants.watch()

    async def warm_up() -> None:
        reader.start()

    async def close() -> None:
        await tenants.close()
        await search.close()
        await reader.close()

    descriptor = pb.DESCRIPTOR.services_by_name["WebToolService"]
    return Served(service, rpc.add_WebToolServiceServicer_to_server, descriptor, warm_up=warm_up, close=close)


def make_search(settings: Settings) -> Fallback:
    """The providers that the settings name, in their order. Raises WrongSetting."""
    makers: Mapping[str, Callable[[], Provider]] = {
        "searxng": lambda: SearXNG(_required(settings.searxng_url, "searxng", "SEARXNG_URL")),
        "brave": lambda: Brave(
            settings.brave_url,
            _key(settings.brave_api_key, "brave"),
            country=settings.search_country,
            proxy=_proxy(settings),
        ),
        "tavily": lambda: Tavily(settings.tavily_url, _key(settings.tavily_api_key, "tavily"), proxy=_proxy(settings)),
        "serper": lambda: Serper(
            settings.serper_url,
            _key(settings.serper_api_key, "serper"),
            country=settings.search_country,
            proxy=_proxy(settings),
        ),
        "google": lambda: Google(
            settings.google_url,
            _key(settings.google_api_key, "google"),
            _required(settings.google_engine_id, "google", "GOOGLE_ENGINE_ID"),
            country=settings.search_country,
            proxy=_proxy(settings),
        ),
    }
    names = [name for part in settings.search_providers.split(",") if (name := part.strip().lower())]
    if not names and settings.searxng_url:
        names = ["searxng"]
    for name in names:
        if name not in makers or names.count(name) > 1:
            known = ", ".join(makers)
            raise WrongSetting(f"`{name}` is unknown or named twice; known are {known}", "SABUESO_SEARCH_PROVIDERS")
    providers = [makers[name]() for name in names]
    breakers = {
        name: Breaker(failures=settings.search_failures, rest_seconds=settings.search_rest_seconds) for name in names
    }
    return Fallback(providers, breakers, settings.search_timeout_seconds)


def _key(value: SecretStr, provider: str) -> SecretStr:
    variable = f"{provider.upper()}_API_KEY"
    key = _required(value.get_secret_value().strip(), provider, variable)
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise WrongSetting("a key has no blanks and no letters beyond ASCII", f"SABUESO_{variable}")
    return SecretStr(key)


def _required(value: str, provider: str, variable: str) -> str:
    if not value:
        raise WrongSetting(f"the search provider `{provider}` needs it", f"SABUESO_{variable}")
    return value


def _proxy(settings: Settings) -> str:
    text = settings.egress_proxy.get_secret_value()
    try:
        Proxy.parse(text)
    except ValueError as error:
        raise WrongSetting(str(error), "SABUESO_EGRESS_PROXY") from None
    return text


def _make_reader(settings: Settings) -> Reader:
    connector = Connector(proxy=Proxy.parse(_proxy(settings)))
    pace = Pace(settings.host_requests_per_second)
    try:
        fetcher = Fetcher(connector, pace, contact=settings.user_agent_contact, max_body_bytes=settings.max_body_bytes)
    except ValueError as error:
        raise WrongSetting(str(error), "SABUESO_USER_AGENT_CONTACT") from None
    sandbox = Sandbox(
        "services.web_tool.extraction:extract",
        memory_bytes=settings.extract_memory_bytes,
        timeout_seconds=settings.extract_timeout_seconds,
    )
    return Reader(
        fetcher,
        Robots(fetcher),
        sandbox,
        timeout_seconds=settings.fetch_timeout_seconds,
        max_pages=settings.max_pages,
    )


def main() -> None:
    """Entry point of the process."""
    settings = Settings.read()

    async def make() -> Sequence[Served]:
        return [await build(settings)]

    run("web_tool", settings, make)


if __name__ == "__main__":
    main()
