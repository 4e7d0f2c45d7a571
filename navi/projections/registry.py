"""Every projection that is stored as a read model."""

from navi.projections.context import Context
from navi.projections.conversation import Conversation
from navi.projections.messages import Messages
from navi.projections.planning_log import PlanningLog
from navi.projections.sessions import Sessions
from navi.projections.todo import Todo

PROJECTIONS = (Sessions(), Messages(), Context(), Todo(), PlanningLog(), Conversation())
