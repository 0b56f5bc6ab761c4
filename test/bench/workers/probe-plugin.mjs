// Plugin that the event-loop benchmark adds to a node, to measure the delay of the node's event loop.
import { monitorEventLoopDelay } from 'node:perf_hooks'

// Interval in ms of the monitor's timer, which records the time since its last run.
const RESOLUTION_MS = 1

export default {
  manifest: {
    name: 'loop-probe',
    version: '1.0.0',
    kernel: '^1.0.0',
    summary: 'Measures the event loop of the node.',
    routes: {
      loop: {
        method: 'GET',
        url: '/v1/bench/loop',
        authority: 'read',
        summary: 'Delays since the last call, ms.'
      }
    }
  },
  start () {
    const loop = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
    loop.enable()
    const delay = (ns) => Math.max(0, ns / 1e6 - RESOLUTION_MS)
    return {
      routes: {
        loop: () => {
          const { count, max } = loop
          const [p50, p99] = [50, 99].map((p) => delay(loop.percentile(p)))
          loop.reset()
          return { count, p50, p99, max: delay(max) }
        }
      }
    }
  }
}
