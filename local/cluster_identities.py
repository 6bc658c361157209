"""Certificates and kubeconfigs of a cluster on loopback: one authority, made for one run, signs servers and clients."""

import json
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

# Name of each kubeconfig → user and group that its certificate says.
_CLIENTS = {
    "admin": ("sabueso-admin", "system:masters"),
    "controller-manager": ("system:kube-controller-manager", "sabueso"),
    "scheduler": ("system:kube-scheduler", "sabueso"),
}


def prepare(folder: Path, server: str) -> None:
    """Makes ca.crt, server.crt, server.key, accounts.key and a `<name>.kubeconfig` for each client of `server` (https://…)."""
    folder.mkdir(parents=True, mode=0o700)
    authority = trustme.CA(organization_name="sabueso cluster")
    authority.cert_pem.write_to_path(str(folder / "ca.crt"))
    host = authority.issue_cert("127.0.0.1", "localhost", "kubernetes.default.svc")
    host.private_key_pem.write_to_path(str(folder / "server.key"))
    for place, pem in enumerate(host.cert_chain_pems):
        pem.write_to_path(str(folder / "server.crt"), append=place > 0)
    # Signs the tokens of service accounts.
    key = ec.generate_private_key(ec.SECP256R1())
    text = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    (folder / "accounts.key").write_bytes(text)
    for name, (user, group) in _CLIENTS.items():
        # Without a name of a host there would be an empty list of them, which Go refuses.
        client = authority.issue_cert("client.internal", common_name=user, organization_name=group)
        (folder / f"{name}.pem").write_bytes(client.private_key_and_cert_chain_pem.bytes())
        (folder / f"{name}.kubeconfig").write_text(json.dumps(_kubeconfig(folder, name, server)))


def _kubeconfig(folder: Path, name: str, server: str) -> dict[str, object]:
    pem = str(folder / f"{name}.pem")
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "sabueso", "cluster": {"server": server, "certificate-authority": str(folder / "ca.crt")}}
        ],
        "users": [{"name": name, "user": {"client-certificate": pem, "client-key": pem}}],
        "contexts": [{"name": "sabueso", "context": {"cluster": "sabueso", "user": name}}],
        "current-context": "sabueso",
    }
