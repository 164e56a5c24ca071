// The key that the reader pasted, and the time that it has to wait after a 429. Both are only in this module's memory:
// not in storage, not in the address, not in a cookie. A reload forgets them.

const FORM = /^pet_(live|test)_[0-9A-Za-z]{36}$/;

let key = "";
let restsUntil = 0; // milliseconds, by performance.now()
const listeners = new Set();

export function apiKey() {
  return key;
}

// Returns the number of seconds that the key still has to wait.
export function secondsToRest() {
  return Math.max(0, Math.ceil((restsUntil - performance.now()) / 1000));
}

// Stops requests for the time in Retry-After, because a key that keeps sending is banned.
export function rest(seconds) {
  restsUntil = performance.now() + seconds * 1000;
  tick();
}

// Calls `listener` now and whenever the key or its wait changes.
export function watch(listener) {
  listeners.add(listener);
  listener();
}

// Connects the field on the page.
export function mount() {
  const [input, note, show, forget] = ["api-key", "key-note", "show-key", "forget-key"].map((id) =>
    document.getElementById(id),
  );
  const read = () => {
    key = input.value.trim();
    restsUntil = 0;
    const [state, text] = verdict(key);
    note.textContent = text;
    note.dataset.state = state;
    notify();
  };
  input.addEventListener("input", read);
  show.addEventListener("click", () => {
    const masked = input.classList.toggle("masked");
    show.setAttribute("aria-pressed", String(!masked));
    show.textContent = masked ? "Show" : "Hide";
  });
  forget.addEventListener("click", () => {
    input.value = "";
    read();
    input.focus();
  });
  // A page that comes back from the back/forward cache begins without a key.
  addEventListener("pagehide", () => {
    input.value = "";
    read();
  });
  read();
}

function verdict(text) {
  if (text === "") return ["empty", "The key stays in the memory of this tab. It is not stored, and a reload forgets it."];
  if (FORM.test(text)) return ["ready", "Ready. The key is sent to this service only, and a reload of the page forgets it."];
  if (/^bearer\s/i.test(text)) return ["doubtful", "Paste only the key, without “Bearer”."];
  return ["doubtful", "This does not look like a key: pet_live_ (staging: pet_test_) and 36 letters and digits."];
}

function notify() {
  for (const listener of listeners) listener();
}

function tick() {
  notify();
  if (secondsToRest() > 0) setTimeout(tick, 1000);
}
