"""Settings of the service."""

from pydantic import BaseModel, Field

from longstride.setting_groups.fields import FIELDS


class Service(BaseModel):
    """Limits of the service of --mode recommend."""

    model_config = FIELDS

    service_connections: int = Field(default=1000, ge=1, le=100_000)
    """Largest number of open connections per worker of a service. Integer 1 .. 100000. Further ones get status 503."""

    service_write_seconds: float = Field(default=20.0, gt=0, le=3600)
    """Seconds that a client of a service may take to receive an answer, before its connection is closed. Number > 0."""

    service_drain_seconds: float = Field(default=10.0, gt=0, le=3600)
    """Seconds that a service has for requests in progress after SIGTERM. Number > 0."""

    service_reload_seconds: float = Field(default=0.0, ge=0, le=86_400)
    """Seconds between a service's checks for a newer checkpoint. Number >= 0; 0 loads one only at SIGHUP."""
