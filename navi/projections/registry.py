"""Every projection that is stored as a read model."""

from navi.projections.context import Context
from navi.projections.conversation import Conversation
from navi.projections.messages import Messages
from navi.projections.planning_log import PlanningLog
from navi.projections.sessions import Sessions
from navi.projections.todo import Todo
from navi.projections.usage import Usage

PROJECTIONS = (
    Sessions(),
    Messages(),
    Context(),
    Todo(),
    PlanningLog(),
    Conversation(),
    Usage(),
)

# They hold numbers and no words: erasing a session leaves them as they are.
WORDLESS = (Usage.name,)
