"""Use the viewer by its keys."""

import asyncio

from textual.widgets import Static

from verl_rollout_dump.reader import open_dump
from verl_rollout_dump.viewer.app import ViewerApp
from verl_rollout_dump.viewer.source import ViewerSource

SIZE = (150, 40)


def shown(app, pane="record"):
    return str(getattr(app, f"{pane}_pane").query_one(Static).render())


def listed(app):
    """The lines of the list, with single spaces."""
    return [" ".join(str(app._line_text(number, 60)).split()) for number in range(app.record_list.count)]


def status(app):
    return str(app.status_line.render())


async def settle(app, pilot):
    """Wait until the list is there and nothing changes any more."""
    seen = []
    while len(seen) < 3 or len({*seen[-3:]}) > 1 or not seen[-1][0]:
        await app.workers.wait_for_complete()
        await pilot.pause()
        seen.append((status(app), shown(app)))


async def press(app, pilot, *keys):
    for key in keys:
        await pilot.press(key)
        await settle(app, pilot)


async def look_for_changes(app, pilot):
    """Look for changes now, as the viewer does every two seconds."""
    app._follow()
    await settle(app, pilot)


def use(dump, keys_and_checks, size=SIZE):
    """Open the viewer, and give its app, its pilot and a function that presses keys to a coroutine."""

    async def session():
        with ViewerSource(open_dump(dump)) as source:
            app = ViewerApp(source)
            async with app.run_test(size=size) as pilot:
                await settle(app, pilot)
                await keys_and_checks(app, pilot, lambda *keys: press(app, pilot, *keys))

    asyncio.run(session())
