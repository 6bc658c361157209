import asyncpg
import redis.asyncio


async def test_postgres_is_real(postgres_server):
    connection = await asyncpg.connect(postgres_server.dsn())
    assert (await connection.fetchval("SHOW server_version")).split(".")[0] >= "18"
    await connection.close()


async def test_valkey_is_real(valkey_url):
    async with redis.asyncio.from_url(valkey_url) as client:
        assert (await client.info("server"))["server_name"] == "valkey"
