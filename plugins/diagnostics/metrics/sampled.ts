import { Counter, Gauge } from 'prom-client'
import type { Registry } from 'prom-client'

/**
 * Feeds counters from totals that somebody else keeps. A total that falls belongs to something that began
 * anew: all of it counts.
 */
export class CounterFeed {
  readonly #last = new Map<string, number>()

  /** `key` names the source of the total for as long as it exists. */
  follow<L extends string> (
    counter: Counter<L>, labels: Record<L, string>, key: string, total: number
  ): void {
    const last = this.#last.get(key) ?? 0
    this.#last.set(key, total)
    const risen = total < last ? total : total - last
    if (risen > 0) counter.inc(labels, risen)
  }

  /** Forgets the sources that are gone. */
  keep (there: (key: string) => boolean): void {
    for (const key of this.#last.keys()) if (!there(key)) this.#last.delete(key)
  }
}

/** A figure of a metric. Those of a gauge with the same labels are added up. */
export interface Figure {
  value: number
  labels?: Record<string, string>
  /** Of a total: what keeps it, where several do. */
  source?: string
}

/** A metric that is read when the metrics are asked for. */
export interface Sampled<S> {
  /** A counter is given as the total so far, which somebody else keeps. */
  kind: 'gauge' | 'counter'
  name: string
  help: string
  labels?: readonly string[]
  /** Null where there is no figure. */
  read (from: S): number | null | readonly Figure[]
}

type Row = <S>(
  name: string, help: string, read: Sampled<S>['read'], labels?: readonly string[]
) => Sampled<S>
/** Rows of a table. */
export const gauge: Row = (name, help, read, labels = []) => ({ kind: 'gauge', name, help, read, labels })
export const counter: Row = (name, help, read, labels = []) => ({ kind: 'counter', name, help, read, labels })

/** Makes the metrics of a table; what is returned brings them up to date. */
export function sampledMetrics<S> (registry: Registry, table: readonly Sampled<S>[]): (from: S) => void {
  const feed = new CounterFeed()
  const made = table.map(({ kind, name, help, labels = [], read }) => {
    const options = { name, help, labelNames: [...labels], registers: [registry] }
    return { name, read, metric: kind === 'gauge' ? new Gauge(options) : new Counter(options) }
  })
  return (from) => {
    const there = new Set<string>()
    for (const { name, read, metric } of made) {
      const found = read(from)
      if (metric instanceof Gauge) {
        metric.reset()
        // A figure that is not known is left out: 0 would be one.
        if (found === null) metric.remove()
      }
      for (const { value, labels = {}, source = '' } of figuresOf(found)) {
        const key = `${name} ${source} ${Object.values(labels).join(' ')}`
        there.add(key)
        if (metric instanceof Gauge) metric.inc(labels, value)
        else feed.follow(metric, labels, key, value)
      }
    }
    feed.keep((key) => there.has(key))
  }
}

function figuresOf (found: number | null | readonly Figure[]): readonly Figure[] {
  if (found === null) return []
  return typeof found === 'number' ? [{ value: found }] : found
}

/** Figures by the values of one label. */
export const by = (label: string, values: Readonly<Record<string, number>>): Figure[] =>
  Object.entries(values).map(([name, value]) => ({ labels: { [label]: name }, value }))
