"""What base training minimises. Explicit imports fill the registry: a new objective is one file and one line here."""

from fscil.core.config import TrainConfig, build
from fscil.core.errors import InputError, nearest
from fscil.objectives.alice import ALICEObjective
from fscil.objectives.base import Episode, Objective, ObjectiveOptions, ParameterGroup, Setting
from fscil.objectives.bidist import BiDistObjective
from fscil.objectives.c_fscil import CFSCILObjective, WideCrossEntropy
from fscil.objectives.cec import CECObjective
from fscil.objectives.clom import CLOMObjective
from fscil.objectives.cross_entropy import CrossEntropy
from fscil.objectives.distill import distillation
from fscil.objectives.dot_regression import DotRegression, dot_regression
from fscil.objectives.dsn import DSNObjective
from fscil.objectives.fact import FACTObjective
from fscil.objectives.idlvq import IDLVQObjective
from fscil.objectives.limit import LIMITObjective
from fscil.objectives.metafscil import MetaFSCILObjective
from fscil.objectives.orco import OrCoAlignment, OrCoObjective
from fscil.objectives.s3c import S3CObjective
from fscil.objectives.savc import SAVCObjective
from fscil.objectives.softnet import SoftNetObjective
from fscil.objectives.sppr import SPPRObjective
from fscil.objectives.topic import TOPICObjective

OBJECTIVES: dict[str, type[Objective]] = {
    "alice": ALICEObjective,
    "bidist": BiDistObjective,
    "cec": CECObjective,
    "cross_entropy": CrossEntropy,
    "c-fscil": CFSCILObjective,
    "fact": FACTObjective,
    "dot_regression": DotRegression,
    "dsn": DSNObjective,
    "clom": CLOMObjective,
    "idlvq": IDLVQObjective,
    "limit": LIMITObjective,
    "metafscil": MetaFSCILObjective,
    "orco": OrCoObjective,
    "orco_alignment": OrCoAlignment,
    "s3c": S3CObjective,
    "savc": SAVCObjective,
    "softnet": SoftNetObjective,
    "sppr": SPPRObjective,
    "topic": TOPICObjective,
    "wide_cross_entropy": WideCrossEntropy,
}


def objective_options(train: TrainConfig) -> ObjectiveOptions:
    """The options of the objective that `train` names; unknown names and options are refused."""
    if train.objective not in OBJECTIVES:
        raise InputError(f"There is no train.objective '{train.objective}'; {nearest(train.objective, OBJECTIVES)}")
    return build(OBJECTIVES[train.objective].Options, train.objective_options, where=ObjectiveOptions.prefix)


def build_objective(train: TrainConfig, setting: Setting) -> Objective:
    options = objective_options(train)  # which also refuses an unknown name
    return OBJECTIVES[train.objective](options, setting)
