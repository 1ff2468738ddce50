// Runs before the first paint, so that neither the theme nor the width of the navigation flashes.
(() => {
  const root = document.documentElement;
  const wanted = root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  root.dataset.bsTheme = wanted;
  try {
    root.classList.toggle("sidebar-slim", localStorage.getItem("sidebar") === "slim");
  } catch {
    // Storage may be closed to us; the navigation is then wide.
  }
})();
