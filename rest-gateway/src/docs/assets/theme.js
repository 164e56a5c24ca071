// Light, dark, or as the system has it. Loaded before anything is drawn, so that no page appears in the wrong colours;
// therefore a script of the old kind. A browser that keeps nothing still switches the page at hand.
(() => {
  const NAME = "petstore-theme";
  const root = document.documentElement;

  const stored = () => {
    try {
      return localStorage.getItem(NAME);
    } catch {
      return null; // storage is blocked
    }
  };
  const store = (theme) => {
    try {
      if (theme === "system") localStorage.removeItem(NAME);
      else localStorage.setItem(NAME, theme);
    } catch {
      // storage is blocked
    }
  };
  const show = (theme) => {
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
    else delete root.dataset.theme;
  };
  const themeShown = () => root.dataset.theme ?? "system";

  show(stored());
  addEventListener("DOMContentLoaded", () => {
    const place = document.getElementById("theme");
    const select = document.createElement("select");
    select.setAttribute("aria-label", "Theme");
    for (const [value, title] of [["system", "System"], ["light", "Light"], ["dark", "Dark"]]) {
      select.append(new Option(title, value));
    }
    select.value = themeShown();
    select.addEventListener("change", () => {
      store(select.value);
      show(select.value);
    });
    addEventListener("storage", ({ key }) => {
      if (key !== NAME && key !== null) return;
      show(stored());
      select.value = themeShown();
    });
    place?.append(select);
  });
})();
