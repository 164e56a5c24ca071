// From the values of a form to a request, as fetch sends it and as curl would.

// The request of an operation. `values` has the parameters by name; empty ones are left out.
export function requestOf(operation, values, body) {
  let path = operation.path;
  const query = new URLSearchParams();
  const headers = body === undefined ? {} : { "Content-Type": "application/json" };
  for (const { name, in: place } of operation.parameters) {
    const value = values[name] ?? "";
    if (place === "path") path = path.replace(`{${name}}`, encodeURIComponent(value));
    else if (place === "query" && value !== "") query.append(name, value);
    else if (place === "header" && value !== "") headers[name] = value;
  }
  const search = query.size > 0 ? `?${query}` : "";
  return {
    method: operation.method,
    path: operation.base + path + search,
    headers,
    body,
  };
}

// Returns the command line that sends the same request. The key is in a variable: command lines are seen by others and
// kept in a history.
export function curlOf(request, origin) {
  const parts = [`curl -i ${quoted(origin + request.path)}`];
  if (request.method !== "GET" && request.body === undefined) parts[0] = parts[0].replace("-i", `-i -X ${request.method}`);
  parts.push('-H "Authorization: Bearer $PETSTORE_API_KEY"');
  for (const [name, value] of Object.entries(request.headers)) parts.push(`-H ${quoted(`${name}: ${value}`)}`);
  if (request.body !== undefined) parts.push(`--data-raw ${quoted(request.body)}`);
  return parts.join(" \\\n  ");
}

// Returns the text quoted for a POSIX shell.
export function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

// Sends the request. The response has its body as text, unchanged.
export async function send(request, key) {
  const started = performance.now();
  const response = await fetch(request.path, {
    method: request.method,
    headers: key === "" ? request.headers : { ...request.headers, Authorization: `Bearer ${key}` },
    body: request.body,
    cache: "no-store",
    credentials: "omit",
    redirect: "error",
    referrerPolicy: "no-referrer",
    signal: AbortSignal.timeout(15_000),
  });
  const text = await response.text();
  const milliseconds = Math.round(performance.now() - started);
  return { status: response.status, reason: response.statusText, headers: response.headers, text, milliseconds };
}
