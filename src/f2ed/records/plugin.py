"""How records describe a plug-in: by its kind and its title, for readers who do not have its code."""

from typing import final

import msgspec

__all__ = ["Plugin", "title_of"]


@final
class Plugin(msgspec.Struct, frozen=True, kw_only=True):
    """An estimator or an attack, described well enough to be shown by someone who does not have its code."""

    kind: str
    title: str
    family: str = ""
    paper: str = ""
    """Its citation."""
    inner: "Plugin | None" = None
    """The rule that a wrapper such as NNM applies."""

    @classmethod
    def of(cls, plugin: msgspec.Struct) -> "Plugin":
        """Describe a plug-in by its tag and its class variables `title`, `family` and `paper`."""
        kind = str(plugin.__struct_config__.tag)
        inner = getattr(plugin, "inner", None)
        return cls(
            kind=kind,
            title=getattr(plugin, "title", "") or title_of(kind),
            family=getattr(plugin, "family", ""),
            paper=getattr(plugin, "paper", ""),
            inner=None if inner is None else cls.of(inner),
        )

    @property
    def full_kind(self) -> str:
        """The kinds from the outermost rule to the innermost, as in `nnm + krum`."""
        return self.kind if self.inner is None else f"{self.kind} + {self.inner.full_kind}"

    @property
    def full_title(self) -> str:
        """The titles in the same order."""
        return self.title if self.inner is None else f"{self.title} + {self.inner.full_title}"


def title_of(kind: str) -> str:
    """Return a readable title for a kind that brings none."""
    return kind.replace("-", " ").capitalize()
