"""The other brokers, as this one talks to them: by id, on the listener between brokers.

Where a broker is says the metadata, and may change: a caller to an old address is hung up. A node
answers a connection in order, so what may wait long there (a fetch) has connections of its own,
told apart by their purpose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.net.peer import PeerLost

if TYPE_CHECKING:
    from penstock.metadata.cluster import Endpoint
    from penstock.metadata.image import MetadataImage
    from penstock.net.network import Caller, Network
    from penstock.protocol.message import Message

REQUESTS = "requests"
"""The purpose of what is answered at once."""


class Neighbours:
    """Callers to other brokers, made when needed."""

    def __init__(self, network: Network, node_id: int, listener: str) -> None:
        self._network = network
        self._node_id = node_id
        self._listener = listener
        self._image: MetadataImage | None = None
        self._callers: dict[tuple[int, str], tuple[Endpoint, Caller]] = {}

    async def ask(
        self, node_id: int, request: Message, seconds_max: float, purpose: str = REQUESTS
    ) -> Any:
        """What broker `node_id` answers; PeerLost if it is not known, not reached or silent."""
        return await self._caller(node_id, purpose).ask(request, seconds_max)

    def hang_up(self, node_id: int, purpose: str) -> None:
        """Close a connection that is no longer needed."""
        found = self._callers.pop((node_id, purpose), None)
        if found is not None:
            found[1].close()

    def on_image(self, image: MetadataImage) -> None:
        """Brokers may have come, gone or moved."""
        before, self._image = self._image, image
        if before is not None and before.cluster is image.cluster:
            return
        for (node_id, purpose), (endpoint, _) in list(self._callers.items()):
            if self._endpoint(node_id) != endpoint:
                self.hang_up(node_id, purpose)

    def close(self) -> None:
        for node_id, purpose in list(self._callers):
            self.hang_up(node_id, purpose)

    def _endpoint(self, node_id: int) -> Endpoint | None:
        known = None if self._image is None else self._image.cluster.brokers.get(node_id)
        return None if known is None else known.endpoint(self._listener)

    def _caller(self, node_id: int, purpose: str) -> Caller:
        found = self._callers.get((node_id, purpose))
        if found is not None:
            return found[1]
        endpoint = self._endpoint(node_id)
        if endpoint is None:
            raise PeerLost(f"nobody has told yet where broker {node_id} is")
        name = f"broker-{self._node_id}-{purpose}"
        made = self._network.caller(endpoint.host, endpoint.port, name)
        self._callers[node_id, purpose] = endpoint, made
        return made
