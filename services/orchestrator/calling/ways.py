"""How a model is brought to call tools: by its own calls, or bound to a list of them."""

from enum import Enum

from services.orchestrator.calling.guided_model import GuidedModel
from services.orchestrator.calling.profiled_model import ProfiledModel
from services.orchestrator.calling.profiles import Profile
from services.orchestrator.model import Model


class Way(Enum):
    """`AUTO`: guided for families that do not make several calls in a turn by themselves."""

    NATIVE = "native"
    GUIDED = "guided"
    AUTO = "auto"


def calling_model(model: Model, name: str, profile: Profile, way: Way) -> Model:
    """`model`, served as `name`, as strategies use it."""
    read = ProfiledModel(model, profile, name)
    guided = way is Way.GUIDED or (way is Way.AUTO and not profile.parallel)
    return GuidedModel(read, name) if guided else read
