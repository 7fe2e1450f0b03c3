import { mount } from "svelte";
import App from "./app/App.svelte";
import "./app/app.css";
import "./app/shell.css";
import "./figures/figures.css";
import "./figures/tables.css";
import "./story/story.css";
import "./worksheet/worksheet.css";
import "./worksheet/explanation.css";
import "./models/models.css";
import "./learn/learn.css";
import "./learn/exercises/exercises.css";
import "./teach/teach.css";
import "./app/narrow.css";

const target = document.getElementById("page");
if (!target) throw new Error("index.html has no element with the id page");
mount(App, { target });
