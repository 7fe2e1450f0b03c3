"""The live models: every number is PyTorch's, every story the terminal's, from disk and served."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser

from manyheads.models.generation import generate
from manyheads.web.models import model_files
from manyheads.web.site import read_bundle
from tests.web.browsing import Visit
from tests.web.figure_tables import check_tables
from tests.web.models_site import (
    COLLECT_ASKED,
    ModelsSite,
    answer,
    tokenizer_of,
    write_models_site,
)
from tests.web.serving import serving

MODELS = ("mlp", "one-head", "four-heads")
ALLOWED = 1e-4
"""float32 of PyTorch against the page's float64; logits are of the order of ten."""
SWITCHES = (
    "uniform.1.own.off",
    *(pytest.param(heads, marks=pytest.mark.slow) for heads in ("", "off.own.own.own", "2.3.4.1")),
)


@pytest.fixture(scope="module")
def models(static_page: Path, tmp_path_factory: pytest.TempPathFactory) -> ModelsSite:
    """A site with the package's models, or made-up ones where none come with it."""
    return write_models_site(tmp_path_factory.mktemp("models"), static_page)


@pytest.fixture(scope="module")
def models_tab(browser: Browser, models: ModelsSite) -> Iterator[Visit]:
    """The tab in which that site is opened."""
    visit = Visit(browser, models.folder.as_uri() + "/index.html", offline=True)
    yield visit
    visit.context.close()


@pytest.fixture
def from_disk_with_models(models_tab: Visit) -> Iterator[Visit]:
    """That site opened from disk, with the network off."""
    models_tab.renew()
    yield models_tab
    models_tab.check()


def load_all(visit: Visit) -> None:
    visit.page.get_by_role("button", name="Load all models").click()
    visit.page.wait_for_function(
        "() => document.querySelectorAll('.card table.next, .card .next').length >= 3",
        timeout=120_000,
    )


def settle(visit: Visit, heads: str) -> None:
    """Wait until the figure of the heads shows these switches."""
    shown = ",".join(
        part if part in ("own", "off", "uniform") else str(int(part) - 1)
        for part in (heads or "own.own.own.own").split(".")
    )
    visit.page.wait_for_selector(f'.heads [data-heads="{shown}"]', timeout=60_000)
    visit.page.wait_for_timeout(100)


def check_numbers(visit: Visit, models: ModelsSite, at_least: int) -> None:
    """Every number of the view against PyTorch."""
    for details in visit.page.locator("main details").all():
        details.evaluate("(node) => { node.open = true; }")
    visit.page.wait_for_timeout(100)
    seen = {tuple(entry) for entry in visit.page.evaluate(COLLECT_ASKED)}
    checked = 0
    for quantity, value, ids, heads in seen:
        want = answer(models.shipped, quantity, ids, heads)
        if want is None:
            assert float(value) > 0, quantity
            continue
        assert float(value) == pytest.approx(want, rel=ALLOWED, abs=ALLOWED), (quantity, heads)
        checked += 1
    assert checked >= at_least


def place(**query: object) -> str:
    return "#models/" + urlencode(query)


def test_nothing_is_loaded_before_it_is_asked_for(from_disk_with_models: Visit) -> None:
    from_disk_with_models.open("#models")
    entries = "performance.getEntriesByType('resource').map(({ name }) => name)"
    assert not [n for n in from_disk_with_models.page.evaluate(entries) if "/models/" in n]


@pytest.mark.parametrize("heads", SWITCHES)
def test_every_number_of_a_switched_model_is_pytorchs(
    from_disk_with_models: Visit, models: ModelsSite, heads: str
) -> None:
    visit = from_disk_with_models
    query = {"preset": "rainbow", "look": "four-heads"} | ({"heads": heads} if heads else {})
    visit.open(place(**query))
    load_all(visit)
    settle(visit, heads)
    check_numbers(visit, models, at_least=200)
    assert check_tables(visit.page) > 4


def test_a_switch_turned_by_hand_changes_what_comes_next_at_once(
    from_disk_with_models: Visit, models: ModelsSite
) -> None:
    visit = from_disk_with_models
    visit.open(place(preset="car", look="four-heads"))
    load_all(visit)
    settle(visit, "")
    visit.page.locator('article[data-head="1"] select').select_option("off")
    settle(visit, "own.off.own.own")
    visit.page.wait_for_timeout(400)  # the address is written at most every 300 ms
    assert "heads=own.off.own.own" in visit.page.url
    check_numbers(visit, models, at_least=200)


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("Once upon a time", {"seed": 4, "temperature": 0.8, "top_k": 40}),
        pytest.param(
            *("The dog Zyzzyva", {"seed": 2**64 - 1, "temperature": 1.5, "top_k": 7}),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *("One day", {"seed": 0, "temperature": 0.0, "top_k": 40}), marks=pytest.mark.slow
        ),
    ],
)
def test_the_page_tells_the_terminals_story(
    from_disk_with_models: Visit, models: ModelsSite, text: str, settings: dict[str, float]
) -> None:
    visit = from_disk_with_models
    query = {"text": text, "t": settings["temperature"], "k": settings["top_k"]}
    visit.open(place(**query, seed=settings["seed"], length=25))
    load_all(visit)
    visit.page.get_by_role("button", name="Continue with all models").click()
    visit.page.wait_for_function(
        "() => document.querySelectorAll('.written[aria-busy=false]').length === 3",
        timeout=60_000,
    )
    told = [story.text_content() for story in visit.page.locator(".written").all()]
    wanted = [text + story_of(models, name, text, settings) for name in MODELS]
    assert sorted(told) == sorted(wanted)


def story_of(models: ModelsSite, name: str, text: str, settings: dict[str, float]) -> str:
    """What `manyheads generate` writes."""
    from manyheads.checkpoints.shipped import load_shipped

    model = load_shipped(name, models.shipped).model
    tokenizer = tokenizer_of(models.shipped, name)
    steps = generate(model, tokenizer, text, max_tokens=25, **settings)
    return "".join(step.piece for step in steps)


def test_served_models_run_in_a_worker_under_the_policy(
    browser: Browser, models: ModelsSite
) -> None:
    bundle = read_bundle(models.folder, models.shipped)
    with (
        serving(bundle) as port,
        Visit(browser, f"http://127.0.0.1:{port}/") as visit,
    ):
        visit.open(place(preset="rainbow"))
        load_all(visit)
        settle(visit, "")
        assert len(visit.page.workers) == 3
        check_numbers(visit, models, at_least=200)


def test_a_changed_file_is_refused(browser: Browser, models: ModelsSite) -> None:
    bundle = read_bundle(models.folder, models.shipped)
    damaged = bytearray(bundle["models/mlp.safetensors"])
    damaged[-5] ^= 1
    bundle["models/mlp.safetensors"] = bytes(damaged)
    with (
        serving(bundle) as port,
        Visit(browser, f"http://127.0.0.1:{port}/") as visit,
    ):
        visit.open("#models")
        visit.page.get_by_role("button", name="Load all models").click()
        trouble = visit.page.locator(".card .trouble")
        trouble.wait_for(timeout=60_000)
        assert "was changed or damaged, and is not used" in trouble.inner_text()


def test_models_keep_to_their_size(models: ModelsSite) -> None:
    files = model_files(models.shipped)
    for name in ("one-head", "four-heads"):
        assert len(files[f"models/{name}.safetensors"]) < 3_000_000
    assert len(files["models/mlp.safetensors"]) < 5_000_000


def test_loaded_models_stay_while_another_view_is_shown(from_disk_with_models: Visit) -> None:
    visit = from_disk_with_models
    visit.open(place(preset="car"))
    load_all(visit)
    visit.go("#study")
    visit.page.wait_for_selector("main[data-view=study]")
    visit.go(place(preset="car"))
    visit.page.wait_for_selector(".card .next", timeout=10_000)
    assert visit.page.locator(".card .next").count() >= 3
