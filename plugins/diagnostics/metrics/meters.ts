import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import type { CapabilityDecl, Context } from '../../../kernel/index.js'
import type { RunnerReport } from '../../runners/service.js'
import type { manifest } from '../manifest.js'

type Deps = Context<typeof manifest>['deps']

/** The parts of a node that metrics read; those of a disabled plugin are undefined. */
export interface MetricsParts extends Omit<Deps, 'api' | 'state' | 'declared' | 'runners'> {
  version: string
  home: string
  /** Declarations of this node's capabilities; their series exist at 0 before the first call. */
  capabilities: ReadonlyArray<Pick<CapabilityDecl, 'id' | 'version'>>
  runners: () => readonly RunnerReport[]
}

/** Feeds counters from external totals. A smaller total means that its source restarted from 0. */
export class CounterFeed {
  readonly #last = new Map<string, number>()

  /** Adds the growth of an external total to a counter; `key` identifies the source of the total. */
  follow<L extends string> (
    counter: Counter<L>, labels: Record<L, string>, key: string, total: number
  ): void {
    const last = this.#last.get(key) ?? 0
    this.#last.set(key, total)
    // A growth of 0 creates the series, so that a rate includes the first event.
    counter.inc(labels, total < last ? total : total - last)
  }

  /** Forgets the last totals of sources that no longer exist. */
  keep (there: (key: string) => boolean): void {
    for (const key of this.#last.keys()) if (!there(key)) this.#last.delete(key)
  }
}

/** A value of a metric. Gauge values with the same labels are added up. */
export interface Sample {
  value: number
  labels?: Record<string, string>
  /** Source of an external total, if the metric has several sources. */
  source?: string
}

/** The value of a metric; null if unknown. */
type Found = number | null | readonly Sample[]

/** A metric that is read when the metrics are requested. */
export interface Row<S> {
  /** The value of a `counter` is a total that its source counts; see CounterFeed. */
  kind: 'gauge' | 'counter'
  name: string
  help: string
  labels?: readonly string[]
  read (from: S): Found | Promise<Found>
}

type MakeRow = <S>(name: string, help: string, read: Row<S>['read'], labels?: readonly string[]) => Row<S>
export const gauge: MakeRow = (name, help, read, labels = []) => ({ kind: 'gauge', name, help, read, labels })
export const counter: MakeRow = (name, help, read, labels = []) =>
  ({ kind: 'counter', name, help, read, labels })

/** Creates the metrics of a registry, and unsubscribes from their events when stopped. */
export class Meters {
  readonly #registry: Registry
  readonly #tables: (() => Promise<void>)[] = []
  readonly #stops: (() => void)[] = []

  constructor (registry: Registry) { this.#registry = registry }

  /** A counter for events as they happen. */
  counter<L extends string = never> (name: string, help: string, labelNames: readonly L[] = []): Counter<L> {
    return new Counter({ name, help, labelNames, registers: [this.#registry] })
  }

  /** A histogram; `buckets` are upper bounds in seconds. */
  seconds<L extends string> (
    name: string, help: string, buckets: number[], labelNames: readonly L[]
  ): Histogram<L> {
    return new Histogram({ name, help, labelNames, buckets, registers: [this.#registry] })
  }

  table<S> (find: () => S | undefined, rows: readonly Row<S>[]): void {
    const make = (source: S) => ({
      source, feed: new CounterFeed(),
      made: rows.map(({ kind, name, help, labels = [], read }) => {
        const options = { name, help, labelNames: [...labels], registers: [this.#registry] }
        return { name, read, metric: kind === 'gauge' ? new Gauge(options) : new Counter(options) }
      })
    })
    let table: ReturnType<typeof make> | undefined
    this.#tables.push(async () => {
      const source = find()
      if (source !== table?.source) {
        for (const { name } of table?.made ?? []) this.#registry.removeSingleMetric(name)
        table = source === undefined ? undefined : make(source)
      }
      if (source === undefined || table === undefined) return
      const { feed, made } = table
      const found = await Promise.all(made.map(async ({ read }) => await read(source)))
      const there = new Set<string>()
      for (const [i, { name, metric }] of made.entries()) {
        const figures = figuresOf(found[i]!)
        if (metric instanceof Gauge) {
          metric.reset()
          // An unknown value is left out, because 0 would be read as a measurement.
          if (found[i] === null) metric.remove()
        }
        for (const { value, labels = {}, source: keeper = '' } of figures) {
          const key = `${name} ${keeper} ${Object.values(labels).join(' ')}`
          there.add(key)
          if (metric instanceof Gauge) metric.inc(labels, value)
          else feed.follow(metric, labels, key, value)
        }
      }
      feed.keep((key) => there.has(key))
    })
  }

  beforeScrape (fn: () => void): void { this.#tables.push(async () => { fn() }) }

  onStop (fn: () => void): void { this.#stops.push(fn) }

  /** Updates the metrics of all tables before a scrape. */
  async sample (): Promise<void> {
    for (const table of this.#tables) await table()
  }

  stop (): void {
    for (const stop of this.#stops) stop()
    this.#registry.clear()
  }
}

function figuresOf (found: Found): readonly Sample[] {
  if (found === null) return []
  return typeof found === 'number' ? [{ value: found }] : found
}

export const samplesBy = (label: string, values: Readonly<Record<string, number>>): Sample[] =>
  Object.entries(values).map(([name, value]) => ({ labels: { [label]: name }, value }))
