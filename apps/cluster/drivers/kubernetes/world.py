"""What is known of the cluster, indexed for the questions that are asked: pods by workload, parts by card, troubles by pod.

Fed by reflectors, or once from lists. Holds no truth of its own; whether it may be believed now is for whoever feeds it to say.
"""

from collections.abc import Iterable
from typing import Any

from apps.cluster.drivers.kubernetes import cards, encoding, names
from apps.cluster.drivers.kubernetes.cards import Part, Place
from apps.cluster.drivers.kubernetes.objects import (
    Key,
    Manifest,
    annotations,
    claims_of,
    id_of,
    key_of,
    made_at,
    name_of,
    namespace_of,
    node_health,
    run_of,
    workload_of,
)
from apps.cluster.specs import Card, RunSpec


class World:
    def __init__(self) -> None:
        self.pods: dict[str, dict[Key, Manifest]] = {}  # by workload
        self.claims: dict[Key, Manifest] = {}
        self.nodes: dict[str, Manifest] = {}
        self.volumes: dict[Key, Manifest] = {}
        self.namespaces: dict[str, Manifest] = {}
        self.classes: set[str] = set()
        self.claims_served = True
        self.troubles: dict[str, dict[str, Manifest]] = {}  # events by pod's id and event's name
        self.room = 0  # rises with everything that changes what room there is
        self.offers = 0  # rises with everything that changes how cards can be given out
        self._slices: dict[str, dict[str, Manifest]] = {}  # by pool
        self._cards: dict[Place, Card] = {}  # without holders
        self._places: dict[str, list[Place]] = {}  # by pool
        self._owners: dict[str, str] = {}  # workloads by claim's id
        self._parts: dict[Key, list[Part]] = {}  # by claim
        self._held: dict[Place, dict[Key, list[Part]]] = {}
        self._specs: dict[str, RunSpec | None] = {}  # by pod's id
        self._current: dict[Place, Card] = {}  # with holders; the same object until something about it changes
        self._touched: set[Place] = set()  # whose current card is to be made anew
        self._order: list[Place] | None = []  # by node and index; None: to be made anew
        self._shown: tuple[Card, ...] | None = ()

    # --- Being told ------------------------------------------------------------------------------------------------------
    def pod_changed(self, before: Manifest | None, after: Manifest | None) -> str:
        """The workload that it belongs to."""
        thing = after or before
        assert thing is not None
        uid = workload_of(thing)
        if after is not None:
            self.pods.setdefault(uid, {})[key_of(after)] = after
        else:
            self.pods.get(uid, {}).pop(key_of(thing), None)
            if not self.pods.get(uid):
                self.pods.pop(uid, None)
            self._specs.pop(id_of(thing), None)
            self.troubles.pop(id_of(thing), None)
        return uid

    def claim_changed(self, before: Manifest | None, after: Manifest | None) -> str:
        thing = after or before
        assert thing is not None
        key = key_of(thing)
        for part in self._parts.pop(key, ()):
            self._held.get(part.place, {}).pop(key, None)
            self._touch(part.place)
        if before is not None:
            self._owners.pop(id_of(before), None)
        if after is None:
            self.claims.pop(key, None)
        else:
            self.claims[key], self._owners[id_of(after)] = after, workload_of(after)
            if parts := cards.parts_of(after):
                self._parts[key] = parts
            for part in parts:
                self._held.setdefault(part.place, {}).setdefault(key, []).append(part)
                self._touch(part.place)
        self.room += 1
        return workload_of(thing)

    def slice_changed(self, before: Manifest | None, after: Manifest | None) -> None:
        for pool in {cards.pool_of(thing) for thing in (before, after) if thing is not None}:
            slices = self._slices.setdefault(pool, {})
            if before is not None:
                slices.pop(name_of(before), None)
            if after is not None and cards.pool_of(after) == pool:
                slices[name_of(after)] = after
            for place in self._places.pop(pool, ()):
                self._cards.pop(place, None)
                self._touch(place)
            found = {
                place: card
                for slice_ in cards.newest(slices.values())
                for place, card in cards.cards_of(slice_).items()
            }
            self._places[pool] = list(found)
            self._cards.update(found)
            self._touch(*found)
        self._order = None
        self.room += 1
        self.offers += 1

    def node_changed(self, before: Manifest | None, after: Manifest | None) -> None:
        thing = after or before
        assert thing is not None
        name = name_of(thing)
        known = self.nodes.get(name)
        if after is None:
            self.nodes.pop(name, None)
        else:
            self.nodes[name] = after
        if node_health(known) != node_health(after):
            self._touch(*(place for place, card in self._cards.items() if card.node == name))
        self.room += 1
        self.offers += 1

    def volume_changed(self, before: Manifest | None, after: Manifest | None) -> None:
        _keep(self.volumes, before, after)

    def namespace_changed(self, before: Manifest | None, after: Manifest | None) -> None:
        thing = after or before
        assert thing is not None
        if after is None:
            self.namespaces.pop(name_of(thing), None)
        else:
            self.namespaces[name_of(thing)] = after

    def class_changed(self, before: Manifest | None, after: Manifest | None) -> None:
        if before is not None:
            self.classes.discard(name_of(before))
        if after is not None:
            self.classes.add(name_of(after))
        self.offers += 1

    def event_changed(self, before: Manifest | None, after: Manifest | None) -> str:
        """The id of the pod that it is about."""
        thing = after or before
        assert thing is not None
        about = str((thing.get("involvedObject") or {}).get("uid", ""))
        if after is not None:
            self.troubles.setdefault(about, {})[name_of(after)] = after
        else:
            self.troubles.get(about, {}).pop(name_of(thing), None)
            if not self.troubles.get(about):
                self.troubles.pop(about, None)
        return about

    # --- Being asked -----------------------------------------------------------------------------------------------------
    def newest(self, uid: str) -> Manifest | None:
        """The pod of the latest run of a workload."""
        return max(self.pods_of(uid), key=lambda pod: (run_of(pod), str(made_at(pod))), default=None)

    def pods_of(self, uid: str) -> list[Manifest]:
        return list(self.pods.get(uid, {}).values())

    def all_pods(self) -> list[Manifest]:
        return [pod for pods in self.pods.values() for pod in pods.values()]

    def spec_of(self, pod: Manifest) -> RunSpec | None:
        """None where its annotation is missing or was written by somebody else."""
        id_ = id_of(pod)
        if id_ not in self._specs:
            try:
                self._specs[id_] = encoding.from_json(annotations(pod).get(names.SPEC, ""))
            except ValueError:
                self._specs[id_] = None
        return self._specs[id_]

    @property
    def slices(self) -> list[Manifest]:
        return [slice_ for pool in self._slices.values() for slice_ in pool.values()]

    def cards(self) -> tuple[Card, ...]:
        """With holders, by node and index. What did not change is the same object as before: of thousands of cards few do at a time."""
        if self._shown is None:
            for place in self._touched:
                card = self._cards.get(place)
                if card is None:
                    self._current.pop(place, None)
                else:
                    self._current[place] = cards.with_holders(card, self._parts_on(place), self.nodes.get(card.node))
            self._touched.clear()
            if self._order is None:
                self._order = sorted(self._current, key=self._by_node)
            self._shown = tuple(self._current[place] for place in self._order)
        return self._shown

    def _by_node(self, place: Place) -> tuple[str, int, str]:
        card = self._current[place]
        return card.node, card.index, card.uuid

    def _touch(self, *places: Place) -> None:
        self._touched.update(places)
        self._shown = None

    def _parts_on(self, place: Place) -> Iterable[Part]:
        for parts in self._held.get(place, {}).values():
            yield from parts

    def claims_of(self, pod: Manifest) -> list[Manifest]:
        """Those that were made for it and are known."""
        return [self.claims[key] for name in claims_of(pod) if (key := (namespace_of(pod), name)) in self.claims]

    def cards_of(self, pod: Manifest) -> tuple[str, ...]:
        """UUIDs of the cards that its claims were given."""
        found: list[str] = []
        for name in claims_of(pod):
            for part in self._parts.get((namespace_of(pod), name), ()):
                card = self._cards.get(part.place)
                found.append(card.uuid if card else "/".join(part.place))
        return tuple(found)

    def owner_of_claim(self, claim_id: str) -> str:
        """The workload of the claim with this id; empty where it is nobody's here."""
        return self._owners.get(claim_id, "")


def _keep(where: dict[Key, Any], before: Manifest | None, after: Manifest | None) -> None:
    thing = after or before
    assert thing is not None
    if after is None:
        where.pop(key_of(thing), None)
    else:
        where[key_of(after)] = after
