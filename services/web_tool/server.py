"""Wires the web tool and runs it."""

from collections.abc import Sequence

from sabueso.web_tool.v1 import web_tool_pb2 as pb
from sabueso.web_tool.v1 import web_tool_pb2_grpc as rpc
from services.runtime.server import Served, run
from services.runtime.tenants import TenantDirectory
from services.web_tool.config import Settings
from services.web_tool.fetch import Fetcher
from services.web_tool.search import NoEngine, SearXNG
from services.web_tool.service import WebToolService, exceptions_from


async def build(settings: Settings) -> Served:
    """The servicer with its engine, its fetcher and the tenants' files, which are watched. Raises BadTenantFile."""
    tenants = TenantDirectory(settings.tenants_dir)
    engine = SearXNG(settings.searxng_url, settings.search_timeout_seconds) if settings.searxng_url else NoEngine()
    fetcher = Fetcher(timeout_seconds=settings.fetch_timeout_seconds, max_body_bytes=settings.max_body_bytes)
    service = WebToolService(engine, fetcher, tenants, exceptions_from(settings.allowed_private_addresses))
    tenants.watch()

    async def close() -> None:
        await tenants.close()
        await engine.close()

    descriptor = pb.DESCRIPTOR.services_by_name["WebToolService"]
    return Served(service, rpc.add_WebToolServiceServicer_to_server, descriptor, close=close)


def main() -> None:
    """Entry point of the process."""
    settings = Settings.read()

    async def make() -> Sequence[Served]:
        return [await build(settings)]

    run("web_tool", settings, make)


if __name__ == "__main__":
    main()
