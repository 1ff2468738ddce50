"""Gives each claim for a volume a folder on the node, and takes the folder away with the claim. A process of its own.

What a storage driver does in a real cluster. The volumes are of the type `local`, not `hostPath`: only so does kubelet hand them to
the pod's group (`fsGroup`), as it does with volumes of a cloud.
"""

from __future__ import annotations

import http.client
import logging
import shutil
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.cluster.api import Api, Refused

PROVISIONER: Final = "tessera.dev/test-folders"
CLASS: Final = "tessera-test"
STORAGE_CLASS: Final = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": CLASS, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    "provisioner": PROVISIONER,
    "reclaimPolicy": "Delete",
    "volumeBindingMode": "Immediate",  # there is one node with pods
}
_ASKED: Final = "volume.kubernetes.io/storage-provisioner"
_MADE: Final = "pv.kubernetes.io/provisioned-by"
log = logging.getLogger(__name__)


class Volumes:
    def __init__(self, api: Api, folder: Path, node: str) -> None:
        self._api = api
        self._folder = folder
        self._node = node

    def make(self, claim: dict[str, Any]) -> None:
        metadata = claim["metadata"]
        if metadata.get("annotations", {}).get(_ASKED) != PROVISIONER or claim["status"].get("phase") != "Pending":
            return
        name = f"pvc-{metadata['uid']}"
        path = self._folder / name
        path.mkdir(exist_ok=True)
        try:
            self._api.post("/api/v1/persistentvolumes", self._volume(name, path, claim))
            log.info("made %s for %s/%s", name, metadata["namespace"], metadata["name"])
        except Refused as refused:
            if refused.status != http.client.CONFLICT:  # it was there already
                raise

    def remove(self, volume: dict[str, Any]) -> None:
        metadata = volume["metadata"]
        if metadata.get("annotations", {}).get(_MADE) != PROVISIONER or volume["status"].get("phase") != "Released":
            return
        shutil.rmtree(self._folder / metadata["name"], ignore_errors=True)
        try:
            self._api.delete(f"/api/v1/persistentvolumes/{metadata['name']}")
            log.info("removed %s", metadata["name"])
        except Refused as refused:
            if refused.status != http.client.NOT_FOUND:
                raise

    def _volume(self, name: str, path: Path, claim: dict[str, Any]) -> dict[str, Any]:
        here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [self._node]}
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name, "annotations": {_MADE: PROVISIONER}},
            "spec": {
                "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
                "accessModes": claim["spec"]["accessModes"],
                "persistentVolumeReclaimPolicy": "Delete",
                "storageClassName": claim["spec"]["storageClassName"],
                "claimRef": {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "namespace": claim["metadata"]["namespace"],
                    "name": claim["metadata"]["name"],
                    "uid": claim["metadata"]["uid"],
                },
                "local": {"path": str(path)},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
            },
        }


def follow(api: Api, path: str, act: Callable[[dict[str, Any]], None]) -> None:
    """Acts on every object there is and on every change, for ever; after any trouble it begins anew."""
    while True:
        try:
            listed = api.get(path)
            for item in listed["items"]:
                act(item)
            for event in api.watch(path, resourceVersion=listed["metadata"]["resourceVersion"]):
                if event["type"] in ("ADDED", "MODIFIED"):
                    act(event["object"])
                elif event["type"] == "ERROR":
                    break
        except (OSError, http.client.HTTPException, Refused) as trouble:
            log.warning("%s: %s", path, trouble)
            time.sleep(0.5)


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    root, node = Path(sys.argv[1]), sys.argv[2]
    api = Api(root / "kubeconfig")
    volumes = Volumes(api, root / "volumes", node)
    claims = threading.Thread(target=follow, args=(api, "/api/v1/persistentvolumeclaims", volumes.make), daemon=True)
    claims.start()
    follow(api, "/api/v1/persistentvolumes", volumes.remove)


if __name__ == "__main__":
    main()
