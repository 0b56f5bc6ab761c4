import { collectDefaultMetrics, Gauge, Registry } from 'prom-client'
import { monitorLoop, type LoopMonitor } from '../../../kernel/index.js'
import { clusterMetrics } from './cluster.js'
import { Meters, type MetricsParts } from './meters.js'
import { requestMetrics } from './requests.js'
import { runnerMetrics } from './runners.js'
import { storeMetrics } from './stores.js'

export interface Metrics { text (): Promise<string>, stop (): void }

/** Starts the metrics; counters kept by other parts are read at each scrape. */
export function startMetrics (parts: MetricsParts): Metrics {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: NEVER_MS })
  const loop = loopMetrics(registry)
  new Gauge({
    name: 'svc_build_info', help: 'Always 1; the version is in the label.', labelNames: ['version'],
    registers: [registry]
  }).set({ version: parts.version }, 1)
  const meters = new Meters(registry)
  requestMetrics(meters, parts)
  runnerMetrics(meters, parts)
  clusterMetrics(meters, parts)
  storeMetrics(meters, parts)
  return {
    async text () {
      await meters.sample()
      return await registry.metrics()
    },
    stop: () => {
      meters.stop()
      loop.stop()
    }
  }
}

/** Longest delay that a Node timer accepts, in ms. */
const NEVER_MS = 2 ** 31 - 1

/** Replaces prom-client's event loop metrics, whose histogram would wake an idle node every 10 ms. */
function loopMetrics (registry: Registry): LoopMonitor {
  const loop = monitorLoop()
  const gauge = (name: string): Gauge & { collect (): void } =>
    registry.getSingleMetric(`nodejs_eventloop_lag_${name}seconds`) as Gauge & { collect (): void }
  const lag = gauge('')
  const { collect } = lag
  lag.collect = () => {
    collect()
    for (const [name, ms] of Object.entries(loop.read())) gauge(`${name}_`).set(ms / 1000)
    loop.reset()
  }
  return loop
}
