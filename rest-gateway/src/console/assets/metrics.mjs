// Measurements of this gateway, from its /metrics (Prometheus's text format).

// [name, labels, value] of every sample.
export function samplesOf(text) {
  return [...text.matchAll(/^([a-z_:0-9]+)(?:\{(.*)\})? ([^ \n]+)$/gim)].map(([, name, labels, value]) => [
    name,
    Object.fromEntries([...(labels ?? "").matchAll(/([a-z_0-9]+)="((?:[^"\\]|\\.)*)"/gi)].map(([, label, text]) => [label, text])),
    Number(value),
  ]);
}

// The sum of the samples that have these labels.
export function sumOf(samples, name, labels = {}) {
  const has = (sample) => sample[0] === name && Object.entries(labels).every(([label, value]) => sample[1][label] === value);
  return samples.filter(has).reduce((sum, [, , value]) => sum + value, 0);
}

// The duration that this share of the requests did not exceed, in seconds: the upper end of the bucket that it falls
// into, by straight line within it; null without requests.
export function quantile(samples, histogram, share) {
  const buckets = new Map();
  for (const [name, { le }, value] of samples) {
    if (name !== `${histogram}_bucket`) continue;
    const end = le === "+Inf" ? Infinity : Number(le);
    buckets.set(end, (buckets.get(end) ?? 0) + value);
  }
  const ends = [...buckets.keys()].sort((a, b) => a - b);
  const wanted = share * (buckets.get(Infinity) ?? 0);
  if (!(wanted > 0)) return null;
  const index = ends.findIndex((end) => buckets.get(end) >= wanted);
  const [below, end] = [index > 0 ? ends[index - 1] : 0, ends[index]];
  if (end === Infinity) return below;
  const before = index > 0 ? buckets.get(below) : 0;
  return below + ((end - below) * (wanted - before)) / (buckets.get(end) - before);
}
