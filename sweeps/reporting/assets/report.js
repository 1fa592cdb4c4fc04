"use strict";
(function () {
  var root = document.documentElement, tip = document.getElementById("tip");
  root.classList.add("scripted");

  // Marks: say what they are at once, show the same variant everywhere, lead to their trial.
  function told(mark) {
    var title = mark.querySelector("title");
    if (title) { mark.dataset.tip = title.textContent; title.remove(); }
    return mark.dataset.tip || "";
  }
  function light(variant, on) {
    if (!variant) return;
    document.querySelectorAll('[data-v="' + CSS.escape(variant) + '"]').forEach(function (one) {
      one.classList.toggle("on", on);
    });
  }
  function place(event) {
    var x = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
    var y = event.clientY + 18;
    if (y + tip.offsetHeight > innerHeight) y = event.clientY - tip.offsetHeight - 10;
    tip.style.left = Math.max(4, x) + "px";
    tip.style.top = y + "px";
  }
  document.addEventListener("pointerover", function (event) {
    var mark = event.target.closest && event.target.closest("svg .m");
    if (!mark) return;
    tip.textContent = told(mark);
    tip.hidden = false;
    place(event);
    light(mark.dataset.v, true);
    mark.addEventListener("pointermove", place);
    mark.addEventListener("pointerleave", function () {
      tip.hidden = true;
      light(mark.dataset.v, false);
      mark.removeEventListener("pointermove", place);
    }, { once: true });
  });
  document.addEventListener("click", function (event) {
    var mark = event.target.closest && event.target.closest("svg .m");
    if (mark && mark.dataset.t) location.hash = "t" + mark.dataset.t;
  });

  // Tables: a head sorts by what its column holds.
  function key(row, column) {
    var cell = row.cells[column], number = cell.dataset.k;
    return number === undefined ? cell.textContent.trim() : parseFloat(number);
  }
  function compare(a, b) {
    if (typeof a === typeof b) return a < b ? -1 : a > b ? 1 : 0;
    return typeof a === "number" ? -1 : 1;
  }
  document.querySelectorAll("table.sortable").forEach(function (table) {
    var heads = Array.from(table.tHead.rows[0].cells), body = table.tBodies[0];
    heads.forEach(function (head, column) {
      var button = document.createElement("button");
      button.type = "button";
      button.append.apply(button, Array.from(head.childNodes));
      head.append(button);
      button.addEventListener("click", function () {
        var down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach(function (other) { other.removeAttribute("aria-sort"); });
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        var rows = Array.from(body.rows).map(function (row) { return [key(row, column), row]; });
        rows.sort(function (a, b) { return (down ? -1 : 1) * compare(a[0], b[0]); });
        body.append.apply(body, rows.map(function (pair) { return pair[1]; }));
      });
    });
  });

  var filter = document.getElementById("filter"), found = document.getElementById("found");
  filter.addEventListener("input", function () {
    var words = filter.value.toLowerCase().split(/\s+/).filter(Boolean), shown = 0;
    document.querySelectorAll("table.trials tbody tr").forEach(function (row) {
      var text = row.textContent.toLowerCase();
      row.hidden = !words.every(function (word) { return text.includes(word); });
      shown += row.hidden ? 0 : 1;
    });
    found.textContent = words.length ? shown + " rows" : "";
  });

  addEventListener("beforeprint", function () {
    document.querySelectorAll("details").forEach(function (one) { one.open = true; });
  });
})();
