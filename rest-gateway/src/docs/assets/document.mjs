// The OpenAPI document, read by name instead of by reference.

export class ApiDocument {
  #json;

  // `base` is the path that all operations are below: where this module is from, also below the path of a proxy.
  constructor(json, base = new URL("../../v1", import.meta.url).pathname) {
    this.#json = json;
    this.base = base;
  }

  static async load() {
    const response = await fetch(new URL("../../openapi.json", import.meta.url), { credentials: "omit", signal: AbortSignal.timeout(15_000) });
    if (!response.ok) throw new Error(`/openapi.json answers ${response.status}`);
    return new ApiDocument(await response.json());
  }

  get info() {
    return this.#json.info;
  }

  // Returns a value with its $ref resolved. Members beside a $ref take precedence (OpenAPI 3.1).
  resolve(value) {
    let resolved = value ?? {};
    while (resolved.$ref) {
      const { $ref, ...own } = resolved;
      const target = $ref.split("/").slice(1).reduce((node, step) => node?.[unescaped(step)], this.#json);
      resolved = { name: $ref.split("/").at(-1), ...target, ...own };
    }
    return resolved;
  }

  // Every operation, in the order of the document.
  operations() {
    const methods = ["get", "put", "post", "delete", "patch"];
    return Object.entries(this.#json.paths).flatMap(([path, item]) =>
      methods.filter((method) => item[method]).map((method) => this.#operation(path, method, item)),
    );
  }

  #operation(path, method, item) {
    const operation = item[method];
    return {
      ...operation,
      id: operation.operationId,
      base: this.base,
      path,
      method: method.toUpperCase(),
      stability: operation["x-stability"] ?? "stable",
      parameters: [...(item.parameters ?? []), ...(operation.parameters ?? [])].map((each) => this.resolve(each)),
      body: this.#body(operation.requestBody),
      responses: Object.entries(operation.responses).map(([status, response]) => ({ status, ...this.resolve(response) })),
    };
  }

  // The header fields that every response of every operation has, as [name, header].
  commonHeaders() {
    const all = this.operations().flatMap(({ responses }) => responses);
    const candidates = Object.entries(all[0]?.headers ?? {});
    return candidates.filter(([name]) => all.every(({ headers }) => headers?.[name]));
  }

  // The failures that every operation may answer with, in the form of the first operation that has them.
  commonFailures() {
    const [first, ...others] = this.operations();
    const codesOf = (response) => (response["x-error-codes"] ?? []).join();
    return first.responses.filter((response) =>
      codesOf(response) !== "" &&
      others.every(({ responses }) => responses.some((other) => other.status === response.status && codesOf(other) === codesOf(response))),
    );
  }

  // The types that are described: every object that has a name.
  types() {
    const all = Object.keys(this.#json.components?.schemas ?? {});
    return all.filter((name) => this.isDescribed(name)).map((name) => this.resolve({ $ref: `#/components/schemas/${name}` }));
  }

  isDescribed(name) {
    return this.#json.components?.schemas?.[name]?.type === "object";
  }

  // The operations whose successful answer or body is of the type or holds it.
  usersOf(name) {
    return this.operations().filter(({ body, responses }) =>
      [body?.schema, ...responses.filter((each) => !each["x-error-codes"]).map(({ content }) => content?.["application/json"]?.schema)].some(
        (schema) => schema && this.#holds(schema, name),
      ),
    );
  }

  #holds(value, name) {
    const schema = this.resolve(value);
    const inner = [schema.items, ...Object.values(schema.properties ?? {})].filter(Boolean);
    return schema.name === name || inner.some((each) => this.#holds(each, name));
  }

  // The JSON body: its schema, and named examples of it.
  #body(requestBody) {
    const media = this.resolve(requestBody).content?.["application/json"];
    if (!media) return null;
    return { schema: this.resolve(media.schema), examples: this.examples(media) };
  }

  // Examples of a media type, as [name, value]; that of its schema, or of the items of its list, where it has none of its own.
  examples(media) {
    if (media.examples) return Object.entries(media.examples).map(([name, each]) => [name, this.resolve(each).value]);
    const schema = this.resolve(media.schema);
    const item = schema.items && this.resolve(schema.items).example;
    const example = media.example ?? schema.example ?? (item && [item]);
    return example === undefined ? [] : [["example", example]];
  }
}

// JSON Pointer (RFC 6901).
function unescaped(step) {
  return decodeURIComponent(step).replaceAll("~1", "/").replaceAll("~0", "~");
}
