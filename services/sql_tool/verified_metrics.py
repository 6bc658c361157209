"""Numbers of verified queries, over all tenants whose database was read."""

from prometheus_client import Gauge

DEFECTIVE = Gauge("sabueso_sql_tool_defective_verified_queries", "Verified queries that cannot run.")
OVERDUE = Gauge("sabueso_sql_tool_overdue_verified_queries", "Verified queries whose review is too long ago.")
