// Runs before anything is drawn, so that a dark page does not flash up light. Not a module: those wait for the page.
try {
  document.documentElement.dataset.theme = localStorage.getItem("theme") || "system";
} catch {
  document.documentElement.dataset.theme = "system";
}
