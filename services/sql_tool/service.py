"""The gRPC face of the SQL tool: translates, calls, translates."""

from collections.abc import Sequence
from typing import Any

from google.protobuf.duration_pb2 import Duration

from sabueso.sql_tool.v1 import sql_tool_pb2 as pb
from sabueso.sql_tool.v1 import sql_tool_pb2_grpc as rpc
from services.runtime.context import current, tenant
from services.runtime.errors import NotFound
from services.sql_tool.cells import Cell, Kind
from services.sql_tool.database import Result
from services.sql_tool.tool import SqlTool

# Time that the answer needs on its way back, out of the caller's deadline.
_RETURN_SECONDS = 0.05


class SqlToolService(rpc.SqlToolServiceServicer):
    """Serves the tenant of each call."""

    def __init__(self, tool: SqlTool) -> None:
        self._tool = tool

    async def Query(self, request: pb.QueryRequest, context: Any) -> pb.QueryResponse:
        """See the proto."""
        result, tables = await self._tool.query(
            tenant(), request.sql, request.params_json, request.max_rows, _seconds_left()
        )
        return pb.QueryResponse(result=_result(result, tables))

    async def Explain(self, request: pb.ExplainRequest, context: Any) -> pb.ExplainResponse:
        """See the proto."""
        plan, tables = await self._tool.explain(tenant(), request.sql, request.params_json, _seconds_left())
        return pb.ExplainResponse(total_cost=plan.total_cost, row_estimate=plan.row_estimate, tables=tables)

    async def DescribeSchema(
        self,
        request: pb.DescribeSchemaRequest,
        context: Any,
    ) -> pb.DescribeSchemaResponse:
        """See the proto."""
        description, version = await self._tool.describe(tenant(), request.question, request.max_tokens)
        return pb.DescribeSchemaResponse(text=description.text, tables=description.tables, version=version)

    async def ListVerifiedQueries(
        self, request: pb.ListVerifiedQueriesRequest, context: Any
    ) -> pb.ListVerifiedQueriesResponse:
        """See the proto. A tenant's file cannot hold any yet."""
        return pb.ListVerifiedQueriesResponse()

    async def RunVerifiedQuery(self, request: pb.RunVerifiedQueryRequest, context: Any) -> pb.RunVerifiedQueryResponse:
        """See the proto. A tenant's file cannot hold any yet."""
        raise NotFound("There is no verified query of this name.", name=request.name[:64])


def _seconds_left() -> float | None:
    call = current()
    left = None if call is None else call.seconds_left()
    return None if left is None else left - _RETURN_SECONDS


def _result(result: Result, tables: Sequence[str]) -> pb.ResultSet:
    duration = Duration()
    duration.FromNanoseconds(round(result.seconds * 1e9))
    return pb.ResultSet(
        columns=[pb.Column(name=column.name, type=column.type) for column in result.columns],
        rows=[pb.Row(cells=[_cell(cell) for cell in row]) for row in result.rows],
        truncated=bool(result.truncated_by),
        truncated_by=result.truncated_by,
        duration=duration,
        tables=tables,
    )


def _cell(cell: Cell) -> pb.Cell:
    return pb.Cell() if cell.kind is Kind.NULL else pb.Cell(**{f"{cell.kind.value}_value": cell.value})  # pyright: ignore[reportArgumentType]
