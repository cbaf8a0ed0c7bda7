"""The page of a site kit: three steps for the people at the site."""

__all__ = ["page"]

_PAGE = """# Join {federation} as {name}

This folder holds what your node needs: `authority.pub` (who may sign the list of participants), `ca.crt` (how to
recognize the server at {superlink}) and `site.toml`. None of it is secret. Compare the SHA-256 of the file that you
received with the one that the authority tells you by another way, such as by telephone: sha256sum {name}.tar.gz

Install f2ed first, from its source tree and with the packages that the app imports: pip install '.[flower]'

## 1. Make your keys

```sh
f2ed kit keys
```

The private keys `{name}.key` and `{name}.node` stay here. Send `{name}.pub` to the authority and `{name}.node.pub` to
the operator of the server. With `--passphrase prompt` the first one is encrypted.

## 2. Put roster.json into this folder, and check

The authority sends you `roster.json` once it has signed it. Then

```sh
f2ed kit check
```

has one line for each thing that could keep the node from working, with what to do about it.

## 3. Start the node

{start}
Its log names what it refuses, and why. What leaves this machine, what to back up and what never to restore is in
docs/operations.md.
"""

_START = {
    "plain": """```sh
f2ed kit start
```

Apps then run as the same user as the node, who can read its keys. For a real deployment ask for a kit with
`--form systemd`.
""",
    "systemd": """As root, once for the users and the folders (deploy/README.md explains them), then for the node:

```sh
useradd --system --home-dir /var/lib/f2ed f2ed && useradd --system --home-dir /var/lib/f2ed-app f2ed-app
install -d -m 0750 -g f2ed /etc/f2ed
install -m 0644 roster.json authority.pub ca.crt supernode.env /etc/f2ed
install -m 0600 -o f2ed {name}.key /etc/f2ed/identity.key
install -m 0600 -o f2ed {name}.node /etc/f2ed/node
install -m 0644 f2ed-supernode.service f2ed-executor.service /etc/systemd/system
systemctl daemon-reload && systemctl enable --now f2ed-supernode f2ed-executor
```

The units expect f2ed in /opt/f2ed and the data where the user f2ed-app can read it. Remove `{name}.key` and
`{name}.node` here afterwards.
""",
    "compose": """The image is built from the source tree of f2ed (deploy/README.md). As root:

```sh
install -d etc data
install -m 0644 roster.json authority.pub ca.crt etc
install -m 0600 -o 10001 {name}.key etc/identity.key
install -m 0600 -o 10001 {name}.node etc/node
podman compose --file supernode.yaml up --detach
```

The data belongs into `data/`, readable by user 10002. Remove `{name}.key` and `{name}.node` here afterwards.
""",
}


def page(name: str, federation: str, superlink: str, form: str) -> str:
    """Return the page for a site."""
    start = _START[form].format(name=name)
    return _PAGE.format(name=name, federation=federation, superlink=superlink, start=start)
