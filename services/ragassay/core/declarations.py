"""What an option is, and the class of those who declare some. Without pydantic, so that ``ragassay --help`` stays fast."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pydantic import BaseModel as Declarations  # what they are once a model inherits them
else:
    Declarations = object

__all__ = ["Declarations", "Option"]


@dataclass(frozen=True)
class Option:
    """What is known of an option beside its type, bounds and default.

    ``flags``: its names on the command line, the long one last. ``usage`` is its help there where ``about`` does not
    fit. ``variable``: ``RAGASSAY_<KEY>`` sets it. ``set_by``: a ``job`` may bring it in its body; what is about
    ``files`` stays on the machine that reads them; the ``operator`` of a service decides the rest.
    ``example``: a line, or lines, of a configuration.
    """

    about: str
    _: KW_ONLY
    flags: tuple[str, ...] = ()
    metavar: str | None = None
    usage: str | None = None
    variable: bool = False
    set_by: Literal["job", "files", "operator"] = "job"
    example: str | None = None

    def __get_pydantic_json_schema__(self, schema: Any, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        return {**handler(schema), "description": self.about}
