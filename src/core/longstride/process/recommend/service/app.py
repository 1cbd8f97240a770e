"""The service as an ASGI application: recommendations, health, and a page about both."""

import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic_core import to_json
from starlette.exceptions import HTTPException

from longstride.errors import UserError
from longstride.process.recommend.recommender import TOP, Recommender
from longstride.process.recommend.service.access_log import AccessLog
from longstride.process.recommend.service.answers import Answer, Health, Problem
from longstride.process.recommend.service.connections import Connections
from longstride.process.recommend.service.counts import Counts
from longstride.process.recommend.service.front import Front, problem
from longstride.process.recommend.service.guard import Guard, RefusedError, body_of
from longstride.process.recommend.service.limits import MOST_BYTES, Limits, Served
from longstride.process.snapshots.large_state import parse_bounded
from longstride.process.snapshots.schema import ProcessState
from longstride.version import __version__

LARGE_BYTES = 16_384
"""Size in bytes above which a body goes to a second thread."""

_LARGE = ThreadPoolExecutor(1, "large bodies")

_PAGES = "there are POST /recommend, GET /health, GET /ready, GET /metrics and GET /docs."

_PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "a name is unknown, or the state contradicts itself or the scenario"},
    401: {"model": Problem, "description": "the token is missing or wrong"},
    413: {"model": Problem, "description": f"the body is larger than {MOST_BYTES:,} bytes"},
    422: {"model": Problem, "description": "the body is not JSON of this form"},
    503: {"model": Problem, "description": "the service is stopping, or has too many connections"},
}


def create_app(served: Served, guard: Guard, connections: Connections | None = None, lifespan: Any = None) -> FastAPI:
    """Return the application.

    Requests are answered by one thread, one after another: a recommendation takes less than a millisecond. A body of
    more than ``LARGE_BYTES`` goes to a second thread, so that it delays no other request.

    Args:
        served: policy that answers.
        guard: admission of requests.
        connections: connections of this worker; None for no limits and no log.
        lifespan: FastAPI's context manager for the lifetime of the application.
    """
    words = "Who should do what next."
    about = {name: value for name, value in served.about.items() if name != "saved"}
    connections = connections or Connections(Limits(), Counts(), AccessLog())
    app = FastAPI(
        title="Longstride", version=__version__, description=words, redoc_url=None, redirect_slashes=False,
        lifespan=lifespan,
    )  # fmt: skip

    async def recommend(request: Request) -> Response:
        """Return the policy's recommendation in a state; ``top`` limits the assignments, 0 gives all."""
        body = await body_of(request)
        top = _top(request.query_params.get("top"))
        if len(body) > LARGE_BYTES and served.other is not None:
            content = await asyncio.get_running_loop().run_in_executor(
                _LARGE, answer_to, served.other, body, top, about
            )
        else:
            content = answer_to(served.recommender, body, top, about)
        return Response(content, media_type="application/json")

    async def health() -> Health:
        """Return the state of the service; needs no token."""
        age = max(0.0, time.time() - served.about["saved"]) if "saved" in served.about else None
        answered = connections.counts.answered()
        return Health(status="ok", version=__version__, **about, checkpoint_age_seconds=age, answered=answered)

    async def ready() -> Response:
        """Return whether the service accepts requests, with status 503 if it is stopping; needs no token."""
        return JSONResponse({"status": "stopping"}, 503) if connections.stopping else JSONResponse({"status": "ready"})

    async def metrics() -> Response:
        """Return the counts of all workers in the text format of Prometheus."""
        return Response(connections.counts.text(served.about), media_type=CONTENT_TYPE_LATEST)

    app.add_api_route(
        "/recommend", recommend, methods=["POST"], responses={200: {"model": Answer}, **_PROBLEMS},
        openapi_extra=_request_body(), response_class=JSONResponse,
    )  # fmt: skip
    for path, function in (("/health", health), ("/ready", ready), ("/metrics", metrics)):
        app.add_api_route(path, function, methods=["GET"])
        app.add_api_route(path, function, methods=["HEAD"], include_in_schema=False)
    _answer_unknown(app)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    app.add_middleware(Front, guard=guard, recommend=recommend, connections=connections)
    return app


def answer_to(recommender: Recommender, body: bytes, top: int, about: dict[str, Any]) -> bytes:
    """Return the answer to a body as JSON, with the version and the digest of the policy.

    Raises:
        RefusedError: the body is not a state, or does not fit the scenario.
    """
    try:
        state = parse_bounded(body, "the body")
    except UserError as error:
        raise RefusedError(422, str(error)) from None
    try:
        answer = recommender.advise(state, top).as_json()
    except UserError as error:
        raise RefusedError(400, str(error)) from None
    return to_json({**answer, "policy_sha256": about.get("policy_sha256", ""), "version": __version__})


def _answer_unknown(app: FastAPI) -> None:
    """Answer requests for unknown pages with a sentence."""

    @app.exception_handler(HTTPException)
    async def unknown(request: Request, error: HTTPException) -> Response:
        return problem(error.status_code, f"{error.detail}: {_PAGES}")


def _top(text: str | None) -> int:
    if text is None:
        return TOP
    if not (text.isascii() and text.isdecimal() and len(text) < 7):
        raise RefusedError(422, "top: expected a number of assignments, 0 for all.")
    return int(text)


def _request_body() -> dict[str, Any]:
    """Return the OpenAPI description of the request body, which the application reads itself."""
    reference = {"$ref": "#/components/schemas/ProcessState"}
    top = {"name": "top", "in": "query", "schema": {"type": "integer", "minimum": 0, "default": TOP}}
    content = {"application/json": {"schema": reference}}
    return {"parameters": [top], "requestBody": {"required": True, "content": content}}


def _openapi(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document with the schema of a state."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        state = json.loads(json.dumps(ProcessState.model_json_schema(ref_template="#/components/schemas/{model}")))
        document["components"]["schemas"] |= {**state.pop("$defs"), "ProcessState": state}
        app.openapi_schema = document
    return app.openapi_schema
