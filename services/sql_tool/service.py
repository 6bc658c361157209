"""The gRPC face of the SQL tool: translates, calls, translates."""

from typing import Any

from google.protobuf.duration_pb2 import Duration

from sabueso.sql_tool.v1 import sql_tool_pb2 as pb
from sabueso.sql_tool.v1 import sql_tool_pb2_grpc as rpc
from services.runtime.context import current, tenant
from services.sql_tool.cells import Cell, Kind
from services.sql_tool.tool import Answer, ListedQuery, SqlTool
from services.sql_tool.verified import arguments_of

# Time that the answer needs on its way back, out of the caller's deadline.
_RETURN_SECONDS = 0.05


class SqlToolService(rpc.SqlToolServiceServicer):
    """Serves the tenant of each call."""

    def __init__(self, tool: SqlTool) -> None:
        self._tool = tool

    async def Query(self, request: pb.QueryRequest, context: Any) -> pb.QueryResponse:
        """See the proto."""
        answer = await self._tool.query(
            tenant(), request.sql, request.params_json, request.max_rows, _seconds_left(), request.source
        )
        return pb.QueryResponse(result=_result(answer))

    async def Explain(self, request: pb.ExplainRequest, context: Any) -> pb.ExplainResponse:
        """See the proto."""
        plan, tables = await self._tool.explain(
            tenant(), request.sql, request.params_json, _seconds_left(), request.source
        )
        return pb.ExplainResponse(total_cost=plan.total_cost, row_estimate=plan.row_estimate, tables=tables)

    async def DescribeSchema(
        self,
        request: pb.DescribeSchemaRequest,
        context: Any,
    ) -> pb.DescribeSchemaResponse:
        """See the proto."""
        described = await self._tool.describe(tenant(), request.question, request.max_tokens)
        return pb.DescribeSchemaResponse(
            text=described.text,
            tables=described.tables,
            version=described.version,
            sources=[pb.Source(name=source.name, description=source.description) for source in described.sources],
        )

    async def ListVerifiedQueries(
        self, request: pb.ListVerifiedQueriesRequest, context: Any
    ) -> pb.ListVerifiedQueriesResponse:
        """See the proto."""
        listed = await self._tool.verified_queries(tenant())
        return pb.ListVerifiedQueriesResponse(queries=[_listed(one) for one in listed])

    async def RunVerifiedQuery(self, request: pb.RunVerifiedQueryRequest, context: Any) -> pb.RunVerifiedQueryResponse:
        """See the proto."""
        ran = await self._tool.run_verified(tenant(), request.name, request.arguments_json, _seconds_left())
        return pb.RunVerifiedQueryResponse(result=_result(ran.answer), sql=ran.sql, params_json=ran.params_json)


def _seconds_left() -> float | None:
    call = current()
    left = None if call is None else call.seconds_left()
    return None if left is None else left - _RETURN_SECONDS


def _listed(one: ListedQuery) -> pb.VerifiedQuery:
    return pb.VerifiedQuery(
        name=one.name,
        description=one.query.description,
        parameters_schema_json=one.schema_json,
        examples=[
            pb.VerifiedExample(question=example.question, arguments_json=arguments_of(example.arguments))
            for example in one.query.examples
        ],
        owner=one.query.owner,
        review_date=one.query.reviewed_on.isoformat(),
        source=one.source,
        tables=one.tables,
        version=one.version,
        defect=one.defect,
    )


def _result(answer: Answer) -> pb.ResultSet:
    result = answer.result
    duration = Duration()
    duration.FromNanoseconds(round(result.seconds * 1e9))
    return pb.ResultSet(
        columns=[pb.Column(name=column.name, type=column.type) for column in result.columns],
        rows=[pb.Row(cells=[_cell(cell) for cell in row]) for row in result.rows],
        truncated=bool(result.truncated_by),
        truncated_by=result.truncated_by,
        duration=duration,
        tables=answer.tables,
        volatile=answer.volatile,
        source=answer.source,
        plan_cost=result.plan_cost,
        value_bytes=result.value_bytes,
    )


def _cell(cell: Cell) -> pb.Cell:
    return pb.Cell() if cell.kind is Kind.NULL else pb.Cell(**{f"{cell.kind.value}_value": cell.value})  # pyright: ignore[reportArgumentType]
