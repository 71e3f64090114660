"""The methods, by name. Explicit imports fill the registry: adding a method is one file and one line here."""

from collections.abc import Mapping
from typing import Any

from fscil.core.config import build
from fscil.core.errors import InputError, nearest
from fscil.methods.alice import ALICE
from fscil.methods.base import MARKS, Method
from fscil.methods.bidist import BiDist
from fscil.methods.c_fscil import CFSCIL
from fscil.methods.cec import CEC
from fscil.methods.clom import CLOM
from fscil.methods.df_replay import DFReplay
from fscil.methods.dsn import DSN
from fscil.methods.fact import FACT
from fscil.methods.fcil import FCIL
from fscil.methods.fecam import FeCAM
from fscil.methods.finetune import Finetune
from fscil.methods.icarl import ICaRL
from fscil.methods.idlvq import IDLVQ
from fscil.methods.joint import Joint
from fscil.methods.lazy import Lazy
from fscil.methods.lda import LDA
from fscil.methods.limit import LIMIT
from fscil.methods.metafscil import MetaFSCIL
from fscil.methods.nc_fscil import NCFSCIL
from fscil.methods.orco import OrCo
from fscil.methods.prototypes import Prototypes
from fscil.methods.ranpac import RanPAC
from fscil.methods.rectified import rectified
from fscil.methods.ridge import Ridge
from fscil.methods.s3c import S3C
from fscil.methods.savc import SAVC
from fscil.methods.softnet import SoftNet
from fscil.methods.sppr import SPPR
from fscil.methods.subspace_reg import SubspaceRegularizer
from fscil.methods.teen import TEEN
from fscil.methods.topic import TOPIC
from fscil.methods.whitened import Whitened
from fscil.methods.yourself import YourSelf

_METHODS: tuple[type[Method], ...] = (
    Lazy, Finetune, Joint, ICaRL, LDA, Ridge, RanPAC, Prototypes, CLOM, S3C, SAVC, SPPR, CEC, LIMIT, FACT, CFSCIL,
    NCFSCIL, ALICE, TEEN, FeCAM, SubspaceRegularizer, OrCo, TOPIC, IDLVQ, DFReplay, SoftNet, BiDist, DSN,
    MetaFSCIL, FCIL, Whitened, YourSelf,
)  # fmt: skip
REGISTRY = {method.name: method for method in _METHODS}


def find(name: str) -> type[Method]:
    """The method of that name; an unknown name is refused with the nearest one."""
    if name not in REGISTRY:
        raise InputError(f"There is no method '{name}'; {nearest(name, REGISTRY)}")
    return REGISTRY[name]


def make(name: str, options: Mapping[str, Any] | None = None) -> Method:
    """A fresh method with its options, rectified if they say so; unknown names and options are refused.

    Examples:
        >>> import fscil
        >>> method = fscil.make_method("prototypes", {"block": 3})
        >>> method.title, method.options()
        ('Prototype baseline', {'block': 3})
        >>> fscil.make_method("prototype")
        Traceback (most recent call last):
        ...
        fscil.core.errors.InputError: There is no method 'prototype'; did you mean 'prototypes'?...
    """
    given, where = dict(options or {}), f"options.{name}."
    rectify = given.pop("rectify", False)
    if not isinstance(rectify, bool | Mapping):
        raise InputError(f"{where}rectify must be true, false or a group of YourSelf's options; got {rectify!r:.100}.")
    method = build(find(name), given, where=where)
    if rectify is False:
        return method
    return rectified(method, rectify if isinstance(rectify, Mapping) else {})
