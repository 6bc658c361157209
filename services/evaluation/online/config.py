"""Settings of what is measured of live traffic."""

from pydantic import BaseModel, Field, SecretStr


class OnlineSettings(BaseModel):
    """Fields that the service's settings inherit."""

    online_queue: int = Field(
        default=256, ge=1, le=100_000, description="Sampled answers that wait to be measured; further ones are refused."
    )
    online_workers: int = Field(default=2, ge=1, le=64, description="Sampled answers measured at the same time.")
    online_answer_seconds: float = Field(
        default=300, gt=0, le=3600, description="Time for measuring one sampled answer; then its scores are missing."
    )
    online_calls_per_hour: int = Field(
        default=600, ge=0, le=1_000_000, description="Calls of the judge an hour for live traffic; 0: none."
    )
    online_calls_per_day: int = Field(default=6_000, ge=0, le=10_000_000, description="The same, a day (UTC).")
    online_tokens_per_hour: int = Field(
        default=2_000_000,
        ge=0,
        le=10**10,
        description="Tokens of the judge an hour for live traffic, read and written.",
    )
    online_tokens_per_day: int = Field(default=20_000_000, ge=0, le=10**11, description="The same, a day (UTC).")
    online_tenant_share: float = Field(
        default=0.5, gt=0, le=1, description="Part of each of these bounds that one tenant may use."
    )
    online_most_tenants: int = Field(
        default=50, ge=1, le=1_000, description="Tenants with a metrics label of their own; further ones are `other`."
    )
    online_retention_days: int = Field(
        default=90, ge=1, le=3_650, description="How long scores of live traffic are kept in PostgreSQL."
    )
    online_feedback_seconds: float = Field(
        default=600, ge=1, le=86_400, description="Time between two looks at what people said of measured answers."
    )
    drift_reference: int = Field(
        default=500, ge=50, le=5_000, description="Sampled answers of a tenant that later ones are compared with."
    )
    drift_window: int = Field(default=200, ge=20, le=5_000, description="Answers in each comparison, each in one only.")
    drift_alpha: float = Field(
        default=0.001, gt=0, lt=0.5, description="Share of comparisons that may alarm though nothing has changed."
    )
    langfuse_url: str = Field(
        default="", pattern="^(https?://.+)?$", description="Langfuse that gets the scores; empty: none."
    )
    langfuse_public_key: str = Field(default="", description="User name for its API.")
    langfuse_secret_key: SecretStr = Field(default=SecretStr(""), description="Password for its API.")
