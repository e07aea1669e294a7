"""Refusals as clients of the protocol know them: a status, and a body that names the field."""

from __future__ import annotations

import msgspec

from assay.errors import AssayError
from assay.serving.messages import Failed

STATUS = {
    "RequestError": 400, "ContractError": 400, "FormatError": 400, "DeadlineExceeded": 504, "full": 429,
    "unknown": 404, "draining": 503, "gone": 503,
}  # fmt: skip
"""Of what a worker says; all else is a fault of ours, 500."""
INVALID = "invalid_request_error"
KINDS = {
    400: INVALID, 401: "authentication_error", 403: "permission_error", 404: "not_found_error", 405: INVALID,
    408: "timeout_error", 413: INVALID, 429: "rate_limit_error", 431: INVALID, 503: "service_unavailable",
    504: "timeout_error",
}  # fmt: skip
"""What the protocol calls a status; all else is a "server_error"."""


class ErrorBody(msgspec.Struct):
    """What is wrong: a text for people, the kind, the field that it is about, and a code."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorAnswer(msgspec.Struct):
    """The body of a refusal."""

    error: ErrorBody


class Refusal(Exception):
    """An answer with this status. `retry` seconds later it may be another one."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry: float = 0.0,
    ) -> None:
        super().__init__(message)
        self.status, self.retry = status, retry
        self.body = ErrorBody(message, KINDS.get(status, "server_error"), param, code)

    @staticmethod
    def of(error: AssayError, status: int = 400) -> Refusal:
        """A typed error as a refusal."""
        return Refusal(
            status, _told(error.rule, error.want, error.got, error.hint), param=error.place or None
        )

    @staticmethod
    def failed(failed: Failed) -> Refusal:
        """What a worker refused."""
        message = _told(failed.rule, failed.want, failed.got, failed.hint)
        status, code = STATUS.get(failed.kind, 500), None if failed.kind.endswith("Error") else failed.kind
        if "too long" in failed.rule and status == 400:
            code = "context_length_exceeded"
        return Refusal(status, message, param=failed.place or None, code=code, retry=failed.retry)

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Those that go with it."""
        found = [("retry-after", str(max(1, round(self.retry))))] if self.retry else []
        return [*found, *[("www-authenticate", "Bearer")] * (self.status == 401)]

    def encoded(self) -> bytes:
        """The body."""
        return msgspec.json.encode(ErrorAnswer(self.body))


class Gone(Exception):
    """The client's connection is closed."""


def _told(rule: str, want: str, got: str, hint: str) -> str:
    parts = [rule, *[f"wanted {want}"] * bool(want), *[f"got {got}"] * bool(got), *[hint] * bool(hint)]
    return "; ".join(parts)
