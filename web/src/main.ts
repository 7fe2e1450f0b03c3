import { mount } from "svelte";
import App from "./App.svelte";
import "./app.css";
import "./shell.css";
import "./figures.css";
import "./tables.css";
import "./story.css";
import "./worksheet.css";
import "./explanation.css";
import "./models.css";
import "./learn.css";
import "./exercises.css";
import "./teach.css";
import "./narrow.css";

const target = document.getElementById("page");
if (!target) throw new Error("index.html has no element with the id page");
mount(App, { target });
