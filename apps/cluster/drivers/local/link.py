"""The driver's standing connection to the agent: the newest cards, and a bell for whoever waits for the agent to answer again."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import structlog

from apps.cluster.drivers.local.agent import Agent
from apps.cluster.drivers.local.inventory import cards_of
from apps.cluster.specs import Card
from apps.core.errors import Unavailable

log = structlog.get_logger(__name__)

_FRESH = 15  # batches, one a second: health changes are noticed within this, other changes when they are made
_AGAIN = (0.1, 0.2, 0.5, 1.0, 2.0)  # s between attempts while the agent is away; the last one from then on


class Link:
    """`cards` is None until the agent has answered once; later the last answer, with `up` telling whether it still answers."""

    def __init__(self, agent: Agent, node: str, on_cards: Callable[[], Awaitable[None]]) -> None:
        self._agent, self._node, self._on_cards = agent, node, on_cards
        self._contact = asyncio.Event()
        self.cards: tuple[Card, ...] | None = None
        self.up = False

    async def follow(self) -> None:
        """Stay connected; ends only by being cancelled."""
        failures = 0
        while True:
            try:
                await self.refresh()
                failures = 0
                await self._listen()
            except Unavailable as error:
                if self.up or failures == 0:
                    log.warning("agent_unavailable", problem=str(error.message))
                self.up = False
            except Exception:
                log.exception("agent_misunderstood")  # the link stays, whatever the answer was
            await asyncio.sleep(_AGAIN[min(failures, len(_AGAIN) - 1)])
            failures += 1

    async def refresh(self) -> None:
        self.cards = cards_of(await self._agent.cards(), self._node)
        self.up = True
        self._ring()
        await self._on_cards()

    async def _listen(self) -> None:
        count = 0
        async for _ in self._agent.samples():
            self._ring()
            count += 1
            if count % _FRESH == 0:
                await self.refresh()

    async def next_contact(self) -> None:
        """Wait until the agent says something; it does so each second while all is well."""
        await self._contact.wait()

    def forget_claim(self, name: str) -> None:
        """It is gone by our own doing, no need to ask."""
        if self.cards is not None:
            self.cards = tuple(
                replace(card, holders=tuple(h for h in card.holders if h.uid != name)) for card in self.cards
            )

    def _ring(self) -> None:
        ringing, self._contact = self._contact, asyncio.Event()
        ringing.set()
