"""How many copies of its shards a collection on a Qdrant cluster has, and what makes them as many as wished.

Qdrant makes the copies of a new collection itself. Of one that is there it changes the number only: copies that are
missing must be asked for, one shard and node at a time.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from qdrant_client import AsyncQdrantClient, models

from services.retrieval.qdrant.calls import answered
from services.retrieval.store import Distribution
from services.runtime.errors import DependencyFailed

log = logging.getLogger(__name__)

# How a shard travels: whole, as points, so that the node that gets it may be of another version.
_METHOD = models.ShardTransferMethod.STREAM_RECORDS


@dataclass(frozen=True)
class Replication:
    """Copies of each shard, and how many of them must have a write before it is acknowledged. 0: as the server has it.

    Without a `consistency` it is the majority of the copies.
    """

    factor: int = 0
    consistency: int = 0

    @property
    def acknowledging(self) -> int:
        """Qdrant's `write_consistency_factor`; 0 where nothing is said."""
        return min(self.consistency or self.factor // 2 + 1, self.factor) if self.factor else self.consistency


def replication(wanted: Distribution | None, defaults: Distribution) -> Replication:
    """What a collection wishes, or else the service."""
    one = wanted or Distribution()
    factor = one.replication_factor or defaults.replication_factor
    return Replication(factor, one.write_consistency_factor or defaults.write_consistency_factor)


def most(wishes: Sequence[Replication]) -> Replication:
    """For a place that several collections share: no less than any of them wishes."""
    factor = max((one.factor for one in wishes), default=0)
    return Replication(factor, max((one.acknowledging for one in wishes), default=0))


def missing_copies(
    info: models.CollectionClusterInfo, peers: Sequence[int], factor: int
) -> list[models.ReplicateShard]:
    """What to ask for so that each shard has `factor` copies, as far as there are nodes; emptier nodes get them first.

    Copies that are under way count. A shard without a copy that is active is left alone: there is nothing to copy.
    """
    holders: dict[int, dict[int, bool]] = {}
    for one in info.local_shards:
        holders.setdefault(one.shard_id, {})[info.peer_id] = one.state is models.ReplicaState.ACTIVE
    for one in info.remote_shards:
        holders.setdefault(one.shard_id, {})[one.peer_id] = one.state is models.ReplicaState.ACTIVE
    for one in info.shard_transfers:
        holders.setdefault(one.shard_id, {}).setdefault(one.to, False)
    load = {peer: sum(peer in held for held in holders.values()) for peer in peers}
    asked: list[models.ReplicateShard] = []
    for shard_id, held in sorted(holders.items()):
        source = next((peer for peer, active in sorted(held.items()) if active), None)
        free = sorted((peer for peer in peers if peer not in held), key=lambda peer: (load[peer], peer))
        if source is None:
            continue
        for peer in free[: max(0, factor - len(held))]:
            load[peer] += 1
            asked.append(models.ReplicateShard(shard_id=shard_id, from_peer_id=source, to_peer_id=peer, method=_METHOD))
    return asked


class Replicator:
    """Gives collections that are there another number of copies. More are made; those too many stay until dropped."""

    def __init__(self, client: AsyncQdrantClient) -> None:
        self._client = client

    async def adjust(self, name: str, wanted: Replication) -> None:
        """Does nothing where all is as wished, or nothing is. Raises DependencyFailed."""
        if not wanted.factor and not wanted.acknowledging:
            return
        params = (await answered(self._client.get_collection, name)).config.params
        change = models.CollectionParamsDiff(
            replication_factor=wanted.factor or None, write_consistency_factor=wanted.acknowledging or None
        )
        is_so = (
            wanted.factor in (0, params.replication_factor or 1)
            and wanted.acknowledging in (0, params.write_consistency_factor or 1)
        )  # fmt: skip
        if not is_so:
            await answered(self._client.update_collection, name, collection_params=change)
        if wanted.factor > 1:
            await self._copy(name, wanted.factor)

    async def _copy(self, name: str, factor: int) -> None:
        status = await answered(self._client.cluster_status)
        if not isinstance(status, models.ClusterStatusOneOf1):
            log.warning("the Qdrant server is no cluster: there are no copies", extra={"place": name})
            return
        peers = sorted(int(peer) for peer in status.peers)
        if len(peers) < factor:
            log.warning("the Qdrant cluster has fewer nodes than copies are wished", extra={"place": name})
        info = await answered(self._client.collection_cluster_info, name)
        for copy in missing_copies(info, peers, factor):
            wanted = models.ReplicateShardOperation(replicate_shard=copy)
            try:
                await answered(self._client.cluster_collection_update, name, wanted)
            except DependencyFailed:  # another replica of this service has asked for it a moment ago
                log.warning("a copy of a shard was not begun", extra={"place": name, "shard": copy.shard_id})
