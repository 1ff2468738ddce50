"""The cluster's own authority, the certificates it signs, and the kubeconfigs made of them."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import Any, Final

from tests.cluster.layout import Layout

_DAYS: Final = "3650"
_NEW_KEY: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc")
# name: subject. Groups (O) and users (CN) are those that the API server's built-in roles are bound to.
_CLIENTS: Final = {
    "admin": "/O=system:masters/CN=admin",
    "controller-manager": "/CN=system:kube-controller-manager",
    "scheduler": "/CN=system:kube-scheduler",
    "kubelet-client": "/O=system:masters/CN=kube-apiserver-kubelet-client",
    "node": "/O=system:nodes/CN=system:node:{node}",
}


def make(layout: Layout) -> None:
    """Everything that is missing; what is there stays, so that a cluster that is started again knows its clients."""
    layout.certificates.mkdir(exist_ok=True, mode=0o700)
    if not _file(layout, "ca.crt").exists():
        _openssl("req", "-x509", *_NEW_KEY, *_out(layout, "ca"), "-subj", "/CN=tessera-test-ca", "-days", _DAYS)
    if not _file(layout, "accounts.key").exists():
        _openssl("ecparam", "-genkey", "-name", "prime256v1", "-noout", "-out", str(_file(layout, "accounts.key")))
        key, public = (str(_file(layout, f"accounts.{end}")) for end in ("key", "pub"))
        _openssl("ec", "-in", key, "-pubout", "-out", public)
    names = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost"]
    addresses = ["127.0.0.1", layout.service_ip, layout.node_ip]
    _signed(layout, "apiserver", "/CN=kube-apiserver", names=names, addresses=addresses)
    _signed(layout, "kubelet", "/CN=kubelet", names=[layout.node_name], addresses=[layout.node_ip])
    for name, subject in _CLIENTS.items():
        _signed(layout, name, subject.format(node=layout.node_name))
    for name in ("controller-manager", "scheduler", "node"):
        _write(layout.root / f"{name}.kubeconfig", kubeconfig(layout, name))
    _write(layout.kubeconfig, kubeconfig(layout, "admin"))


def kubeconfig(layout: Layout, client: str) -> dict[str, Any]:
    """With the certificates in it: it can be copied anywhere."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "tessera",
                "cluster": {"server": layout.address, "certificate-authority-data": _data(layout, "ca.crt")},
            }
        ],
        "users": [
            {
                "name": client,
                "user": {
                    "client-certificate-data": _data(layout, f"{client}.crt"),
                    "client-key-data": _data(layout, f"{client}.key"),
                },
            }
        ],
        "contexts": [{"name": "tessera", "context": {"cluster": "tessera", "user": client}}],
        "current-context": "tessera",
    }


def _signed(layout: Layout, name: str, subject: str, *, names: list[str] = [], addresses: list[str] = []) -> None:  # noqa: B006
    if _file(layout, f"{name}.crt").exists():
        return
    server = bool(names or addresses)
    extensions = [f"extendedKeyUsage={'serverAuth' if server else 'clientAuth'}", "basicConstraints=CA:FALSE"]
    if server:
        alternatives = [*(f"DNS:{name}" for name in names), *(f"IP:{address}" for address in addresses)]
        extensions.append(f"subjectAltName={','.join(alternatives)}")
    signer = ("-CA", str(_file(layout, "ca.crt")), "-CAkey", str(_file(layout, "ca.key")))
    extra = [word for extension in extensions for word in ("-addext", extension)]
    _openssl("req", "-x509", *_NEW_KEY, *signer, *_out(layout, name), "-subj", subject, "-days", _DAYS, *extra)


def _out(layout: Layout, name: str) -> tuple[str, ...]:
    return ("-keyout", str(_file(layout, f"{name}.key")), "-out", str(_file(layout, f"{name}.crt")))


def _file(layout: Layout, name: str) -> Path:
    return layout.certificates / name


def _data(layout: Layout, name: str) -> str:
    return base64.b64encode(_file(layout, name).read_bytes()).decode()


def _write(path: Path, content: dict[str, Any]) -> None:
    path.touch(mode=0o600)
    path.write_text(json.dumps(content, indent=1))  # JSON is YAML


def _openssl(*arguments: str) -> None:
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"openssl {arguments[0]} failed: {done.stderr.strip()}")
