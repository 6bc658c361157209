"""Runs for the service: golden sets of one folder, each tenant's own key, a folder for each run."""

from dataclasses import dataclass
from pathlib import Path

from services.evaluation.golden.item import DEV, TEST
from services.evaluation.golden.sets import ABOUT
from services.evaluation.report.view import view_of
from services.evaluation.report.write import write
from services.evaluation.runs import command
from services.evaluation.runs.command import JudgeChoice, Wanted
from services.evaluation.runs.gateway_asker import Stack, StackFailed
from services.evaluation.runs.queue import Progress, Request
from services.evaluation.runs.run import Finished
from services.runtime.errors import DependencyFailed, NotPermitted


@dataclass(frozen=True)
class BackgroundRuns:
    """The same runs as the command's. `keys` has `<tenant>.key`, and `<tenant>.dsn` where statements are to be judged.

    A test half is read for a reason only, which is noted beside it: `golden` must be writable for that.
    """

    golden: Path
    folder: Path
    gateway_url: str
    keys: Path
    judge: JudgeChoice
    concurrency: int = 4

    def sets(self) -> list[str]:
        """Names of the sets that there are."""
        return sorted(path.parent.name for path in self.golden.glob(f"*/{ABOUT}"))

    async def run(self, run_id: str, request: Request, progress: Progress) -> Finished:
        """Asks, scores, writes the report. Raises ServiceError, ValueError and OSError with words for the caller."""
        wanted = Wanted(
            self.golden / request.golden_set,
            self.folder / request.tenant / run_id,
            Stack(self.gateway_url, self._key(request.tenant)),
            request.variants,
            half=TEST if request.reason else DEV,
            reason=request.reason,
            reader=request.reader,
            with_baselines=request.with_baselines,
            noise=request.noise,
            metrics=request.metrics,
            judge=self.judge,
            database=self._database(request.tenant),
            limit=request.limit,
            concurrency=self.concurrency,
            command=f"EvaluationService.Evaluate {request.golden_set}",
            run_id=run_id,
            # A caller of the service names no variable of its environment.
            keys={},
        )

        def told(what: str, done: int, of: int) -> None:
            if what == "asked":
                progress(done, of)

        try:
            finished = await command.run(wanted, told)
        except StackFailed as error:
            raise DependencyFailed(str(error), dependency="gateway") from None
        except OSError as error:
            raise NotPermitted(
                f"a file of the run cannot be read or written ({error.strerror})", rule="files"
            ) from None
        write(view_of(finished), finished.folder.path)
        return finished

    def _database(self, tenant: str) -> str:
        """DSN of a role that may only read what the tenant's questions are about; empty: there is none."""
        try:
            return (self.keys / f"{tenant}.dsn").read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return ""
        except OSError:
            raise NotPermitted(f"the database of tenant {tenant} cannot be looked up", rule="key") from None

    def _key(self, tenant: str) -> str:
        try:
            return (self.keys / f"{tenant}.key").read_text(encoding="utf-8").strip()
        except OSError:
            raise NotPermitted(f"there is no key of tenant {tenant} to ask the gateway with", rule="key") from None
