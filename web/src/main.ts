import { mount } from "svelte";
import "./app/app.css";
import "./app/shell.css";
import "./figures/figures.css";
import "./figures/tables.css";
import App from "./app/App.svelte";
import "./app/narrow.css";

const target = document.getElementById("page");
if (!target) throw new Error("index.html has no element with the id page");
mount(App, { target });
