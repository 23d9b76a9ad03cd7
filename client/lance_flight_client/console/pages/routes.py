"""Addresses of the console, and what answers each of them."""

from __future__ import annotations

from starlette.routing import Route

from lance_flight_client.console.pages.activity import activity, activity_rows, kill
from lance_flight_client.console.pages.entering import login, login_page, logout
from lance_flight_client.console.pages.maps import map_picture, map_svg, partition_map
from lance_flight_client.console.pages.queries import (
    begin_query,
    plan,
    query_cancel,
    query_download,
    query_page,
    query_state,
)
from lance_flight_client.console.pages.tables import history, home, summary, table

ROUTES = (
    Route("/", home),
    Route("/login", login_page, methods=["GET"]),
    Route("/login", login, methods=["POST"]),
    Route("/logout", logout, methods=["POST"]),
    Route("/t/{schema}/{name}", table),
    Route("/t/{schema}/{name}/summary", summary),
    Route("/t/{schema}/{name}/map", partition_map),
    Route("/t/{schema}/{name}/map/picture", map_picture),
    Route("/t/{schema}/{name}/map.svg", map_svg),
    Route("/t/{schema}/{name}/history", history),
    Route("/query", query_page, methods=["GET"]),
    Route("/query", begin_query, methods=["POST"]),
    Route("/plan", plan, methods=["POST"]),
    Route("/query/{query}.{format}", query_download),
    Route("/query/{query}", query_state),
    Route("/query/{query}/cancel", query_cancel, methods=["POST"]),
    Route("/activity", activity),
    Route("/activity/rows", activity_rows),
    Route("/activity/{statement}/kill", kill, methods=["POST"]),
)
