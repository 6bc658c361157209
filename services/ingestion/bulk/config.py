"""Settings of a bulk run: those of the ingestion service, and which model it brings where it brings its own."""

from pydantic import Field, SecretStr

from services.ingestion.config import Settings as ServiceSettings


class Settings(ServiceSettings):
    """Read from the environment of the command, and of Ray's workers."""

    encoder_model: str = Field(
        default="onnx:.sabueso/models/multilingual-e5-small",
        description="Model of encoders that a run starts itself, as SABUESO_EMBEDDING_MODEL of the embedding service.",
    )
    encoder_settings: str = Field(
        default="",
        pattern=r"^([A-Z_]+=[^,]*(,[A-Z_]+=[^,]*)*)?$",
        description="Further settings of such encoders, without SABUESO_, such as `THREADS=2,MAX_TOKENS=512`.",
    )
    # Of the other commands: whoever has set them may run this one, too.
    url: str = Field(default="", description="Not used: a run goes past the gateway.")
    api_key: SecretStr = Field(default=SecretStr(""), description="Not used: a run goes past the gateway.")
    ca_file: str = Field(default="", description="Not used: a run goes past the gateway.")

    @property
    def encoder_variables(self) -> dict[str, str]:
        """For the environment of an encoder."""
        further = (one.split("=", 1) for one in self.encoder_settings.split(",") if one)
        named = {f"SABUESO_{name}": value for name, value in further}
        return {"SABUESO_EMBEDDING_MODEL": self.encoder_model, **named}
