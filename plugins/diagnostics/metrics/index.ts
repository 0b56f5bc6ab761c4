import { collectDefaultMetrics, Gauge, Registry } from 'prom-client'
import { clusterMetrics } from './cluster.js'
import { requestMetrics } from './requests.js'
import { runnerMetrics } from './runners.js'
import { storeMetrics } from './stores.js'
import type { ClusterMetricsParts } from './cluster.js'
import type { RequestMetricsParts } from './requests.js'
import type { RunnerMetricsParts } from './runners.js'
import type { StoreMetricsParts } from './stores.js'

/** Where the figures come from. */
export interface MetricsParts
  extends Omit<RequestMetricsParts, 'inspection'>, Omit<ClusterMetricsParts, 'inspection'>,
  RunnerMetricsParts, StoreMetricsParts {
  version: string
  inspection: RequestMetricsParts['inspection'] & ClusterMetricsParts['inspection']
}

/** The metrics of this node. */
export interface Metrics {
  /** All of them in the text format of Prometheus. */
  text (): Promise<string>
  stop (): void
}

/** A group of metrics: brings its figures up to date before they are shown, and lets go of its sources. */
export interface Group { sample (): void | Promise<void>, stop (): void }

/** Begins to count. What others count is read when the metrics are asked for. */
export function startMetrics (parts: MetricsParts): Metrics {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  new Gauge({
    name: 'svc_build_info', help: 'Always 1; the version is in the label.', labelNames: ['version'],
    registers: [registry]
  }).set({ version: parts.version }, 1)
  const groups = [
    requestMetrics(registry, parts), runnerMetrics(registry, parts), clusterMetrics(registry, parts),
    storeMetrics(registry, parts)
  ]
  return {
    async text () {
      for (const group of groups) await group.sample()
      return await registry.metrics()
    },
    stop () {
      for (const group of groups) group.stop()
      registry.clear()
    }
  }
}
