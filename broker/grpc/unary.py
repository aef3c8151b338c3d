"""Unary calls over gRPC, out of the table that binds APIs to their handlers."""

from __future__ import annotations

from typing import Any

import grpc

from pylog import errors
from pylog_broker.grpc.guard import Context, Handler, refuse
from pylog_broker.grpc.peers import context_of
from pylog_broker.protobuf.unary import AnyBound, UnaryApis


def unary_handlers(apis: UnaryApis, service: str) -> dict[str, Handler]:
    """gRPC's handlers of a service's APIs, by name."""
    return {bound.api.name: _handler(apis, bound) for bound in apis.of(service)}


def _handler(apis: UnaryApis, bound: AnyBound) -> Handler:
    async def answer(message: Any, context: Context) -> Any:
        # A call over gRPC has no greeting: a few messages say whose they are.
        origin = context_of(context, getattr(message, "client_id", ""))
        try:
            return await apis.answer(bound, origin, message)
        except errors.PylogError as fault:
            await refuse(context, fault)

    return grpc.unary_unary_rpc_method_handler(
        answer, bound.api.request.FromString, bound.api.response.SerializeToString
    )


def add_handlers(service: str, handlers: dict[str, Any], server: Any) -> None:
    """Have the server offer a service (`pylog.v1.Log`) by its handlers."""
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    server.add_registered_method_handlers(service, handlers)


def add_unary_service(apis: UnaryApis, service: str, server: Any) -> None:
    """Have the server offer all of a service (`Admin`) that the process answers."""
    add_handlers(f"pylog.v1.{service}", unary_handlers(apis, service), server)
