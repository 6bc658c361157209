"""A read replica of the tests' PostgreSQL, made as an operator makes one: `pg_basebackup`, streaming on loopback."""

import contextlib
import os
import pwd
import subprocess
from pathlib import Path

import asyncpg

from local import ports
from local.postgres import Cluster
from tests.conftest import _until_ready


class Standby:
    """Follows the primary; its superuser can hold it back and cut it off."""

    def __init__(self, cluster):
        self.cluster = cluster

    async def admin(self, *statements):
        """Runs statements on the standby; the last one's value."""
        connection = await asyncpg.connect(self.cluster.dsn())
        try:
            for statement in statements[:-1]:
                await connection.execute(statement)
            return await connection.fetchval(statements[-1])
        finally:
            await connection.close()

    @contextlib.asynccontextmanager
    async def held_back(self):
        """What arrives is not replayed."""
        await self.admin("SELECT pg_wal_replay_pause()")
        while await self.admin("SELECT pg_get_wal_replay_pause_state()") != "paused":
            pass
        try:
            yield
        finally:
            await self.admin("SELECT pg_wal_replay_resume()")


@contextlib.contextmanager
def standby_of(primary: Cluster, folder: Path):
    """A running one; `folder` is a new one of its own."""
    cluster = Cluster(folder / "standby", ports.pick(1, ports.random_start())[0], primary.password)
    cluster.directory.mkdir(mode=0o700)
    who = {}
    if cluster.user is not None:  # PostgreSQL must not run as root
        owner = pwd.getpwnam(cluster.user)
        who = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": ()}
        os.chown(cluster.directory, owner.pw_uid, owner.pw_gid)
        for parent in (folder, *folder.parents[:2]):
            parent.chmod(0o755)
    program = str(Path(cluster.command[0]).with_name("pg_basebackup"))
    options = ["--pgdata", str(cluster.directory), "--write-recovery-conf", "--checkpoint=fast", "--no-sync"]
    subprocess.run([program, "--dbname", primary.dsn(), *options], check=True, timeout=120, cwd="/", **who)
    process = cluster.start(folder / "log")
    try:
        yield Standby(cluster)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def until_ready(standby):
    await _until_ready(standby.cluster)
