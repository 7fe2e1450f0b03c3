"""ONNX Runtime on WebAssembly and on WebGPU: PyTorch's logits, or a clear line why not."""

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest
import torch
from playwright.sync_api import Browser, Playwright

from manyheads.checkpoints.shipped import load_shipped
from manyheads.web.site import read_bundle
from tests.factories import mostly_slow
from tests.web.browsing import BROWSER_FLAGS, Visit
from tests.web.models_site import ModelsSite, write_models_site
from tests.web.serving import serving

MODELS = ("mlp", "one-head", "four-heads")
ALLOWED = 1e-4
"""float32 of one engine against float32 of another; logits are of the order of ten."""
WEBGPU_FLAGS = ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"]
"""A graphics adapter in software, which needs no hardware."""
LISTEN = """() => {
  const heard = globalThis.heard = { providers: [], runs: [], submitted: 0 };
  const packed = (numbers) => {
    const bytes = new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength);
    return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  };
  let known;
  Object.defineProperty(globalThis, "ort", { configurable: true, get: () => known, set: (ort) => {
    known = ort;
    const create = ort.InferenceSession.create.bind(ort.InferenceSession);
    ort.InferenceSession.create = async (bytes, options) => {
      heard.providers.push(...options.executionProviders);
      const session = await create(bytes, options);
      const run = session.run.bind(session);
      session.run = async (feeds, names) => {
        const found = await run(feeds, names);
        const logits = Float32Array.from(await found.logits.getData());
        const mask = feeds.head_mask ? [...await feeds.head_mask.getData()] : [];
        const tokens = [...await feeds.tokens.getData()].map(Number);
        heard.runs.push({ tokens, mask, logits: packed(logits) });
        return found;
      };
      return session;
    };
  } });
  if (globalThis.GPUQueue) {
    const { submit } = GPUQueue.prototype;
    GPUQueue.prototype.submit = function (...work) {
      heard.submitted += 1;
      return submit.apply(this, work);
    };
  }
}"""
"""Writes down what the page gives ONNX Runtime and what comes back, all logits of every run."""
ADAPTER = """async () => {
  const late = new Promise((done) => setTimeout(done, 20000, null));
  return (await Promise.race([navigator.gpu?.requestAdapter() ?? null, late])) !== null;
}"""


@pytest.fixture(scope="module")
def onnx_site(
    root: Path, static_page: Path, tmp_path_factory: pytest.TempPathFactory
) -> ModelsSite:
    """A site that carries the models as ONNX, and ONNX Runtime."""
    pytest.importorskip("onnx", reason="onnx is not installed: pip install 'manyheads[export]'")
    runtime = root / "web" / "node_modules" / "onnxruntime-web"
    if not runtime.is_dir():
        pytest.skip(f"no {runtime}: run `npm ci` in web/")
    return write_models_site(tmp_path_factory.mktemp("onnx"), static_page, runtime)


@pytest.fixture(scope="module")
def gpu_browser(playwright: Playwright, chromium: str) -> Iterator[Browser]:
    """A browser with a graphics adapter in software."""
    flags = [*BROWSER_FLAGS, *WEBGPU_FLAGS]
    browser = playwright.chromium.launch(executable_path=chromium, args=flags)
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def onnx_address(onnx_site: ModelsSite) -> Iterator[str]:
    """Where that site is served."""
    with serving(read_bundle(onnx_site.folder, onnx_site.shipped)) as port:
        yield f"http://127.0.0.1:{port}/"


@contextmanager
def visit_with(browser: Browser, address: str, script: str) -> Iterator[Visit]:
    """A page in a tab that runs a script before any of the page."""
    with Visit(browser, address) as visit:
        visit.context.add_init_script(f"({script})()")
        yield visit


def has_adapter(visit: Visit) -> bool:
    """Whether this browser names an adapter when it is asked directly."""
    visit.page.goto(visit.address)
    return bool(visit.page.evaluate(ADAPTER))


@torch.no_grad()
def gap(site: ModelsSite, name: str, run: dict[str, Any]) -> float:
    """The largest difference of any logit of a run from PyTorch's."""
    model = load_shipped(name, site.shipped).model
    tokens = torch.tensor([run["tokens"]])
    mask = [torch.tensor(run["mask"], dtype=torch.float32)] if run["mask"] else []
    wanted = model(tokens, *mask)[0].numpy()
    found = np.frombuffer(base64.b64decode(run["logits"]), dtype=np.float32)
    assert found.shape == wanted.shape == (model.config.vocab_size,)
    return float(np.abs(found - wanted).max())


@pytest.mark.parametrize(
    ("backend", "models"),
    [
        ("onnx-wasm", MODELS),
        pytest.param("onnx-webgpu", MODELS, marks=pytest.mark.slow),
    ],
)
def test_every_logit_of_a_back_end_is_pytorchs(
    gpu_browser: Browser,
    onnx_site: ModelsSite,
    onnx_address: str,
    backend: str,
    models: tuple[str, ...],
) -> None:
    with visit_with(gpu_browser, onnx_address, LISTEN) as visit:
        if backend == "onnx-webgpu" and not has_adapter(visit):
            pytest.skip(f"Chromium names no adapter with {' '.join(WEBGPU_FLAGS)}: install another")
        visit.open("#models/" + urlencode({"preset": "rainbow", "engine": backend, "length": 6}))
        for name in models:
            listen = visit.page.evaluate("() => { heard.runs = []; return heard.submitted; }")
            own = visit.page.locator(f"[data-quantity='{name}:parameters']")
            card = visit.page.locator(".card", has=own)
            card.get_by_role("button", name="Load").click()
            card.get_by_role("button", name="Continue").click(timeout=60_000)
            card.locator(".written[aria-busy=false]").wait_for(timeout=60_000)
            heard = visit.page.evaluate("heard")
            assert set(heard["providers"]) == {backend.removeprefix("onnx-")}
            assert (heard["submitted"] > listen) == (backend == "onnx-webgpu")
            assert len(heard["runs"]) >= 6
            gaps = [gap(onnx_site, name, run) for run in heard["runs"]]
            assert max(gaps) <= ALLOWED, (name, gaps)


def test_a_logit_that_is_off_is_found(onnx_site: ModelsSite) -> None:
    model = load_shipped("mlp", onnx_site.shipped).model
    tokens = [0] * 62 + [1, 40]
    with torch.no_grad():
        logits = model(torch.tensor([tokens]))[0].numpy().copy()
    run = {"tokens": tokens, "mask": []}
    assert gap(onnx_site, "mlp", run | {"logits": base64.b64encode(logits).decode()}) == 0
    logits[3999] += 2e-4
    found = gap(onnx_site, "mlp", run | {"logits": base64.b64encode(logits).decode()})
    assert found > ALLOWED


# what a page finds when it asks for an adapter, and what it then says
ANSWERS = {
    "no WebGPU": ("delete Navigator.prototype.gpu", "This browser has no WebGPU."),
    "no adapter": (
        "GPU.prototype.requestAdapter = async () => null",
        "no graphics adapter for it.",
    ),
    "hanging": (
        "GPU.prototype.requestAdapter = () => new Promise(() => {})",
        "did not find a graphics adapter within 3 seconds.",
    ),
    "throwing": (
        "GPU.prototype.requestAdapter = () => Promise.reject(new Error('no'))",
        "does not allow its graphics adapter.",
    ),
}


@pytest.mark.parametrize("answer", mostly_slow(ANSWERS, "no adapter"))
def test_without_an_adapter_the_page_says_so_and_goes_on(
    gpu_browser: Browser, onnx_address: str, answer: str
) -> None:
    code, line = ANSWERS[answer]
    script = f"() => {{ if (navigator.gpu) {code}; }}"
    with visit_with(gpu_browser, onnx_address, script) as visit:
        visit.open("#models/engine=onnx-webgpu")
        visit.page.locator(".backends label.unavailable").get_by_text(line).wait_for(timeout=10_000)
        visit.page.get_by_role("button", name="Load all models").click()
        trouble = visit.page.locator(".card .trouble").first
        trouble.wait_for(timeout=10_000)
        assert line in trouble.inner_text()
        visit.page.locator("input[name=backend][value=own]").check()
        visit.page.get_by_role("button", name="Load all models").click()
        visit.page.locator(".card .next").first.wait_for(timeout=60_000)


@pytest.mark.slow
def test_all_back_ends_agree_and_are_timed(gpu_browser: Browser, onnx_address: str) -> None:
    with Visit(gpu_browser, onnx_address) as visit:
        visit.open("#models")
        visit.page.get_by_role("button", name="on this device").click(timeout=30_000)
        visit.page.get_by_text("Fastest here").wait_for(timeout=400_000)
        gaps = visit.page.locator('[data-quantity^="four-heads:largest_gap"]').all()
        values = [float(gap.get_attribute("data-value") or "nan") for gap in gaps]
        unavailable = visit.page.locator(".backends label.unavailable").all_inner_texts()
    assert len(values) + len(unavailable) >= 2
    assert values
    assert all(value <= ALLOWED for value in values)
