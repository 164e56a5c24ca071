// The admin API as the console sees it: /console/api/… is /admin/v1/… under the session.

const HEADERS = { "Petstore-Console": "1" };

// A response that is not a success. `code` and `message` are those of its Error.
export class ApiError extends Error {
  constructor(status, code, message) {
    super(sentence(message));
    Object.assign(this, { status, code });
  }
}

const sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.?!]$/.test(text) ? "" : "."}`;

const HEALTH = "/console/health";

// Causes in the health of a gateway, of a core and of one process of both.
const NO_WRITES = ["database_not_writable", "disk_full", "read_only", "writes_fail"];

async function request(method, path, body) {
  const response = await send(method, path, body, 15_000);
  return parse(await response.text());
}

// Returns the response if it is a success. Its body may still fail.
async function send(method, path, body, timeout) {
  let response;
  try {
    response = await fetch(path, {
      method,
      headers: body === undefined ? HEADERS : { ...HEADERS, "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
      redirect: "error",
      signal: AbortSignal.timeout(timeout),
    });
  } catch (error) {
    throw new ApiError(0, "NO_ANSWER", error.name === "TimeoutError" ? `There was no response within ${timeout / 1000} seconds.` : "The gateway cannot be reached. Check that it runs, and that the network and a proxy in between let you through.");
  }
  if (response.ok) return response;
  const parsed = parse(await response.text());
  const explained = parsed?.message ?? `The response was ${response.status}, without an explanation.`;
  const message = parsed?.code === "UNAVAILABLE" ? await outage(method, path) : explained;
  throw new ApiError(response.status, parsed?.code ?? "UNKNOWN", message);
}

// Says what a request lacked. The gateway's health tells a core without its database, or with a read-only one,
// from one that is away; just after an outage has begun, it may not know yet.
async function outage(method, path) {
  const { parts = {}, causes = {} } = path === HEALTH ? {} : await getHealth().catch(() => ({}));
  const isDatabase = parts.database === "down" || causes.core?.cause === "database_unreachable";
  const fails = [causes.core?.cause, causes.database?.cause];
  if (method !== "GET" && !isDatabase && NO_WRITES.some((cause) => fails.includes(cause))) {
    return "The database takes no writes. Until it does, nothing can be changed.";
  }
  const isCore = ["unreachable", "not_reached"].includes(causes.core?.cause);
  if (!isDatabase && !isCore && causes.core) return causes.core.message;
  const away = isDatabase ? "The database" : isCore ? "The core" : "The core or its database";
  return `${away} is unavailable. Until it is back, its data can be neither shown nor changed.`;
}

function parse(text) {
  try {
    return text === "" ? {} : JSON.parse(text);
  } catch {
    return null;
  }
}

// With the parameters that are not empty.
function withQuery(path, parameters) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== ""));
  return query.size > 0 ? `${path}?${query}` : path;
}

const at = (...segments) => `/console/api/${segments.map(encodeURIComponent).join("/")}`;
const get = (path, parameters = {}) => request("GET", withQuery(path, parameters));

// The health of the gateway that answers. Works while the core is away.
export const getHealth = () => get(HEALTH);

// Sessions.
export const signIn = (token) => request("POST", "/console/session", { token });
export const signOut = () => request("DELETE", "/console/session");
export const currentOperator = () => get(at("operators", "current"));

// Accounts.
export const listAccounts = (filters) => get(at("accounts"), filters);
export const getAccount = (name) => get(at("accounts", name));
export const createAccount = (account) => request("POST", at("accounts"), account);
export const updateAccount = (name, values) => request("PATCH", at("accounts", name), values); // only its members are changed
export const suspendAccount = (name, reason) => request("POST", at("accounts", name, "suspend"), { reason });
export const resumeAccount = (name) => request("POST", at("accounts", name, "resume"));
export const getLimits = (name) => get(at("accounts", name, "limits"));

// Keys and bans.
export const listKeys = (filters) => get(at("keys"), filters);
export const getKey = (id) => get(at("keys", id));
export const createKey = (account, { label, ttl, access, addresses }) => {
  const allowedAddresses = addresses.split(/[\s,]+/).filter(Boolean);
  const restriction = allowedAddresses.length > 0 && { allowedAddresses }; // an empty list is refused
  return request("POST", at("accounts", account, "keys"), { label, access, ...restriction, ...(ttl !== "never" && { ttl }) });
};
export const rotateKey = (id, { grace, ttl }) => request("POST", at("keys", id, "rotate"), { grace, ...(ttl === "never" ? { never: true } : ttl && { ttl }) });
export const revokeKey = (id) => request("POST", at("keys", id, "revoke"));
export const getKeyHandover = (id) => get(at("keys", id, "handover"));
export const findKeys = (text) => request("POST", at("keys", "find"), { text });
export const banKey = (id, reason, duration) => request("POST", at("keys", id, "ban"), { reason, duration });
export const liftBan = (id) => request("DELETE", at("keys", id, "ban"));
export const listBans = (filters) => get(at("bans"), filters);

// What happened.
export const getUsage = (parameters) => get(at("usage"), parameters);
// The usage of all accounts as a CSV file, which may be large.
export async function getUsageFile(interval) {
  const response = await send("GET", withQuery(at("account-usage.csv"), { interval }), undefined, 600_000);
  try {
    return await response.blob();
  } catch {
    throw new ApiError(0, "NO_ANSWER", "The file broke off before its end, and nothing was saved. Try again.");
  }
}
export const listAccountUsage = (filters) => get(at("account-usage"), filters);
export const getOverview = () => get(at("overview"));
export const listDeprecatedUse = (parameters) => get(at("deprecated-use"), parameters);
export const listBrownouts = () => get(at("brownouts"));
export const explainRefusal = (subject) => get(at("refusals"), subject);
export const listAuditEvents = (filters) => get(at("audit-events"), filters);

// Operators.
export const listOperators = (filters) => get(at("operators"), filters);
export const createOperator = (name, role) => request("POST", at("operators"), { name, role });
export const rotateOperator = (name, ttl) => request("POST", withQuery(at("operators", name, "rotate"), ttl === "never" ? { never: true } : { ttl }));
export const revokeOperator = (name, force = false) => request("POST", at("operators", name, "revoke"), { force });
