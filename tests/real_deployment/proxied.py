"""A deployment behind the nginx file that is shipped, with its paths and ports replaced."""

import shutil
import socket
import ssl
import sys
import time
from pathlib import Path

from flwr.supercore.protobuf.constants import PROTOBUF_MEDIA_TYPE

from f2ed.deployment.certs import operator_certificate
from f2ed.flower.local_deployment import Deployment
from f2ed.flower.processes import HOST

SHIPPED = Path(__file__).parents[2] / "deploy" / "nginx" / "nginx.conf"
PROTOBUF = f"content-type: {PROTOBUF_MEDIA_TYPE}\r\naccept: {PROTOBUF_MEDIA_TYPE}\r\n"


def nginx():
    """Return the path of nginx, or None."""
    return shutil.which("nginx", path=f"{Path('/usr/sbin')}:{Path('/usr/local/sbin')}:{Path('/usr/bin')}")


def configured(folder, certs, *, superlink, nodes, operators):
    """Write the shipped file with the places of a test; nothing else is changed."""
    text = SHIPPED.read_text()
    for old, new in {
        "/etc/f2ed/": f"{certs}/",
        "/run/f2ed-proxy": str(folder),
        "127.0.0.1:8001;": f"{HOST}:{superlink};",
        "listen 8000 ssl": f"listen {HOST}:{nodes} ssl",
        "listen 8443 ssl": f"listen {HOST}:{operators} ssl",
    }.items():
        assert old in text, old
        text = text.replace(old, new)
    path = folder / "nginx.conf"
    path.write_text("user root;\n" + text)  # Its workers must be able to enter a test's folder.
    return path


class Proxied(Deployment):
    """Nodes reach the SuperLink through one port of nginx, the operator through another."""

    def __init__(self, folder, **settings):
        super().__init__(folder, **settings)
        self.operator = operator_certificate(folder / "certs")
        self.nodes_port, self.operators_port = next(self.ports), next(self.ports)
        self.node_address, self.control_address = f"{HOST}:{self.nodes_port}", f"{HOST}:{self.operators_port}"
        self.flwr = [
            *(sys.executable, "-m", "f2ed.cli", "operator"),
            *("--certificate", str(self.operator.certificate), "--key", str(self.operator.key), "--"),
        ]

    def start_superlink(self):
        super().start_superlink()
        place = self.folder / "proxy"
        place.mkdir()
        ports = {"superlink": self.port, "nodes": self.nodes_port, "operators": self.operators_port}
        path = configured(place, self.folder / "certs", **ports)
        self.start_process("nginx", [nginx(), "-c", str(path)])
        until = time.monotonic() + 30
        while not answers(self.operators_port):
            assert time.monotonic() < until, self.log("nginx")
            time.sleep(0.1)

    def ask(self, port, line, *, certificate=None, more="", body=b""):
        """Send a request as it is written, and return the status of the answer."""
        context = ssl.create_default_context(cafile=str(self.tls.ca))
        if certificate is not None:
            context.load_cert_chain(certificate.certificate, certificate.key)
        length = more or f"content-length: {len(body)}"
        head = f"{line} HTTP/1.1\r\nhost: x\r\n{PROTOBUF}{length}\r\nconnection: close\r\n\r\n"
        with (
            socket.create_connection((HOST, port), timeout=30) as plain,
            context.wrap_socket(plain, server_hostname=HOST) as channel,
        ):
            channel.sendall(head.encode("latin-1") + body)
            answer = b""
            while piece := channel.recv(65536):
                answer += piece
        return [int(part[:3]) for part in answer.split(b"HTTP/1.1 ")[1:]]


def answers(port):
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except OSError:
        return False
    return True
