// The text format of Prometheus, and the series that the charts draw from it.

export interface Sample { name: string, labels: Readonly<Record<string, string>>, value: number }

/** A figure of a node at one moment. */
export interface Reading { atMs: number, samples: readonly Sample[] }

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?\s*$/
const LABEL = /(?<!\w)([a-zA-Z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)/g
const NUMBERS: Readonly<Record<string, number>> = {
  '+Inf': Infinity, Inf: Infinity, '-Inf': -Infinity, NaN
}

/** Every sample of an answer of GET /metrics; lines that are none are left out. */
export function parseMetrics (text: string): Sample[] {
  return text.split('\n').flatMap((line) => {
    if (line.startsWith('#')) return []
    const [, name, inBraces = '', number] = LINE.exec(line) ?? []
    if (name === undefined || number === undefined) return []
    const value = NUMBERS[number] ?? Number(number)
    if (Number.isNaN(value) && number !== 'NaN') return []
    const labels = [...inBraces.matchAll(LABEL)].map(([, key, quoted]) => [key!, unquoted(quoted!)])
    return [{ name, labels: Object.fromEntries(labels) as Record<string, string>, value }]
  })
}

const unquoted = (text: string): string =>
  text.replace(/\\(.)/g, (_, one: string) => one === 'n' ? '\n' : one)

type Where = (labels: Readonly<Record<string, string>>) => boolean
const always: Where = () => true

/** The sum of all samples of a name; null when there is none. */
export function totalOf ({ samples }: Reading, name: string, where: Where = always): number | null {
  const found = samples.filter((one) => one.name === name && where(one.labels))
  return found.length === 0 ? null : found.reduce((sum, { value }) => sum + value, 0)
}

/** How fast a counter grew between two readings, per second; null over a restart of the node. */
export function rateOf (before: Reading, now: Reading, name: string, where: Where = always): number | null {
  const seconds = (now.atMs - before.atMs) / 1000
  // A counter that is not there has not counted yet.
  const grown = (totalOf(now, name, where) ?? 0) - (totalOf(before, name, where) ?? 0)
  return seconds <= 0 || grown < 0 ? null : grown / seconds
}

/** The time below which this part of what a histogram counted between two readings lies; null for nothing. */
export function quantileOf (
  before: Reading, now: Reading, name: string, part: number, where: Where = always
): number | null {
  const bounds = [...new Set(now.samples.filter((one) => one.name === `${name}_bucket` && where(one.labels))
    .map(({ labels }) => labels['le']!))].map((le) => ({ le, most: NUMBERS[le] ?? Number(le) }))
    .sort((a, b) => a.most - b.most)
  const counts = bounds.map(({ le, most }) => {
    const at: Where = (labels) => labels['le'] === le && where(labels)
    const count = (totalOf(now, `${name}_bucket`, at) ?? 0) - (totalOf(before, `${name}_bucket`, at) ?? 0)
    return { most, count }
  })
  const all = counts.at(-1)?.count ?? 0
  if (all <= 0) return null
  const wanted = part * all
  const index = counts.findIndex(({ count }) => count >= wanted)
  const [low, lowCount] = index <= 0 ? [0, 0] : [counts[index - 1]!.most, counts[index - 1]!.count]
  const { most, count } = counts[index]!
  if (most === Infinity) return low
  return low + (most - low) * (wanted - lowCount) / (count - lowCount)
}

/** One line of a chart: its value at a reading, with the reading before it. */
export interface Line { label: string, value: (before: Reading, now: Reading) => number | null }

export type Unit = 'perSecond' | 'seconds' | 'bytes' | 'bytesPerSecond' | 'count'
export interface Chart { title: string, unit: Unit, about: string, lines: readonly Line[] }

const counter = (label: string, name: string, where?: Where): Line =>
  ({ label, value: (before, now) => rateOf(before, now, name, where) })
const gauge = (label: string, name: string, where?: Where): Line =>
  ({ label, value: (_, now) => totalOf(now, name, where) })
const quantile = (label: string, name: string, part: number, where: Where): Line =>
  ({ label, value: (before, now) => quantileOf(before, now, name, part, where) })
const label = (key: string, value: RegExp): Where => (labels) => value.test(labels[key] ?? '')
const FIRST = 'svc_task_first_output_seconds'

/** What is drawn of one node. */
export const charts: readonly Chart[] = [
  {
    title: 'Tasks', unit: 'perSecond', about: 'Chat, speech and other work that came to this node and ended.',
    lines: [
      counter('completed', 'svc_tasks_total', label('status', /^Complete$/)),
      counter('not completed', 'svc_tasks_total', label('status', /^(?!Complete$)/))
    ]
  },
  {
    title: 'HTTP requests', unit: 'perSecond', about: 'Answers of this node, this page\'s own included.',
    lines: [
      counter('answered', 'svc_http_requests_total', label('status', /^[123]/)),
      counter('refused', 'svc_http_requests_total', label('status', /^4/)),
      counter('failed', 'svc_http_requests_total', label('status', /^5/))
    ]
  },
  {
    title: 'Tokens', unit: 'perSecond', about: 'Read and generated by the runners of this node.',
    lines: [
      counter('generated', 'svc_generated_tokens_total'), counter('of prompts', 'svc_prompt_tokens_total')
    ]
  },
  {
    title: 'Speech', unit: 'seconds', about: 'Seconds of sound made in each second.',
    lines: [counter('sound', 'svc_audio_seconds_total')]
  },
  {
    title: 'Time to the first output', unit: 'seconds', about: 'To the first token, or the first sound.',
    lines: [
      quantile('chat, half of them', FIRST, 0.5, label('capability', /^chat/)),
      quantile('chat, 95 of 100', FIRST, 0.95, label('capability', /^chat/)),
      quantile('speech, half of them', FIRST, 0.5, label('capability', /^tts/)),
      quantile('speech, 95 of 100', FIRST, 0.95, label('capability', /^tts/))
    ]
  },
  {
    title: 'In the runners', unit: 'count', about: 'Tasks that are served, and that wait for a place.',
    lines: [gauge('served', 'svc_runner_slots_used'), gauge('waiting', 'svc_runner_queue_length')]
  },
  {
    title: 'Memory', unit: 'bytes', about: 'Of the processes of this node.',
    lines: [
      gauge('node', 'process_resident_memory_bytes'), gauge('runners', 'svc_runner_resident_memory_bytes')
    ]
  },
  {
    title: 'Links', unit: 'bytesPerSecond', about: 'To and from the other nodes.',
    lines: [
      counter('in', 'svc_cluster_link_bytes_total', label('direction', /^in$/)),
      counter('out', 'svc_cluster_link_bytes_total', label('direction', /^out$/))
    ]
  }
]

/** The points of a chart, as uPlot takes them: the times in seconds, then each line. */
export function pointsOf (readings: readonly Reading[], { lines }: Chart): (number | null)[][] {
  const pairs = readings.slice(1).map((now, index) => ({ before: readings[index]!, now }))
  return [
    pairs.map(({ now }) => now.atMs / 1000),
    ...lines.map(({ value }) => pairs.map(({ before, now }) => value(before, now)))
  ]
}
