"""Recommendations over HTTP: FastAPI and uvicorn, of the extra ``service``."""
