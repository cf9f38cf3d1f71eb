"""The page of `csdf report` in a browser: seen, moved, zoomed and sorted, by keyboard too."""

import re
import shutil

import pytest

from csdf.cli.main import main
from csdf.io.graph_files import write_graph
from csdf.model.builder import GraphBuilder
from tests.cli.running import GRAPHS

webdriver = pytest.importorskip("selenium.webdriver")
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (CHROMIUM and DRIVER), reason="no chromium and chromedriver on this machine"
    ),
]
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
HANG = 5  # seconds in which a page answers, or hangs
LEGIBLE = 4.5  # contrast of text with what is behind it: WCAG 2.1, 1.4.3


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for option in (*OPTIONS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.chrome.service.Service(DRIVER)
    found = webdriver.Chrome(options=options, service=service)
    found.set_script_timeout(HANG)
    found.set_page_load_timeout(6 * HANG)
    yield found
    found.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Pages of a small graph, a deadlock, a network, and of ten thousand firings."""
    folder = tmp_path_factory.mktemp("pages")
    builder = GraphBuilder("busy").actor("a", 3, overlap=False).actor("b", 2, overlap=False)
    write_graph(folder / "busy.json", builder.channel("a", 5000, "b", 1).graph())
    inputs = {
        "small": (str(GRAPHS / "csdf_example.xml"), "--time-limit", "30s"),
        "stuck": (str(GRAPHS / "deadlocked.xml"),),
        "network": ("person_detection", "--element-bytes", "1", "--total-memory", "256kB"),
        "busy": (str(folder / "busy.json"),),
    }
    for name, words in inputs.items():
        main(["report", *words, "-o", str(folder / f"{name}.html")])
    return folder


class Shown:
    """A page in a window of some width, light or dark."""

    def __init__(self, browser, path, *, width=1200, is_dark=False):
        self.browser = browser
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        browser.get_log("browser")
        browser.get(path.as_uri())
        self.settle()

    def ask(self, script, *arguments):
        return self.browser.execute_script(f"return {script}", *arguments)

    def settle(self):
        """Wait until what was asked for is drawn: two frames."""
        self.browser.execute_async_script(
            "const end = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => end()))"
        )

    def text(self, selector):
        return self.ask("document.querySelector(arguments[0]).textContent", selector)

    def press(self, selector, *keys):
        """Keys, to the element that has the focus; it must take it."""
        self.ask("document.querySelector(arguments[0]).focus({preventScroll: true})", selector)
        assert self.ask("document.activeElement === document.querySelector(arguments[0])", selector)
        for key in keys:
            webdriver.ActionChains(self.browser).send_keys(key).perform()
        self.settle()

    def click(self, selector):
        self.ask("document.querySelector(arguments[0]).click()", selector)
        self.settle()

    def stretch(self, identifier):
        """The times that a chart shows."""
        low, high = (
            float(self.ask(f"document.getElementById(arguments[0]).dataset.{end}", identifier))
            for end in ("low", "high")
        )
        return low, high


@pytest.fixture
def show(browser, pages):
    return lambda name, **how: Shown(browser, pages / f"{name}.html", **how)


NAMES = ("small", "stuck", "network", "busy")
KEYS = webdriver.Keys


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_page_opens_without_a_word_on_the_console(show, browser, name):
    show(name)
    assert browser.get_log("browser") == []


@pytest.mark.parametrize("name", NAMES)
def test_every_part_that_is_linked_is_to_be_seen(show, name):
    page = show(name)
    heights = page.ask(
        "[...document.querySelectorAll('nav a')].map(one =>"
        " document.querySelector(one.getAttribute('href')).getBoundingClientRect().height)"
    )
    assert len(heights) >= 3
    assert min(heights) > 40
    assert page.ask("[...document.querySelectorAll('canvas')].every(one => one.width > 100)")


@pytest.mark.parametrize("width", [400, 2000])
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_wider_than_the_window(show, name, width):
    page = show(name, width=width)
    assert page.ask("document.documentElement.scrollWidth") <= width
    wide = page.ask(
        "[...document.querySelectorAll('section > *, .tools > *, .chart')].filter(one =>"
        " one.getBoundingClientRect().right > arguments[0] + 0.5).map(one => one.outerHTML)",
        width,
    )
    assert wide == []


@pytest.mark.parametrize("width", [400, 700, 1200, 2000])
def test_the_same_bytes_are_as_many_pixels_in_every_bar(show, width):
    page = show("network", width=width)
    lists = page.ask(
        "[...document.querySelectorAll('.bars')].map(one =>"
        " ['.bar-space', '.bar.weights', '.bar-limit'].map(name =>"
        " [...one.querySelectorAll(name)].map(bar => {"
        " const box = bar.getBoundingClientRect();"
        " return name == '.bar-limit' ? box.left : box.width; })))"
    )
    spaces, weights, marks = lists[0]
    assert (
        len(spaces) == len(weights) == len(marks) == 5
    )  # whole and by parts, apart and in one; fit
    for found in (spaces + lists[1][0], weights, marks):
        assert max(found) - min(found) < 0.5  # the same in all rows, of both lists
    assert min(weights) > 10


def luminance(colour):
    """Relative luminance, WCAG 2.1."""
    channels = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    low = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in channels]
    return 0.2126 * low[0] + 0.7152 * low[1] + 0.0722 * low[2]


def contrast(one, other):
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


BEHIND = """(() => {
  const found = new Set();
  for (const one of document.querySelectorAll("body *")) {
    const own = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!own || one.closest("svg, script, style, [hidden]")) continue;
    let behind = one;
    const colour = (node) => getComputedStyle(node).backgroundColor;
    while (behind.parentElement && /, 0\\)$/.test(colour(behind))) behind = behind.parentElement;
    found.add(getComputedStyle(one).color + "|" + colour(behind) + "|" + one.className);
  }
  return [...found];
})()"""


@pytest.mark.parametrize("is_dark", [False, True])
@pytest.mark.parametrize("name", ["stuck", "network"])
def test_text_stands_out_from_what_is_behind_it(show, name, is_dark):
    pairs = [one.split("|") for one in show(name, is_dark=is_dark).ask(BEHIND)]
    assert len(pairs) > 5
    assert [pair for pair in pairs if contrast(*pair[:2]) < LEGIBLE] == []


def test_the_button_turns_light_into_dark_and_back(show):
    page = show("small")
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.ask(paper)
    page.click("#theme")
    dark = page.ask(paper)
    assert luminance(dark) < 0.1 < luminance(light)
    page.click("#theme")
    assert page.ask(paper) == light


def test_arrow_keys_go_along_the_front_and_change_the_distribution(show):
    page = show("small")
    assert "16 tokens" in page.text("#front-size")  # the fastest of the five points
    page.press("#front-plot", KEYS.HOME)
    assert "11 tokens" in page.text("#front-size")
    before = page.text("#front-capacities")
    page.press("#front-plot", KEYS.ARROW_RIGHT)
    assert "12 tokens" in page.text("#front-size")
    assert "period 15" in page.text("#front-period")
    assert page.text("#front-capacities") != before
    spoken = "document.getElementById('front-plot').getAttribute('aria-valuetext')"
    assert page.ask(spoken).startswith("12 tokens, period 15")


def test_the_mouse_chooses_the_point_that_it_is_near(show):
    page = show("small")
    frame = page.browser.find_element("id", "front-plot")
    page.ask("arguments[0].scrollIntoView({block: 'center'})", frame)
    half = frame.size["width"] // 2
    move = webdriver.ActionChains(page.browser).move_to_element_with_offset
    move(frame, -half + 100, 0).perform()
    page.settle()
    assert "11 tokens" in page.text("#front-size")
    assert page.ask("!document.getElementById('tooltip').hidden")


def test_keys_zoom_and_move_the_schedule_and_the_channels_with_it(show):
    page = show("small")
    low, high = page.stretch("gantt")
    page.press("#gantt", "+")
    closer = page.stretch("gantt")
    assert closer[1] - closer[0] < high - low
    page.press("#occupancy", KEYS.ARROW_RIGHT)
    moved = page.stretch("gantt")
    assert moved[0] > closer[0]
    assert moved[1] - moved[0] == pytest.approx(closer[1] - closer[0])
    page.press("#gantt", "0")
    assert page.stretch("gantt") == (low, high)


def wheel(page, selector, delta):
    page.ask(
        "document.querySelector(arguments[0]).dispatchEvent(new WheelEvent('wheel',"
        " {deltaY: arguments[1], ctrlKey: true, bubbles: true, cancelable: true, clientX: 600}))",
        selector,
        delta,
    )


@pytest.mark.parametrize("selector", ["#gantt", "#arena-plot"])
def test_the_wheel_and_the_buttons_zoom(show, selector):
    page = show("network")
    whole = page.stretch(selector[1:])
    wheel(page, selector, -100)
    page.settle()
    closer = page.stretch(selector[1:])
    assert closer[1] - closer[0] < whole[1] - whole[0]
    tools = "#gantt-tools" if selector == "#gantt" else "#arena-tools"
    page.click(f"{tools} button[aria-label='zoom out']")
    farther = page.stretch(selector[1:])
    assert farther[1] - farther[0] > closer[1] - closer[0]


def test_the_drawing_zooms_and_moves_by_keys(show):
    page = show("small")
    view = "document.querySelector('svg.drawing').getAttribute('viewBox').split(' ').map(Number)"
    before = page.ask(view)
    page.press("svg.drawing", "+")
    closer = page.ask(view)
    assert closer[2] < before[2]
    page.press("svg.drawing", KEYS.ARROW_RIGHT)
    assert page.ask(view)[0] > closer[0]


def test_other_buffers_show_another_schedule(show):
    page = show("small")
    assert "period 12" in page.text("#gantt-facts")
    page.press("#run", KEYS.ARROW_DOWN)
    assert page.ask("document.getElementById('run').selectedOptions[0].textContent") == (
        "smallest, 11 tokens"
    )
    assert "period 17" in page.text("#gantt-facts")
    assert "capacity 5" in page.text("#occupancy-detail")


def test_channels_are_chosen_by_keys_and_found_by_name(show):
    page = show("small")
    page.press(".spark[aria-selected='true']", KEYS.HOME)
    assert "“alpha”" in page.text("#occupancy-detail")
    page.press(".spark[aria-selected='true']", KEYS.ARROW_DOWN)
    assert "“beta”" in page.text("#occupancy-detail")
    page.press("#occupancy-filter", *"alph")
    assert page.ask("document.querySelectorAll('.spark').length") == 1


def first_column(page):
    return page.ask(
        "[...document.querySelectorAll('table.sortable tbody tr')].filter(one => !one.hidden)"
        ".map(one => one.cells[0].textContent)"
    )


def test_tables_sort_by_their_heads_and_filter_by_text(show):
    page = show("small")
    names = first_column(page)
    assert names == ["a", "b", "c"]  # work 12, 8, 5
    heads = "table.sortable thead th:nth-child({}) button"
    page.press(heads.format(4), KEYS.ENTER)  # longest firing: 3, 2, 3
    assert first_column(page)[-1] == "b"
    page.press(heads.format(4), KEYS.ENTER)
    assert first_column(page)[0] == "b"
    page.press(heads.format(1), KEYS.ENTER)
    assert first_column(page) == sorted(names)
    assert (
        page.ask("document.querySelector('th[aria-sort]').getAttribute('aria-sort')") == "ascending"
    )
    page.press("[data-filter='actors']", "b")
    assert first_column(page) == ["b"]
    assert page.text("#actors-count") == "1 of 3 actors"


def test_the_table_shows_only_the_bottleneck_when_asked(show):
    page = show("small")
    page.click("[data-marked='actors']")
    assert first_column(page) == ["a"]


def test_buffers_of_the_arena_are_told_one_after_another(show):
    page = show("network")
    page.press("#arena-plot", KEYS.HOME)
    first = page.text("#arena-detail")
    assert re.search(r"\(\d+ bytes\), offset \d+ to \d+, steps \d+ to \d+", first)
    page.press("#arena-plot", KEYS.ARROW_RIGHT)
    assert page.text("#arena-detail") != first


@pytest.mark.slow
def test_everything_that_moves_is_reached_by_the_tabulator_and_has_a_name(show):
    page = show("network")
    reached = page.ask(
        "[...document.querySelectorAll('a, button, input, select, [tabindex=\"0\"], summary')]"
        ".filter(one => one.tabIndex >= 0)"
        ".map(one => [one.id, (one.getAttribute('aria-label') || one.textContent ||"
        " one.closest('label')?.textContent || '').trim()])"
    )
    assert [identifier for identifier, name in reached if not name] == []
    assert {"theme", "gantt", "occupancy", "front-plot", "arena-plot"} <= {
        one for one, _ in reached
    }


@pytest.mark.slow
def test_ten_thousand_firings_are_zoomed_through_frame_by_frame(show):
    page = show("busy")
    firings = page.ask(
        "JSON.parse(document.getElementById('data').textContent).runs[0].actors"
        ".reduce((sum, one) => sum + one.s.length, 0)"
    )
    assert firings >= 10_000
    drawn = page.browser.execute_async_script(
        """const end = arguments[0];
        const frame = document.getElementById("gantt");
        const before = Number(frame.dataset.draws);
        let left = 30;
        const step = () => {
          if (!left--) { end(Number(frame.dataset.draws) - before); return; }
          const key = left > 15 ? "+" : "-";
          frame.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
          requestAnimationFrame(() => setTimeout(step));
        };
        step();"""
    )
    assert drawn >= 29  # one frame for each key, but perhaps the last


@pytest.mark.slow
def test_the_printed_page_has_no_tools(show):
    page = show("small")
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    shown = page.ask("getComputedStyle(document.getElementById('gantt-tools')).display")
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert shown == "none"


CHOSEN = "[...document.querySelectorAll('{}')].map(one => one.{})"


def test_an_actor_that_is_clicked_is_chosen_in_all_views(show):
    page = show("small")
    node = page.browser.find_element("css selector", ".node[data-name='b'] rect")
    page.ask("arguments[0].scrollIntoView({block: 'center'})", node)
    webdriver.ActionChains(page.browser).move_to_element(node).click().perform()
    page.settle()
    assert page.text("#focus-name") == "b"
    assert page.ask(CHOSEN.format(".node.chosen", "dataset.name")) == ["b"]
    assert page.ask(CHOSEN.format("tr.chosen", "cells[0].textContent")) == ["b"]
    assert "“alpha”, from “a” to “b”" in page.text("#occupancy-detail")
    assert page.ask("location.hash") == "#actor=b"
    # a feeds b by alpha, and b feeds c by beta.
    assert page.ask(CHOSEN.format("#focus button[data-actor]", "dataset.actor")) == ["a", "c"]
    page.click("#focus button[data-actor='c']")
    assert page.text("#focus-name") == "c"


def test_a_part_of_a_name_finds_an_actor(show):
    page = show("network")
    page.press("#find", *"conv4_p", KEYS.ENTER)
    assert page.text("#focus-name") == "conv4_pointwise"
    assert page.ask("document.getElementById('find').value") == "conv4_pointwise"
    page.press("#find", *[KEYS.BACKSPACE] * 20, *"conv4")
    assert re.fullmatch(r"\d+ layers", page.text("#found"))


def test_a_link_opens_the_page_at_an_actor(browser, pages):
    page = Shown(browser, pages / "small.html")
    browser.get((pages / "small.html").as_uri() + "#actor=c")
    browser.refresh()
    page.settle()
    assert page.text("#focus-name") == "c"
    browser.get((pages / "small.html").as_uri() + "#actor=nobody")
    browser.refresh()
    page.settle()
    assert page.ask("document.getElementById('focus').hidden")


PARSED = """(() => {
  const svg = new DOMParser().parseFromString(window.saved.text, "image/svg+xml").documentElement;
  return [svg.tagName, svg.querySelectorAll("rect, path").length, svg.textContent];
})()"""


@pytest.mark.parametrize(
    ("tools", "says"),
    [
        ("#graph-tools", "conv4_pointwise"),
        ("#gantt-tools", "time"),
        ("#occupancy-tools", "tokens"),
        ("#front-tools", "storage size (bytes)"),
        ("#arena-tools", "firing of the frame"),
    ],
)
def test_every_picture_is_saved_as_svg(show, tools, says):
    page = show("network")
    page.ask("document.addEventListener('csdf-saved', (event) => { window.saved = event.detail; })")
    page.click(f"{tools} button[aria-label^='save the picture']")
    assert page.ask("window.saved.name").endswith(".svg")
    tag, drawn, text = page.ask(PARSED)
    assert tag == "svg"
    assert drawn > 10
    assert says in text
    assert "var(" not in page.ask("window.saved.text")


def test_a_table_is_saved_as_csv(show):
    page = show("small")
    page.ask("document.addEventListener('csdf-saved', (event) => { window.saved = event.detail; })")
    page.click("button[aria-label='save the table actors as CSV']")
    lines = page.ask("window.saved.text").splitlines()
    assert lines[0].startswith("actor,firings per iteration,phases")
    assert lines[1] == "a,6,2,3,12,1"  # six firings of two phases, the longest 3; always at work
    assert len(lines) == 4
