"""What is on the dashboards: a module a page."""

from local.dashboards.pages.agent import AGENT
from local.dashboards.pages.levels import SLO
from local.dashboards.pages.model_pool import MODEL_POOL
from local.dashboards.pages.overview import OVERVIEW
from local.dashboards.pages.retrieval import RETRIEVAL
from local.dashboards.pages.tenant import TENANT

DASHBOARDS = (OVERVIEW, SLO, AGENT, RETRIEVAL, MODEL_POOL, TENANT)
