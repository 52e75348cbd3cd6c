"""The application: its routes, and what they share."""

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import BaseRoute

from logos.app.histories import Histories
from logos.app.overview import Overviews
from logos.web import api, entrance, openapi, pages, static, streams, verbs
from logos.web.access import Access
from logos.web.entrance import Entrance
from logos.web.errors import HANDLERS
from logos.web.feeds import Feeds
from logos.web.options import WebOptions
from logos.web.security import Guard


def make_app(options: WebOptions, access: Access | None = None) -> Starlette:
    """The page and its API. `access` opens the first session: `Access.link`."""
    access = access or Access(options.token)
    modules = (entrance, pages, static, streams, api, verbs, openapi)
    routes: list[BaseRoute] = [route for module in modules for route in module.ROUTES]
    guard = Middleware(Guard, options=options, access=access, answers=Entrance())
    app = Starlette(routes=routes, middleware=[guard], exception_handlers=HANDLERS)
    app.state.options = options
    app.state.access = access
    app.state.histories = Histories()
    app.state.overviews = Overviews(app.state.histories, options.wds)
    app.state.feeds = Feeds(app.state.histories, app.state.overviews)
    return app
