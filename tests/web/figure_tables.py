"""Compare the numbers of every drawing with those of its table."""

from typing import Any

TABLES = """async () => {
  const settled = () => new Promise((done) => setTimeout(done, 20));
  const numbersOf = (nodes) => new Set([...nodes].map(
    (node) => `${node.dataset.quantity} = ${node.dataset.value}`));
  const inside = (node) => node.querySelectorAll("[data-quantity]");
  const inTables = (node) => node.querySelectorAll("table [data-quantity]");
  const missing = (numbers, table) => [...numbers].filter((number) => !table.has(number));
  const main = document.querySelector("main");
  const lacking = [];
  let checked = 0;
  const compare = (name, numbers, table) => {
    checked += 1;
    const gone = missing(numbers, table);
    if (gone.length > 0) lacking.push([name, gone.slice(0, 5)]);
  };
  for (const details of main.querySelectorAll("details")) details.open = true;
  await settled();
  for (const details of main.querySelectorAll("details")) details.open = true;
  await settled();
  for (const figure of main.querySelectorAll("figure")) {
    const button = figure.querySelector(".table-switch");
    const name = `figure ${figure.textContent.trim().slice(0, 40)}`;
    if (!button) { lacking.push([name, ["no button for a table"]]); continue; }
    const drawn = numbersOf(inside(figure.querySelector(".drawing-box")));
    button.click();
    await settled();
    const box = figure.querySelector(".drawing-box");
    const isTable = box.querySelectorAll("table tr").length > 1;
    if (!isTable) lacking.push([name, ["no table"]]);
    else compare(name, drawn, numbersOf(inTables(box)));
    button.click();
    await settled();
  }
  for (const drawing of main.querySelectorAll("svg")) {
    const numbers = numbersOf(inside(drawing));
    if (numbers.size === 0 || drawing.closest("table, figure")) continue;
    let around = drawing.parentElement;
    while (around !== main && !around.querySelector("table")) around = around.parentElement;
    const name = drawing.getAttribute("aria-label") ?? drawing.parentElement.textContent.trim();
    compare(name, numbers, numbersOf(inTables(around)));
  }
  return { lacking, checked };
}"""
"""Opens all that is folded, and compares each drawing with its table.

A figure has its table behind its button; any other drawing with numbers has it in the nearest part
of the page that holds a table. Names and values have to be the same.
"""


def check_tables(page: Any) -> int:
    """Check all drawings of what is shown; how many of them have numbers or a table."""
    found = page.evaluate(TABLES)
    assert found["lacking"] == [], f"{page.url} lacks {found['lacking']}"
    return int(found["checked"])
