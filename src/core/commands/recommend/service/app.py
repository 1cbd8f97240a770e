"""The service as an ASGI application: recommendations, health, and a page about both."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse
from pydantic_core import to_json
from starlette.exceptions import HTTPException

from core import __version__
from core.commands.recommend.recommender import TOP, Recommender
from core.commands.recommend.service.answers import Answer, Health, Problem
from core.commands.recommend.service.guard import MOST_BYTES, Guard, RefusedError, body_of
from core.errors import UserError
from core.simulators.process.snapshots.schema import ProcessState, parse_state

_PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "a name is unknown, or the state contradicts itself or the scenario"},
    401: {"model": Problem, "description": "the token is missing or wrong"},
    413: {"model": Problem, "description": f"the body is larger than {MOST_BYTES:,} bytes"},
    422: {"model": Problem, "description": "the body is no JSON of this form"},
}


def create_app(recommender: Recommender, guard: Guard, about: dict[str, Any]) -> FastAPI:
    """Return the application.

    All requests are answered by one thread, one after another: a recommendation takes less than a millisecond.

    Args:
        recommender: what answers.
        guard: who may ask.
        about: ``scenario``, ``policy`` and ``iteration`` for the health page.
    """
    words = "Who should do what next."
    app = FastAPI(title="Longstride", version=__version__, description=words, redoc_url=None, redirect_slashes=False)
    answered = 0

    async def recommend(request: Request) -> Response:
        """Return the policy's recommendation in a state; ``top`` limits the assignments, 0 gives all."""
        nonlocal answered
        body = await body_of(request)
        top = _top(request.query_params.get("top"))
        try:
            state = parse_state(body, "the body")
        except UserError as error:
            raise RefusedError(422, str(error)) from None
        try:
            answer = recommender.advise(state, top).as_json()
        except UserError as error:
            raise RefusedError(400, str(error)) from None
        answered += 1
        return Response(to_json(answer), media_type="application/json")

    async def health() -> Health:
        """Return what is served, and that it is alive; needs no token."""
        return Health(status="ok", **about, answered=answered)

    app.add_api_route(
        "/recommend", recommend, methods=["POST"], responses={200: {"model": Answer}, **_PROBLEMS},
        openapi_extra=_request_body(), response_class=JSONResponse,
    )  # fmt: skip
    app.add_api_route("/health", health, methods=["GET"])
    _answer_unknown(app)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    app.add_middleware(_Guarded, guard=guard, recommend=recommend)
    return app


class _Guarded:
    """Lets pass what a guard admits, and answers ``POST /recommend`` itself.

    A plain ASGI application: a question does not need the way through FastAPI's routes, which takes time.
    """

    def __init__(self, app: Any, guard: Guard, recommend: Callable[[Request], Awaitable[Response]]) -> None:
        self._app, self._guard, self._recommend = app, guard, recommend

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"] == "/health":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            self._guard.check(request)
            if scope["path"] == "/recommend" and scope["method"] == "POST":
                response = await self._recommend(request)
            else:
                response = self._app
        except RefusedError as error:
            response = _problem(error.status, str(error))
        await response(scope, receive, send)


def _answer_unknown(app: FastAPI) -> None:
    """Answer requests for what is not there with a sentence."""

    @app.exception_handler(HTTPException)
    async def unknown(request: Request, error: HTTPException) -> Response:
        return _problem(error.status_code, f"{error.detail}: there are POST /recommend, GET /health and GET /docs.")


def _problem(status: int, sentence: str) -> Response:
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    # A body that was not read to its end would be taken for the next request.
    headers |= {"Connection": "close"} if status in (401, 408, 413) else {}
    return JSONResponse({"error": sentence}, status, headers)


def _top(text: str | None) -> int:
    if text is None:
        return TOP
    if not (text.isascii() and text.isdecimal() and len(text) < 7):
        raise RefusedError(422, "top: expected a number of assignments, 0 for all.")
    return int(text)


def _request_body() -> dict[str, Any]:
    """Return what the OpenAPI page says of the body, which the application reads itself."""
    reference = {"$ref": "#/components/schemas/ProcessState"}
    top = {"name": "top", "in": "query", "schema": {"type": "integer", "minimum": 0, "default": TOP}}
    content = {"application/json": {"schema": reference}}
    return {"parameters": [top], "requestBody": {"required": True, "content": content}}


def _openapi(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document, with the form of a state."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        state = json.loads(json.dumps(ProcessState.model_json_schema(ref_template="#/components/schemas/{model}")))
        document["components"]["schemas"] |= {**state.pop("$defs"), "ProcessState": state}
        app.openapi_schema = document
    return app.openapi_schema
