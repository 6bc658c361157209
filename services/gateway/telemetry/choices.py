"""What an operator chooses to have told."""

from dataclasses import dataclass

from services.gateway.telemetry.conventions import Version


@dataclass(frozen=True)
class Telemetry:
    """`conventions`: the version of OpenTelemetry's names; `content`: prompts and answers in spans."""

    conventions: Version = "genai-0.1"
    content: bool = False
    access_log: bool = True
