"""The style sheet of report pages: the colours and type of the lesson, phone, screen and paper."""

from manyheads.report.drawing import DARK_SERIES, SERIES

_SERIES = "\n".join(
    f"  --series-{index}: light-dark({light}, {dark});"
    for index, (light, dark) in enumerate(zip(SERIES, DARK_SERIES, strict=True), start=1)
)
STYLE = f"""
:root {{
  color-scheme: light dark;
  --ground: light-dark(#f6f5f1, #14161a);
  --surface: light-dark(#ffffff, #1c1f25);
  --line: light-dark(#dcd8cf, #353a43);
  --edge: light-dark(#85817a, #767d89);
  --ink: light-dark(#1b1d21, #e9e8e4);
  --muted: light-dark(#585c64, #a9aeb7);
  --shade: light-dark(rgb(40 34 20 / 22%), rgb(0 0 0 / 60%));
  --accent: light-dark(#234f9e, #8fb3f5);
{_SERIES}
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans",
    "Liberation Sans", Arial, sans-serif;
  color: var(--ink);
  background: var(--ground);
  -webkit-text-size-adjust: 100%;
}}
"""
STYLE += """
*, *::before, *::after { box-sizing: border-box; }
body { margin: 0; }
main { max-width: 62rem; margin: 0 auto; padding: 2.5rem 1.5rem 4rem; }
h1 { margin: 0; font-size: 2rem; line-height: 1.2; letter-spacing: -0.02em; }
h2 { margin: 0 0 0.75rem; font-size: 1.375rem; line-height: 1.25; letter-spacing: -0.01em; }
p, ul { margin: 0.75rem 0; max-width: 46rem; text-wrap: pretty; }
.lead { font-size: 1.125rem; color: var(--muted); }
.label { font-size: 0.8125rem; color: var(--muted); overflow-wrap: anywhere; }
nav ul { display: flex; flex-wrap: wrap; gap: 0.25rem 1.25rem; padding: 0; list-style: none; }
a { color: var(--accent); text-underline-offset: 0.15em; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
section {
  margin-top: 1.5rem; padding: 1.5rem 1.75rem; background: var(--surface);
  border: 1px solid var(--line); border-radius: 14px;
}
li { margin: 0.5rem 0; }
nav li { margin: 0; }
li::marker { color: var(--muted); }
.table { margin: 1.25rem 0; }
.scroll {
  overflow-x: auto;
  background:
    linear-gradient(to left, var(--surface) 40%, transparent) right / 2.5rem 100% no-repeat local,
    linear-gradient(to left, var(--shade), transparent) right / 0.875rem 100% no-repeat scroll;
}
.scroll :is(thead, tbody) th:first-child {
  position: sticky; left: 0; background: var(--surface);
}
.dense { columns: 22rem 2; column-gap: 2rem; }
.dense > .table { margin: 0; padding: 0.625rem 0; break-inside: avoid; }
.dense > .broad { column-span: all; }
section > :last-child { margin-bottom: 0; }
.caption { margin: 0 0 0.375rem; font-size: 0.8125rem; line-height: 1.45; color: var(--muted); }
table { border-collapse: collapse; font-size: 0.9375rem; line-height: 1.35; }
th, td { padding: 0.3125rem 0.75rem; text-align: left; vertical-align: top; }
th:first-child, td:first-child { padding-left: 0; }
thead th { font-size: 0.8125rem; font-weight: 400; color: var(--muted); white-space: nowrap; }
tbody th { font-weight: 500; white-space: nowrap; }
tbody tr:first-child > * { border-top: 1px solid var(--edge); }
tbody tr:not(:first-child) > * { border-top: 1px solid var(--line); }
.num { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.text { min-width: 8rem; overflow-wrap: anywhere; }
figure { margin: 1.5rem 0; }
figcaption { max-width: 46rem; font-size: 0.8125rem; line-height: 1.45; color: var(--muted); }
.panels {
  display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 19rem), 1fr));
}
.panels.wide { grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); }
svg { display: block; width: 100%; max-width: 32rem; height: auto; }
svg * { stroke-linejoin: round; stroke-linecap: butt; }
details { margin: 0.75rem 0; }
summary { cursor: pointer; font-size: 0.9375rem; color: var(--accent); }
footer { margin-top: 1.5rem; }
@media (max-width: 40rem) {
  main { padding: 1.25rem 0 3rem; }
  header, footer { padding: 0 1rem; }
  h1 { font-size: 1.625rem; }
  section { padding: 1.25rem 1rem; border-width: 1px 0; border-radius: 0; }
  th, td { padding-inline: 0.5rem; }
}
@media print {
  :root { color-scheme: light; font-size: 10pt; background: none; }
  main { max-width: none; padding: 0; }
  nav { display: none; }
  section { padding: 0; border: 0; }
  figure, tr { break-inside: avoid; }
  h2 { break-after: avoid; }
  .scroll { overflow: visible; }
}
"""
