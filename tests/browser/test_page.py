"""The page in a real browser. The fixture ``opened`` asserts: no console message, no request but the file's own."""

import pytest

from stepscope.reports.html import write_report

from ..support.fake_run import HOSTILE, T0, loader_bound


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return write_report(loader_bound(), tmp_path_factory.mktemp("page") / "report.html")


def column(page, caption, number):
    rows = page.locator(f".table:has(h3:text-is('{caption}')) tbody tr:not([hidden])")
    return rows.locator(f"td:nth-child({number})").all_inner_texts()


def test_a_click_on_a_heading_sorts_by_value_and_a_second_the_other_way(opened, report):
    page = opened(report)
    calls = page.locator(".table:has(h3:text-is('Kernels')) th button", has_text="calls")
    calls.click()
    down = [int(text.replace(",", "")) for text in column(page, "Kernels", 3)]
    assert down == sorted(down, reverse=True)
    assert max(down) > 100  # text would have put 90 before 800
    calls.click()
    assert [int(text.replace(",", "")) for text in column(page, "Kernels", 3)] == sorted(down)
    page.locator(".table:has(h3:text-is('Kernels')) th button", has_text="kernel").click()
    names = [name.lower() for name in column(page, "Kernels", 1)]
    assert names == sorted(names)


def test_unknown_sorts_last_either_way(opened, report):
    page = opened(report)
    heading = page.locator(".table:has(h3:text-is('Operators')) th button", has_text="device time")
    for _ in range(2):
        heading.click()
        values = column(page, "Operators", 3)
        unknown = [value == "none recorded" for value in values]
        assert any(unknown)
        assert unknown == sorted(unknown)


def test_typing_filters_rows_and_says_how_many(opened, report):
    page = opened(report)
    page.get_by_label("Filter Operators").fill("addmm")
    shown = column(page, "Operators", 1)
    assert shown
    assert all("addmm" in name for name in shown)
    told = page.locator(".table:has(h3:text-is('Operators')) output").inner_text()
    assert told == f"{len(shown)} of 40"


def test_show_me_opens_definition_sql_and_rows(opened, report):
    page = opened(report)
    page.locator(".facts button").first.click()
    dialog = page.locator("dialog")
    assert "the judged ones" in dialog.locator(".definition").inner_text()
    assert "from judged" in dialog.locator("pre").inner_text()
    assert str(T0) in dialog.locator("table").inner_text()  # exact: a double cannot hold it
    assert dialog.locator("a").get_attribute("href").startswith("https://github.com/stepscope/")
    page.keyboard.press("Escape")
    assert not dialog.is_visible()


def test_every_number_opens_something(opened, report):
    page = opened(report)
    count = page.evaluate(
        """() => {
            const dialog = document.getElementById("show");
            const buttons = [...document.querySelectorAll("[data-show]")];
            return buttons.filter((button) => {
                button.click();
                const filled = dialog.open && dialog.querySelector("pre").textContent.length > 20;
                dialog.close();
                return filled;
            }).length - buttons.length;
        }"""
    )
    assert count == 0


def test_the_ledger_is_drawn_and_a_rank_can_be_chosen(opened, report):
    page = opened(report)
    steps = page.locator("[data-axis=step]")
    assert steps.locator("svg g").count() == 40
    assert steps.locator("svg g.open").count() == 2
    assert steps.locator("select option").all_inner_texts() == ["mean of all ranks", "rank 0", "rank 1"]
    page.locator("[data-axis=rank] svg g").nth(1).locator(".hit").click()
    assert steps.locator("select").input_value() == "rank 1"
    steps.locator("svg g").nth(3).locator(".hit").hover()
    assert "step 3" in page.locator("#tip").inner_text()
    assert "60.0 ms" in page.locator("#tip").inner_text() or "60 ms" in page.locator("#tip").inner_text()


def test_the_timeline_zooms_pans_and_names_what_is_under_the_pointer(opened, report):
    page = opened(report)
    canvas = page.locator("[data-chart=timeline] canvas").first
    canvas.scroll_into_view_if_needed()
    snapshot = "canvas => canvas.toDataURL()"
    whole = canvas.evaluate(snapshot)
    canvas.hover(position={"x": 120, "y": 44})
    assert "DataLoader" in page.locator("#tip").inner_text()
    canvas.click(position={"x": 600, "y": 60})
    page.mouse.wheel(0, -400)
    page.wait_for_function("([canvas, old]) => canvas.toDataURL() !== old", arg=[canvas.element_handle(), whole])
    canvas.dblclick(position={"x": 600, "y": 60})
    page.mouse.move(0, 0)
    page.wait_for_function("([canvas, old]) => canvas.toDataURL() === old", arg=[canvas.element_handle(), whole])


def test_a_wheel_over_an_unfocused_timeline_scrolls_the_page(opened, report):
    page = opened(report)
    canvas = page.locator("[data-chart=timeline] canvas").first
    canvas.scroll_into_view_if_needed()
    canvas.hover(position={"x": 600, "y": 60})
    before = page.evaluate("scrollY")
    page.mouse.wheel(0, 200)
    page.wait_for_function("before => scrollY > before", arg=before)


def test_a_hostile_name_is_shown_as_text(opened, tmp_path):
    run = loader_bound(ranks=1, steps=4, kernels=3)
    run.con.execute("update kernels set name = ?", [HOSTILE])
    run.con.execute("update events set name = ?", [HOSTILE])
    page = opened(write_report(run, tmp_path / "report.html"))
    cell = page.locator(".table:has(h3:text-is('Kernels')) td.name").first
    assert cell.inner_text().startswith("<script>alert('x')</script>\"&</script><!--")
    assert len(cell.inner_text()) < 200
    assert "10,0" in cell.get_attribute("title")  # the full length is told
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    canvas = page.locator("[data-chart=timeline] canvas").first
    canvas.hover(position={"x": 120, "y": 44})
    assert page.locator("#tip").inner_text().startswith("<script>alert")


def test_light_and_dark_differ_in_paper_ink_and_tones(opened, report):
    read = """() => {
        const style = (element) => getComputedStyle(element);
        const bar = document.querySelector(".bar i");
        const line = document.querySelector(".still svg path[style*='--compute']");
        return [style(document.body).backgroundColor, style(document.body).color, style(bar).backgroundColor,
                style(line).stroke];
    }"""
    light, dark = (opened(report, scheme).evaluate(read) for scheme in ("light", "dark"))
    assert all(a != b for a, b in zip(light, dark, strict=True))
    assert light[2] == light[3]  # one palette: the strip and the figure wear the same blue
    assert dark[2] == dark[3]


@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_is_no_wider_than_the_screen(opened, report, width):
    assert opened(report, width=width).evaluate("document.documentElement.scrollWidth") <= width


def test_the_page_prints(opened, report, tmp_path):
    path = tmp_path / "report.pdf"
    opened(report).pdf(path=path, print_background=True)
    assert path.read_bytes().startswith(b"%PDF")
