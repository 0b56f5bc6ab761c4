/** A strict parser for the Prometheus text format 0.0.4. */

export interface Sample { name: string, labels: Record<string, string>, value: number }

export interface Family { name: string, help: string, type: string, samples: Sample[] }

const NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/
const LABEL = /^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(,|$)/
const TYPES = new Set(['counter', 'gauge', 'histogram', 'summary', 'untyped'])

/** Sample name suffixes allowed for a metric type. */
const ENDINGS: Readonly<Record<string, readonly string[]>> = {
  histogram: ['_bucket', '_sum', '_count'], summary: ['', '_sum', '_count']
}

/** Throws an Error that quotes the first line that violates the format. */
export function readExposition (text: string): Map<string, Family> {
  if (!text.endsWith('\n')) throw new Error('the last line does not end')
  const families = new Map<string, Family>()
  const seen = new Set<string>()
  let current: Family | undefined
  for (const [i, line] of text.split('\n').slice(0, -1).entries()) {
    const wrong = (why: string): Error => new Error(`line ${i + 1}: ${why}: ${line}`)
    if (line === '') continue
    const help = /^# HELP (\S+) (.+)$/.exec(line)
    const type = /^# TYPE (\S+) (\S+)$/.exec(line)
    if (help !== null) {
      const [, name, said] = help as unknown as [string, string, string]
      if (!NAME.test(name) || families.has(name)) throw wrong('a name that is wrong or was there before')
      current = { name, help: said, type: '', samples: [] }
      families.set(name, current)
    } else if (type !== null) {
      if (current?.name !== type[1] || current?.type !== '') throw wrong('TYPE without HELP')
      if (!TYPES.has(type[2]!)) throw wrong('no type')
      current.type = type[2]!
    } else {
      if (current === undefined || current.type === '') throw wrong('a value before HELP and TYPE')
      const sample = readSample(line, wrong)
      const fits = (ENDINGS[current.type] ?? ['']).some((ending) => sample.name === current!.name + ending)
      if (!fits) throw wrong(`not of ${current.name}`)
      const key = line.slice(0, line.lastIndexOf(' '))
      if (seen.has(key)) throw wrong('told twice')
      seen.add(key)
      current.samples.push(sample)
    }
  }
  return families
}

function readSample (line: string, wrong: (why: string) => Error): Sample {
  const parts = /^([^{\s]+)(?:\{(.*)\})? (\S+)$/.exec(line)
  if (parts === null || !NAME.test(parts[1]!)) throw wrong('no sample')
  const value = parts[3] === '+Inf' ? Infinity : parts[3] === '-Inf' ? -Infinity : Number(parts[3])
  // Prometheus accepts NaN in any case; prom-client writes Nan.
  if (!/^nan$/i.test(parts[3]!) && Number.isNaN(value)) throw wrong('no number')
  const labels: Record<string, string> = {}
  for (let rest = parts[2] ?? ''; rest !== '';) {
    const label = LABEL.exec(rest)
    if (label === null || label[1]! in labels) throw wrong('no label')
    labels[label[1]!] = label[2]!
    rest = rest.slice(label[0].length)
  }
  return { name: parts[1]!, labels, value }
}

/** Finds decreasing histogram buckets, and a last bucket that differs from `_count`. */
export function histogramProblems ({ name, samples }: Family): string[] {
  const series = new Map<string, number[]>()
  const counts = new Map<string, number>()
  for (const { name: sample, labels: { le, ...labels }, value } of samples) {
    const key = JSON.stringify(Object.entries(labels).sort())
    if (sample.endsWith('_bucket')) {
      if (le === undefined) return [`${name}: a bucket without le`]
      series.set(key, [...series.get(key) ?? [], value])
    } else if (sample.endsWith('_count')) counts.set(key, value)
  }
  return [...series].flatMap(([key, values]) => {
    const rising = values.every((value, i) => i === 0 || value >= values[i - 1]!)
    return rising && values.at(-1) === counts.get(key) ? [] : [`${name}${key}: ${values.join(' ')}`]
  })
}
