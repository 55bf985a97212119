"""Every page has a way to the others: links where they can be reached, and elsewhere the commands that make them."""

import shlex

import pytest
from typer.main import get_command

from equiscope.cli.app import app
from equiscope.cli.book import other_pages
from equiscope.cli.pages import PAGES
from equiscope.explore.page import html
from equiscope.explore.pages.graph import graph
from equiscope.explore.pages.masks import masks
from equiscope.explore.server import server
from tests.journeys.barriers import barriers

pytestmark = pytest.mark.browser
LINKS = {"book": "../index.html", "masks": "masks.html", "graph": "graph.html", "docs": "../docs/index.html"}


@pytest.fixture
def see(watched, tmp_path):
    def open_page(content, links=None, wide=1280, **options):
        (tmp_path / "page.html").write_text(html(content, links=links), encoding="utf-8")
        tab = watched(wide, **options)
        tab.goto((tmp_path / "page.html").as_uri())
        tab.wait_for_selector("main h2")
        return tab

    return open_page


def test_pages_that_can_be_reached_are_links(see):
    tab = see(graph("Love conquers all", 0), LINKS)
    found = tab.locator(".site .pages a").evaluate_all("links => links.map(a => [a.textContent, a.getAttribute('href')])")
    assert found == [["Book", "../index.html"], ["Masks", "masks.html"], ["Graph", "#"], ["Documentation", "../docs/index.html"]]
    assert tab.locator(".site [aria-current=page]").inner_text() == "Graph"
    assert tab.locator(".site a.brand").get_attribute("href") == "../index.html"


def test_a_file_on_its_own_names_commands_that_exist(see):
    tab = see(masks("Love conquers all", 0))
    assert tab.locator(".site .pages a").all_inner_texts() == ["Masks"]
    tab.locator(".site summary").click()
    commands = tab.locator(".site code").all_inner_texts()
    assert len(commands) > 8
    for command in map(shlex.split, commands):
        assert command[0] == "equiscope"
        options = {name for parameter in get_command(app).commands[command[1]].params for name in parameter.opts}
        assert {word for word in command[2:] if word.startswith("--")} <= options, command
        if "--page" in command:
            assert command[command.index("--page") + 1] in PAGES


def test_a_page_is_titled_by_its_subject_and_its_bar_has_no_barriers_on_a_phone(see):
    tab = see(masks("Love conquers all", 0), wide=390, bypass_csp=True)
    assert tab.title() == f"{tab.locator('h1').inner_text()} - equiscope"
    tab.locator(".site summary").click()
    assert barriers(tab, "serious") == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_served_page_leads_to_the_others_and_back(browser):
    content = masks("Love conquers all", 0)
    links, others = other_pages(content)
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    tab, troubles = context.new_page(), []
    tab.on("pageerror", lambda error: troubles.append(str(error)))
    with server(html(content, links=links), 18790, frames=others) as running:
        tab.goto(running.url)
        tab.get_by_role("link", name="Graph", exact=True).click()
        tab.wait_for_selector("body.network main h2")
        assert tab.title().startswith("Attention as messages on a graph")
        tab.go_back()
        tab.wait_for_selector("body.masks main h2")
        tab.go_forward()
        tab.wait_for_selector("body.network main h2")
        tab.get_by_role("link", name="Masks", exact=True).click()
        tab.wait_for_selector("body.masks main h2")
        assert tab.url == running.url
        tab.get_by_role("link", name="equiscope", exact=True).click()
        tab.wait_for_selector("#text h1")
    context.close()
    assert troubles == []
