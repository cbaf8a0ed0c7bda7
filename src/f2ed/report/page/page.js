"use strict";
// Draws what Python has computed: each plot is a figure with its own table; nothing is fetched but from `f2ed watch`.
(() => {
  const records = JSON.parse(document.getElementById("records").textContent);
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);
  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const off = { estimators: new Set(), attacks: new Set() };
  const EVERY = "\u0000every";
  const state = { setting: EVERY, run: "", measure: "accuracy", smooth: 1, log: false, find: "" };
  const distinct = (values) => [...new Set(values)];
  const arms = () => Object.values(records.arms).sort((a, b) => a.order - b.order);
  const percent = (value) => {
    if (value == null) return "–";
    if (value > 0 && value < 0.0005) return "less than 0.1 %";
    return `${(100 * value).toFixed(value && Math.abs(value) < 0.1 ? 1 : 0)}%`;
  };
  const slug = (text) => text.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "") || "plot";

  function make(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  }

  // --- tables -------------------------------------------------------------------------------------------------

  const cell = (value) => (value == null ? "" : typeof value === "number" ? String(+value.toPrecision(5)) : String(value));

  function tableOf({ caption, columns, rows }) {
    const numeric = columns.map((_, i) => rows.length > 0 && rows.every((row) => row[i] == null || typeof row[i] === "number"));
    const head = make("tr", {}, ...columns.map((name, i) => make("th", numeric[i] ? { scope: "col", class: "n" } : { scope: "col" }, name)));
    const body = rows.map((row) => make("tr", {}, ...row.map((value, i) => {
      const attributes = numeric[i] ? { class: "n" } : {};
      return i ? make("td", attributes, cell(value)) : make("th", { scope: "row", ...attributes }, cell(value));
    })));
    return make("table", {}, make("caption", {}, caption), make("thead", {}, head), make("tbody", {}, ...body));
  }

  // A cell that begins like a formula is quoted, so that a spreadsheet shows it and does not run it.
  const quoted = (text) => {
    const safe = /^[=+@\t\r]|^-(?![\d.])/.test(text) ? `'${text}` : text;
    return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };

  function download(name, table) {
    const text = [...table.rows].map((row) => [...row.cells].map((each) => quoted(each.textContent)).join(",")).join("\r\n");
    const link = make("a", { download: `${name}.csv`, href: URL.createObjectURL(new Blob([`${text}\r\n`], { type: "text/csv" })) });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button.csv");
    if (button) download(`f2ed-${button.dataset.name}`, button.previousElementSibling.querySelector("table"));
  });

  function fillDetails(details, table) {
    details.lastElementChild.replaceChildren(
      make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": table.caption }, tableOf(table)),
      make("button", { type: "button", class: "csv", "data-name": slug(table.caption) }, "Download CSV"));
  }

  // --- figures ------------------------------------------------------------------------------------------------

  const figures = new Map();
  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const figure = figures.get(entry.target.id);
      if (!figure) continue;
      figure.near = entry.isIntersecting;
      if (figure.near) draw(figure);
    }
  }, { rootMargin: "600px 0px" });

  function shell(id) {
    const figure = { id, near: false, dirty: true };
    figure.title = make("h4");
    figure.caption = make("p", { id: `${id}-caption` });
    figure.plot = make("div", { class: "plot", role: "img" });
    figure.details = make("details", { class: "table" }, make("summary", {}, "The numbers as a table"), make("div"));
    figure.details.addEventListener("toggle", () => figure.details.open && fillDetails(figure.details, figure.spec.table()));
    figure.node = make("figure", { id }, make("figcaption", {}, figure.title, figure.caption), figure.plot, figure.details);
    figures.set(id, figure);
    near.observe(figure.node);
    return figure;
  }

  // Show exactly these figures in a section, in this order; those that stay keep their zoom.
  function show(section, specs) {
    const place = document.querySelector(`#${section} .panels`);
    const nodes = specs.map((spec) => {
      const id = `${section}-${slug(spec.key)}`;
      const figure = figures.get(id) || shell(id);
      figure.spec = spec;
      figure.dirty = true;
      figure.title.textContent = spec.title;
      figure.caption.textContent = spec.caption || "";
      figure.plot.hidden = !spec.draw;
      figure.plot.setAttribute("aria-label", `${spec.title}. ${spec.caption || ""} The numbers follow as a table.`);
      if (figure.details.open) fillDetails(figure.details, spec.table());
      if (figure.near) draw(figure);
      return figure.node;
    });
    for (const old of [...place.children]) {
      if (nodes.includes(old)) continue;
      near.unobserve(old);
      Plotly.purge(figures.get(old.id).plot);
      figures.delete(old.id);
      old.remove();
    }
    nodes.forEach((node, i) => place.children[i] !== node && place.insertBefore(node, place.children[i] || null));
    document.getElementById(section).hidden = specs.length === 0;
    for (const link of document.querySelectorAll(`nav a[href="#${section}"]`)) link.hidden = specs.length === 0;
  }

  const narrow = () => innerWidth <= 640;
  const touch = matchMedia("(pointer: coarse)").matches;

  function draw(figure) {
    if (!figure.dirty || !figure.spec.draw) return;
    figure.dirty = false;
    const { data, layout } = figure.spec.draw();
    const axis = { gridcolor: css("--grid"), zerolinecolor: css("--grid"), linecolor: css("--line"), automargin: true };
    Plotly.react(figure.plot, data, {
      height: 260, margin: { l: 8, r: 12, t: 10, b: 8 }, showlegend: false, hovermode: "closest", dragmode: touch ? false : "zoom",
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", uirevision: figure.id,
      font: { color: css("--fg"), family: "system-ui, sans-serif", size: 12 }, hoverlabel: { namelength: -1 },
      ...layout, xaxis: { ...axis, ...layout.xaxis }, yaxis: { ...axis, ...layout.yaxis },
    }, { responsive: true, displaylogo: false, displayModeBar: !touch, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] });
  }

  // --- what is shown ------------------------------------------------------------------------------------------

  const chosen = (arm) => (state.setting === EVERY || arm.setting === state.setting)
    && !off.estimators.has(arm.estimator) && !off.attacks.has(arm.attack) && isFound(arm);
  // Every word of the search must occur somewhere in what the arm is called.
  const isFound = (arm) => state.find.toLowerCase().split(/\s+/).every((word) => `${arm.setting} ${arm.attack} ${arm.estimator}`.toLowerCase().includes(word));
  const shown = () => arms().filter(chosen);
  const done = (rounds) => rounds.map((round) => round + 1);
  const clear = (color, alpha) => `rgba(${[1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16)).join(",")},${alpha})`;
  const roundAxis = { title: { text: "rounds completed", standoff: 6 }, rangemode: "tozero", nticks: 8 };
  const shareAxis = (text) => ({ title: { text, standoff: 6 }, range: [-0.02, 1.02], tickformat: ".0%" });

  const short = (value) => (value == null ? "–" : String(+value.toPrecision(3)));
  const measures = {
    accuracy: { name: "Accuracy", axis: "accuracy", text: percent, share: true, last: "Accuracy at the end" },
    success: { name: "Attack success", axis: "attack success", text: percent, share: true, last: "Success at the end" },
    loss: { name: "Loss", axis: "loss", text: short, share: false, last: "Loss at the end" },
  };

  // On a logarithmic axis accuracy becomes the error rate, where 99 and 99.9 % are as far apart as 90 and 99 %.
  const asError = (measure) => state.log && measure === "accuracy";
  const logged = (measure, value) => (value == null ? null : asError(measure) ? Math.max(1 - value, 1e-5) : state.log ? Math.max(value, 1e-5) : value);

  function valueAxis(measure) {
    const { axis, share } = measures[measure];
    if (state.log) return { title: { text: asError(measure) ? "error rate" : axis, standoff: 6 }, type: "log", ...(share ? { tickformat: ".2~%" } : {}) };
    return share ? shareAxis(axis) : { title: { text: axis, standoff: 6 }, rangemode: "tozero" };
  }

  function curves(measure, section) {
    const found = shown().filter((arm) => arm[measure]);
    const panels = new Map();
    for (const arm of found) {
      const key = `${arm.setting}|${arm.attack}`;
      panels.set(key, [...(panels.get(key) || []), arm]);
    }
    show(section, [...panels].map(([key, members]) => ({
      key,
      title: [members[0].setting, members[0].attack].filter(Boolean).join(" · "),
      caption: `${measures[measure].last}: ${ends(members, measure)}.`,
      draw: () => ({ data: members.flatMap((arm) => lines(arm, measure)), layout: { xaxis: roundAxis, yaxis: valueAxis(measure) } }),
      table: () => curveTable(members, measure),
    })));
  }

  // The mean of the last rounds, as far as they have a number; the tables keep the numbers themselves.
  function smoothed(values) {
    if (state.smooth < 2) return values;
    return values.map((value, i) => {
      const last = values.slice(Math.max(0, i + 1 - state.smooth), i + 1).filter((each) => each != null);
      return value == null ? null : last.reduce((sum, each) => sum + each, 0) / last.length;
    });
  }

  function ends(members, measure) {
    const better = measure === "loss" ? -1 : 1;
    const sorted = [...members].sort((a, b) => better * ((b.end[measure] ?? -1) - (a.end[measure] ?? -1)));
    const some = sorted.length > 6 ? [...sorted.slice(0, 3), null, ...sorted.slice(-2)] : sorted;
    return some.map((arm) => (arm ? `${arm.estimator} ${measures[measure].text(arm.end[measure])}` : "…")).join(", ");
  }

  function lines(arm, measure) {
    const curve = arm[measure];
    const values = (name) => smoothed(curve[name]).map((value) => logged(measure, value));
    const shape = !measures[measure].share ? "%{y:.3~g}" : asError(measure) ? "%{y:.2%} wrong" : "%{y:.1%}";
    const x = done(curve.rounds);
    const color = arm.color;
    const mean = {
      x, y: values("mean"), name: arm.estimator, mode: x.length <= 40 ? "lines+markers" : "lines", marker: { size: 4 },
      line: { color: color, dash: arm.dash, width: 2 }, hovertemplate: `%{fullData.name}: ${shape} after %{x} rounds<extra></extra>`,
    };
    if (arm.runs.length < 2) return [mean];
    const edge = { x, mode: "lines", line: { width: 0 }, hoverinfo: "skip", name: `${arm.estimator} spread` };
    return [{ ...edge, y: values("low") }, { ...edge, y: values("high"), fill: "tonexty", fillcolor: clear(color, 0.15) }, mean];
  }

  function curveTable(members, measure) {
    const rounds = distinct(members.flatMap((arm) => arm[measure].rounds)).sort((a, b) => a - b);
    const columns = members.flatMap((arm) => (arm.runs.length < 2 ? [arm.estimator] : [arm.estimator, "lowest seed", "highest seed"]));
    const at = members.map((arm) => new Map(arm[measure].rounds.map((round, i) => [round, i])));
    const rows = rounds.map((round) => [round + 1, ...members.flatMap((arm, k) => {
      const { mean, low, high } = arm[measure];
      const i = at[k].get(round);
      return arm.runs.length < 2 ? [mean[i]] : [mean[i], low[i], high[i]];
    })]);
    return { caption: [measures[measure].name, members[0].setting, members[0].attack].filter(Boolean).join(", "), columns: ["rounds completed", ...columns], rows };
  }

  function matrix() {
    const measure = state.measure;
    const settings = distinct(shown().filter((arm) => arm.end[measure] != null || arm.attacked).map((arm) => arm.setting));
    show("matrix", settings.map((setting) => {
      const members = shown().filter((arm) => arm.setting === setting);
      const estimators = distinct(members.map((arm) => arm.estimator));
      const attacks = distinct(members.map((arm) => arm.attack));
      const of = new Map(members.map((arm) => [`${arm.attack}|${arm.estimator}`, arm]));
      const value = (attack, estimator) => of.get(`${attack}|${estimator}`)?.end[measure] ?? null;
      const worst = estimators.map((estimator) => {
        const known = members.filter((arm) => arm.attacked && arm.estimator === estimator && arm.end[measure] != null);
        const better = measure === "accuracy" ? (a, b) => a.end[measure] - b.end[measure] : (a, b) => b.end[measure] - a.end[measure];
        return known.sort(better)[0]?.attack;
      });
      const z = attacks.map((attack) => estimators.map((estimator) => value(attack, estimator)));
      const worstCases = estimators.map((name, i) => worst[i] && `${name}: ${percent(value(worst[i], name))} under ${worst[i]}`).filter(Boolean);
      const text = attacks.map((attack) => estimators.map((estimator, i) => {
        const found = value(attack, estimator);
        return found == null ? "" : `${percent(found)}${worst[i] === attack ? " ▼" : ""}`;
      }));
      // Most colors go where results lie: above 60 % accuracy, below 40 % success.
      const scale = [[0, "#7f2704"], [0.4, "#c8602b"], [0.6, "#e8a06d"], [0.75, "#f6e3d0"], [0.85, "#b9d6e8"], [0.92, "#5ea3cd"], [0.96, "#2171b5"], [1, "#08306b"]];
      const colors = measure === "accuracy" ? scale : scale.map(([at, color]) => [1 - at, color]).reverse();
      return {
        key: setting || "all",
        title: [setting, measure === "accuracy" ? "Final accuracy" : "Final attack success"].filter(Boolean).join(" · "),
        caption: worstCases.length ? `Worst cases: ${worstCases.join("; ")}.` : measure === "accuracy" ? "" : "No run here has a targeted attack.",
        draw: () => ({
          data: [{
            type: "heatmap", x: estimators, y: attacks, z, text, texttemplate: "%{text}", zmin: 0, zmax: 1, xgap: 2, ygap: 2,
            colorscale: colors, hovertemplate: "%{y}, %{x}: %{text}<extra></extra>",
            colorbar: { tickformat: ".0%", thickness: 12, outlinewidth: 0 }, showscale: !narrow(),
          }],
          layout: { height: 110 + 38 * Math.max(2, attacks.length), xaxis: { side: "top", showgrid: false, type: "category", tickangle: !narrow() ? 0 : -60 }, yaxis: { autorange: "reversed", showgrid: false, type: "category" } },
        }),
        table: () => ({ caption: [measure === "accuracy" ? "Final accuracy" : "Final attack success", setting].filter(Boolean).join(", "), columns: ["attack", ...estimators, "worst case of"],
          rows: attacks.map((attack, i) => [attack, ...z[i], estimators.filter((_, k) => worst[k] === attack).join(", ")]) }),
      };
    }));
  }

  function shards() {
    const run = records.runs[state.run];
    if (!run) return show("shards", []);
    const rounds = done(run.columns.round);
    const known = run.weights.some((weights) => weights);
    const numbers = Array.from({ length: run.rows }, (_, i) => i);
    const held = run.contaminated.map((list) => new Set(list));
    const contaminated = numbers.map((shard) => held.some((set) => set.has(shard)));
    const noun = run.mode === "none" ? "client" : "shard";
    const name = (shard) => `${narrow() ? "" : `${noun} `}${shard}${contaminated[shard] ? " ✗" : ""}`;
    // 1 is an equal weight: relative to what each open row would have if all had the same.
    const relative = numbers.map((shard) => run.weights.map((weights, t) => {
      if (!weights || run.excluded[t][shard] !== undefined) return null;
      return +(weights[shard] * (run.rows - Object.keys(run.excluded[t]).length)).toFixed(3);
    }));
    const hover = numbers.map((shard) => rounds.map((round, t) => `${noun} ${shard}, round ${round}: ${run.excluded[t][shard] ?? (run.weights[t] ? `weight ${run.weights[t][shard]}` : "")}${held[t].has(shard) ? ", holds an attacker" : ""}`));
    const crosses = numbers.flatMap((shard) => rounds.map((round, t) => [round, name(shard), held[t].has(shard)])).filter(([, , bad]) => bad);
    const last = run.columns.contaminated_weight.at(-1);
    const share = held.length ? held.at(-1).size / Math.max(1, run.rows) : 0;
    const caption = !known ? "This estimator chooses per coordinate, so no row has a single weight to show."
      : held.at(-1)?.size ? `In the last round ${percent(share)} of the ${noun}s held an attacker; the weight on contaminated ${noun}s was ${percent(last)}.` : run.knows_attackers ? `No ${noun} held an attacker in the last round.` : rejected(run);
    show("shards", [{
      key: "view", title: run.title, caption,
      draw: known && (() => ({
        data: [
          { type: "heatmap", x: rounds, y: numbers.map(name), z: relative, customdata: hover, hovertemplate: "%{customdata}<extra></extra>", zmin: 0, zmax: 2,
            colorscale: [[0, "#D55E00"], [0.25, "#E9A26B"], [0.5, css("--even")], [1, "#0072B2"]], xgap: rounds.length > 80 ? 0 : 1, ygap: 1,
            colorbar: { tickvals: [0, 1, 2], ticktext: ["rejected", "equal", "double"], thickness: 12, outlinewidth: 0, ...(narrow() ? { orientation: "h", y: 1, yanchor: "bottom", thickness: 10 } : {}) } },
          ...(crosses.length && crosses.length <= 1500 ? [{ type: "scatter", mode: "markers", x: crosses.map((each) => each[0]), y: crosses.map((each) => each[1]), marker: { symbol: "x-thin", size: 7, line: { width: 1.4, color: css("--fg") } }, hoverinfo: "skip" }] : []),
        ],
        layout: { height: Math.max(240, 70 + run.rows * Math.max(8, Math.min(18, 520 / run.rows))), xaxis: { ...roundAxis, rangemode: "normal", range: [rounds[0] - run.every / 2, rounds.at(-1) + run.every / 2], showgrid: false, zeroline: false }, yaxis: { type: "category", range: [run.rows - 0.5, -0.5], showgrid: false, tickfont: { size: run.rows > 40 ? 8 : 10 } } },
      })),
      table: () => ({ caption: `Weights, ${run.title}`, columns: ["rounds completed", `${noun}s with an attacker`, "weight on those", "did not take part", ...numbers.map((shard) => `${noun} ${shard}`)],
        rows: rounds.map((round, t) => [round, [...held[t]].join(" "), run.columns.contaminated_weight[t], Object.entries(run.excluded[t]).map(([shard, why]) => `${shard}: ${why}`).join("; "), ...numbers.map((shard) => run.weights[t]?.[shard] ?? null)]) }),
    }]);
  }

  function rejected(run) {
    const none = run.weights.at(-1)?.map((weight, shard) => (weight === 0 && run.excluded.at(-1)[shard] === undefined ? shard : null)).filter((shard) => shard != null) ?? [];
    return none.length ? `Rejected in the last round: ${none.join(", ")}. A deployment cannot know who attacks.` : "No shard was rejected in the last round. A deployment cannot know who attacks.";
  }

  // Who took part, round by round; worth a look in deployments, and where clients dropped out or rounds were skipped.
  function participation() {
    const run = records.runs[state.run];
    const eventful = run && (run.source === "deployment" || run.dropped.some(Boolean) || run.skipped.some(Boolean));
    if (!eventful) return show("participation", []);
    const rounds = done(run.columns.round);
    const skipped = run.skipped.map((why, t) => (why ? t : null)).filter((t) => t != null);
    const opened = run.excluded.map((closed) => run.rows - Object.keys(closed).length);
    const line = (name, y, k) => ({ x: rounds, y, name, mode: "lines+markers", marker: { symbol: SYMBOLS[k], size: 5, color: MARKS[k] }, line: { color: MARKS[k] }, hovertemplate: "%{y} in round %{x}<extra>%{fullData.name}</extra>" });
    show("participation", [{
      key: "view", title: run.title,
      caption: skipped.length ? `${skipped.length} of ${rounds.length} rounds were skipped; the last because: ${run.skipped[skipped.at(-1)]}.` : "No round was skipped.",
      draw: () => ({
        data: [line("shards opened", opened, 0), line("smallest crowd", run.columns.crowd, 2), line("clients dropped", run.dropped, 1),
          { x: skipped.map((t) => rounds[t]), y: skipped.map(() => 0), name: "skipped", mode: "markers", marker: { symbol: "x", size: 10, color: "#D55E00" }, customdata: skipped.map((t) => run.skipped[t]), hovertemplate: "round %{x} skipped: %{customdata}<extra></extra>" }],
        layout: { height: 300, showlegend: true, legend: { orientation: "h", y: -0.3 }, xaxis: roundAxis, yaxis: { rangemode: "tozero" } },
      }),
      table: () => ({ caption: `Participation, ${run.title}`, columns: ["rounds completed", "shards opened", "smallest crowd", "clients dropped", "skipped because", "closed shards"],
        rows: rounds.map((round, t) => [round, opened[t], run.columns.crowd[t], run.dropped[t], run.skipped[t] ?? "", Object.entries(run.excluded[t]).map(([shard, why]) => `${shard}: ${why}`).join("; ")]) }),
    }]);
  }

  const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "cross", "star"];
  const MARKS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#808080"];

  function lambda() {
    const run = records.runs[state.run];
    if (!run) return show("filter", []);
    const { round, eigenvalue, iterations, stopped, step } = run.columns;
    const rounds = done(round);
    const known = eigenvalue.some((value) => value != null);
    const reasons = distinct(stopped.map((text) => text || "not recorded"));
    const positive = eigenvalue.filter((value) => value > 0);
    const wide = positive.length && Math.max(...positive) > 100 * Math.min(...positive);
    const counts = reasons.map((reason) => `${reason} (${stopped.filter((text) => (text || "not recorded") === reason).length} rounds)`);
    show("filter", [{
      key: "view", title: run.title,
      caption: known ? `Why it stopped: ${counts.join("; ")}.` : "This estimator has no λ.",
      draw: known && (() => ({
        data: [{ x: rounds, y: eigenvalue, mode: "lines", line: { color: css("--quiet"), width: 1 }, hoverinfo: "skip", showlegend: false },
          ...reasons.map((reason, k) => {
            const at = rounds.map((_, t) => t).filter((t) => (stopped[t] || "not recorded") === reason);
            return { x: at.map((t) => rounds[t]), y: at.map((t) => eigenvalue[t]), customdata: at.map((t) => iterations[t]), name: reason, mode: "markers",
              marker: { symbol: SYMBOLS[k % 6], color: MARKS[k % 6], size: rounds.length > 100 ? 4 : 7 }, hovertemplate: "round %{x}: λ %{y:.3g}, %{customdata} steps<extra>%{fullData.name}</extra>" };
          })],
        layout: { height: 300, showlegend: true, legend: { orientation: "h", y: -0.3 }, xaxis: roundAxis, yaxis: { title: { text: "λ", standoff: 6 }, type: wide ? "log" : "linear", rangemode: "tozero", exponentformat: "power" } },
      })),
      table: () => ({ caption: `Rounds, ${run.title}`, columns: ["rounds completed", "λ", "steps", "stopped because", "norm of the step", ...Object.keys(run.columns).filter((name) => !["round", "eigenvalue", "iterations", "stopped", "step"].includes(name))],
        rows: rounds.map((each, t) => [each, eigenvalue[t], iterations[t], stopped[t], step[t], ...Object.entries(run.columns).filter(([name]) => !["round", "eigenvalue", "iterations", "stopped", "step"].includes(name)).map(([, column]) => column[t])]) }),
    }]);
  }

  function cost() {
    const settings = distinct(shown().map((arm) => arm.setting));
    const label = (arm) => (settings.length > 1 ? `${arm.estimator}, ${arm.setting}` : arm.estimator);
    const names = distinct(shown().map(label));
    const mean = (name, read) => {
      const found = shown().filter((arm) => label(arm) === name).map(read);
      return found.reduce((sum, value) => sum + (value || 0), 0) / found.length;
    };
    const stages = Object.entries(records.stages).map(([stage, title]) => ({ title, seconds: names.map((name) => mean(name, (arm) => arm.seconds[stage])) })).filter(({ seconds }) => seconds.some((value) => value > 0));
    const [up, down] = ["bytes_up", "bytes_down"].map((way) => names.map((name) => Math.round(mean(name, (arm) => arm[way]))));
    // Long names need the whole width.
    document.querySelector("#cost .panels").classList.toggle("wide", settings.length > 1);
    const height = 160 + names.length * 26;
    const bars = { type: "bar", orientation: "h", y: names };
    const layout = { height, barmode: "stack", showlegend: true, margin: { l: 8, r: 12, t: settings.length > 1 && !narrow() ? 36 : 84, b: 8 }, legend: { orientation: "h", y: 1.02, yanchor: "bottom", traceorder: "normal" }, yaxis: { type: "category", autorange: "reversed" } };
    const size = (value) => (value >= 1e6 ? `${(value / 1e6).toFixed(1)} MB` : value >= 1e3 ? `${(value / 1e3).toFixed(0)} kB` : `${value} B`);
    const total = (i) => stages.reduce((sum, stage) => sum + stage.seconds[i], 0);
    show("cost", !names.length ? [] : [
      { key: "seconds", title: "Seconds per round, by stage", caption: stages.length ? `Total: ${names.slice(0, 6).map((name, i) => `${name} ${total(i).toPrecision(2)} s`).join(", ")}${names.length > 6 ? ", …" : ""}.` : "The records hold no times.",
        draw: stages.length && (() => ({ data: stages.map(({ title, seconds }, k) => ({ ...bars, x: seconds, name: title, marker: { color: MARKS[k] }, hovertemplate: "%{fullData.name}: %{x:.3g} s<extra>%{y}</extra>" })), layout: { ...layout, xaxis: { title: { text: "seconds" } } } })),
        table: () => ({ caption: "Seconds per round, by stage", columns: ["estimator", ...stages.map(({ title }) => title), "total"], rows: names.map((name, i) => [name, ...stages.map(({ seconds }) => seconds[i]), total(i)]) }) },
      { key: "bytes", title: "Bytes per client and round", caption: up.some(Boolean) ? `Sent by a client: ${distinct(up.map(size)).join(", ")}; received: ${distinct(down.map(size)).join(", ")}.` : "Nothing was sent through the protocol.",
        draw: up.some(Boolean) && (() => ({ data: [[up, "sent by the client"], [down, "sent to the client"]].map(([x, name], k) => ({ ...bars, x, name, marker: { color: MARKS[k] }, hovertemplate: "%{fullData.name}: %{x:.3s}B<extra>%{y}</extra>" })), layout: { ...layout, xaxis: { title: { text: "bytes" }, ticksuffix: "B" } } })),
        table: () => ({ caption: "Bytes per client and round", columns: ["estimator", "sent by the client", "sent to the client"], rows: names.map((name, i) => [name, up[i], down[i]]) }) },
    ]);
  }

  // The leak meter depends on the assignment to shards, not on what was learned: one line per schedule, of its first run.
  function meter() {
    const read = shown().flatMap((arm) => arm.runs).map((file) => records.runs[file]).filter((run) => run.columns.rank.some((value) => value != null));
    const several = distinct(read.map((run) => `${run.clients}/${run.rows}`)).length > 1;
    const way = (run) => `${run.schedule}${several ? `, ${run.clients} clients in ${run.rows} shards` : ""}${+run.settings.client_dropout ? `, ${100 * run.settings.client_dropout}% dropout, ${run.mode}` : ""}`;
    const lines = [...Map.groupBy(read, way)].map(([label, [run]]) => [label, run]);
    const panel = (name, title) => ({
      key: name, title,
      caption: `${lines.slice(0, 4).map(([label, run]) => `${label}: ${run.columns[name].at(-1)} of ${run.clients}`).join("; ")}${lines.length > 4 ? "; …" : ""}.`,
      draw: () => ({
        data: lines.map(([label, run], k) => ({ x: done(run.columns.round), y: run.columns[name], name: label, mode: "lines+markers", marker: { symbol: SYMBOLS[k % 6], size: 5, color: MARKS[k % 7] }, line: { color: MARKS[k % 7] }, hovertemplate: "%{y} after %{x} rounds<extra>%{fullData.name}</extra>" })),
        layout: { height: 240 + 19 * lines.length, showlegend: lines.length > 1, legend: { orientation: "h", yref: "container", y: 0, yanchor: "bottom" }, xaxis: roundAxis, yaxis: { rangemode: "tozero" } },
      }),
      table: () => ({ caption: title, columns: ["setting", "rounds completed", title], rows: lines.flatMap(([label, run]) => run.columns.round.map((round, t) => [label, round + 1, run.columns[name][t]])) }),
    });
    show("meter", !lines.length ? [] : [
      panel("exposed", "Clients determined by the sums"),
      panel("rank", "Independent equations"),
    ]);
  }

  function recovered() {
    const audited = Object.values(records.runs).filter((run) => run.audits.length);
    const found = audited.flatMap((run) => run.audits.map((each) => ({ ...each, run: run.title })));
    const usable = found.filter((each) => typeof each.found === "number" && typeof each.shard === "number" && each.metric);
    const panels = Map.groupBy(usable, (each) => `${each.attack}: ${each.metric}`);
    show("recovered", [...panels].map(([title, rows]) => {
      // What differs goes along the axis: the size of the shards, or else the rounds that the server had.
      const along = distinct(rows.map((each) => each.shard)).length > 1 || distinct(rows.map((each) => each.rounds)).length < 2 ? "shard" : "rounds";
      const name = (each) => [each.setting, audited.length > 1 ? each.run : "", along === "shard" && each.rounds > 1 ? `${each.rounds} rounds` : ""].filter(Boolean).join(", ") || "found";
      const lines = [...Map.groupBy(rows, name)].map(([label, some]) => [label, [...some].sort((a, b) => a[along] - b[along])]);
      const guessed = [...new Map(rows.filter((each) => each.guess != null).map((each) => [each[along], each.guess]))].sort((a, b) => a[0] - b[0]);
      return {
        key: title, title,
        caption: lines.length > 2 ? "" : `${lines.map(([label, some]) => `${label}: ${some.map((each) => `${+each.found.toPrecision(2)} at ${each[along]}`).join(", ")}`).join("; ")}.`,
        draw: () => ({
          data: [...lines.map(([label, some], k) => ({
            x: some.map((each) => String(each[along])), y: some.map((each) => each.found), name: label, mode: "lines+markers", marker: { symbol: SYMBOLS[k % 6], size: 7, color: MARKS[k % 7] }, line: { color: MARKS[k % 7] },
            error_y: { type: "data", symmetric: false, array: some.map((each) => (each.high ?? each.found) - each.found), arrayminus: some.map((each) => each.found - (each.low ?? each.found)), thickness: 1 },
            hovertemplate: "%{y:.3g} at %{x}<extra>%{fullData.name}</extra>",
          })), ...(guessed.length ? [{ x: guessed.map((each) => String(each[0])), y: guessed.map((each) => each[1]), name: "guessing", mode: "lines+markers", marker: { size: 4, color: css("--quiet") }, line: { color: css("--quiet"), dash: "dot" } }] : [])],
          layout: { height: 250 + 19 * (lines.length + 1), showlegend: true, legend: { orientation: "h", yref: "container", y: 0, yanchor: "bottom" }, xaxis: { type: "category", title: { text: along === "shard" ? "clients in the shard" : "rounds", standoff: 6 } }, yaxis: { rangemode: "tozero" } },
        }),
        table: () => ({ caption: title, columns: ["setting", "run", "clients in the shard", "rounds", "found", "low", "high", "guessing", "without shards"],
          rows: rows.map((each) => [each.setting, each.run, each.shard, each.rounds, each.found, each.low, each.high, each.guess, each.plain]) }),
      };
    }));
  }

  // --- controls -----------------------------------------------------------------------------------------------

  function options(select, pairs, value) {
    const now = JSON.stringify(pairs);
    if (select.dataset.options !== now) {
      select.dataset.options = now;
      select.replaceChildren(...pairs.map(([key, text]) => make("option", { value: key }, text)));
    }
    select.value = value;
  }

  function swatch(arm) {
    const dashes = { solid: "", dash: "6 3", dot: "2 2", dashdot: "6 2 2 2", longdash: "10 3" };
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("class", "swatch");
    svg.setAttribute("aria-hidden", "true");
    svg.setAttribute("viewBox", "0 0 26 11");
    svg.innerHTML = '<line x1="0" y1="5.5" x2="26" y2="5.5" stroke-width="3"/>';
    svg.firstChild.setAttribute("stroke", arm.color);
    svg.firstChild.setAttribute("stroke-dasharray", dashes[arm.dash]);
    return svg;
  }

  function choices(kind, read, decorate) {
    const names = distinct(arms().map(read));
    const box = document.querySelector(`#${kind} .choices`);
    byId(kind).hidden = names.length < 2 && kind === "attacks";
    if (box.dataset.names === JSON.stringify(names)) return;
    box.dataset.names = JSON.stringify(names);
    box.replaceChildren(...names.map((name) => {
      const input = make("input", { type: "checkbox", value: name });
      input.checked = !off[kind].has(name);
      input.addEventListener("change", () => {
        off[kind][input.checked ? "delete" : "add"](name);
        paint();
      });
      return make("label", {}, input, ...decorate(arms().find((arm) => read(arm) === name)), name);
    }));
  }

  function controls() {
    const settings = distinct(arms().map((arm) => arm.setting));
    if (state.setting !== EVERY && !settings.includes(state.setting)) state.setting = EVERY;
    byId("setting-label").hidden = settings.length < 2;
    options(byId("setting"), [[EVERY, "all"], ...settings.map((name) => [name, name || "default"])], state.setting);
    choices("estimators", (arm) => arm.estimator, (arm) => [swatch(arm)]);
    choices("attacks", (arm) => arm.attack, () => []);
    const visible = shown().flatMap((arm) => arm.runs);
    // Preselect what is most worth a look: a run with weights and an eigenvalue, under an attack.
    if (!visible.includes(state.run)) state.run = [...visible].sort((a, b) => interest(b) - interest(a))[0] || "";
    options(byId("run"), visible.map((file) => [file, records.runs[file].title]), state.run);
    byId("one").hidden = !visible.length;
    for (const id of ["shards", "filter", "participation"]) for (const link of document.querySelectorAll(`nav a[href="#${id}"]`)) link.hidden = !visible.length;
    const targeted = arms().some((arm) => arm.success);
    byId("measure").parentElement.hidden = !targeted;
    const most = Math.max(0, ...shown().map((arm) => arm.runs.length));
    for (const node of document.querySelectorAll(".spread")) node.textContent = most > 1 ? `Lines are means over up to ${most} seeds; the band spans the lowest and the highest seed.` : "One seed each, so there is no spread to show.";
  }

  function interest(file) {
    const run = records.runs[file];
    const arm = records.arms[run.arm];
    return 4 * run.columns.eigenvalue.some((value) => value != null) + 2 * arm.attacked + run.weights.some((weights) => weights);
  }

  function settings() {
    const run = records.runs[state.run];
    const details = byId("settings");
    details.hidden = !run;
    if (!run || !details.open) return;
    const rows = [["file", state.run], ["guarantee", run.guarantee_text], ...run.notes.map((note) => ["note", note]), ["coordinates", run.dimension], ...(run.malicious.length ? [["malicious clients", run.malicious.join(" ")]] : []), ...(run.forecast ? [["leak forecast", run.forecast]] : []), ...Object.entries(run.settings)];
    fillDetails(details, { caption: `Settings, ${run.title}`, columns: ["setting", "value"], rows });
  }

  function upClose() {
    shards();
    lambda();
    participation();
    settings();
  }

  function paint() {
    controls();
    curves("accuracy", "accuracy");
    curves("success", "success");
    curves("loss", "loss");
    matrix();
    upClose();
    cost();
    meter();
    recovered();
  }

  byId("setting").addEventListener("change", (event) => { state.setting = event.target.value; paint(); });
  byId("run").addEventListener("change", (event) => { state.run = event.target.value; upClose(); });
  byId("measure").addEventListener("change", (event) => { state.measure = event.target.value; matrix(); });
  byId("smooth").addEventListener("change", (event) => { state.smooth = +event.target.value; paint(); });
  byId("log").addEventListener("change", (event) => { state.log = event.target.checked; paint(); });
  byId("find").addEventListener("input", (event) => { state.find = event.target.value.trim(); paint(); });
  byId("settings").addEventListener("toggle", settings);
  byId("filters").addEventListener("submit", (event) => event.preventDefault());

  // --- light and dark -----------------------------------------------------------------------------------------

  const dark = matchMedia("(prefers-color-scheme: dark)");
  let wanted = null;
  try { wanted = localStorage.getItem("f2ed-theme"); } catch { /* a page from disk may have no storage */ }

  function theme() {
    const now = wanted || (dark.matches ? "dark" : "light");
    root.dataset.theme = now;
    root.style.colorScheme = now;
    byId("theme").textContent = now === "dark" ? "Light" : "Dark";
    byId("theme").setAttribute("aria-label", `Switch to ${now === "dark" ? "light" : "dark"} colors`);
    byId("theme").removeAttribute("aria-pressed");
    for (const figure of figures.values()) {
      figure.dirty = true;
      if (figure.near) draw(figure);
    }
  }
  byId("theme").addEventListener("click", () => {
    wanted = root.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem("f2ed-theme", wanted); } catch { /* then it lasts as long as the page */ }
    theme();
  });
  dark.addEventListener("change", theme);
  addEventListener("beforeprint", () => figures.forEach(draw));

  theme();
  paint();
  // In milliseconds since the page began to open.
  root.dataset.ready = performance.now().toFixed();

  // --- live ---------------------------------------------------------------------------------------------------

  const live = document.body.dataset.live;
  if (!live) return;
  const status = byId("live");
  let waiting = null;

  function announce(text, kind) {
    if (status.textContent !== text) status.textContent = text;
    status.className = kind;
  }

  function merge({ arms: changedArms, runs: changedRuns, gone, html, reset }) {
    if (reset) [records.arms, records.runs] = [{}, {}];
    Object.assign(records.arms, changedArms);
    Object.assign(records.runs, changedRuns);
    for (const key of gone.arms) delete records.arms[key];
    for (const file of gone.runs) delete records.runs[file];
    for (const [name, text] of Object.entries(html)) {
      const place = document.querySelector(`[data-fragment="${name}"]`);
      const scrolled = [...place.querySelectorAll(".scroll")].map((node) => [node.scrollTop, node.scrollLeft]);
      place.innerHTML = text;
      place.querySelectorAll(".scroll").forEach((node, i) => { [node.scrollTop, node.scrollLeft] = scrolled[i] || [0, 0]; });
    }
    byId("made").textContent = new Date().toLocaleTimeString();
  }

  // The page redraws when it is looked at, and at its own pace; what comes in the meantime is merged.
  function repaint() {
    waiting = null;
    if (!document.hidden) paint();
  }
  document.addEventListener("visibilitychange", () => !document.hidden && paint());

  const source = new EventSource(live);
  source.addEventListener("open", () => announce("live", "on"));
  source.addEventListener("error", () => announce("connection lost; reconnecting", "off"));
  source.addEventListener("change", (event) => {
    merge(JSON.parse(event.data));
    announce("live", "on");
    waiting ??= setTimeout(repaint, 100);
  });
})();
