import { Counter, Gauge } from 'prom-client'
import type { Registry } from 'prom-client'
import type { RunnerReport } from '../../runners/service.js'
import { Rises } from './rises.js'
import type { Group } from './index.js'

export interface RunnerMetricsParts { runners: () => readonly RunnerReport[] }

/** Runners of this node, added up by model: their ids would make new series for ever. */
export function runnerMetrics (registry: Registry, parts: RunnerMetricsParts): Group {
  const gauges = makeGauges(registry)
  const counters = makeCounters(registry)
  const rises = new Rises()
  return {
    sample () {
      const runners = parts.runners()
      for (const gauge of Object.values(gauges)) gauge.reset()
      for (const runner of runners) {
        showNow(gauges, runner)
        follow(counters, rises, runner)
      }
      const there = new Set(runners.map(({ runnerId }) => runnerId))
      rises.keep((key) => there.has(key.slice(key.indexOf(' ') + 1)))
    },
    stop () {}
  }
}

function showNow (gauges: ReturnType<typeof makeGauges>, runner: RunnerReport): void {
  const { modelId: model } = runner
  gauges.runners.inc({ model, status: runner.statusKind })
  gauges.slots.inc({ model }, runner.slots)
  gauges.used.inc({ model }, runner.inProgressTasks.length)
  gauges.queue.inc({ model }, runner.waitingTasks)
  gauges.buffered.inc({ model }, runner.chunks.buffered)
  gauges.memory.inc({ model }, runner.rssBytes ?? 0)
}

function follow (counters: ReturnType<typeof makeCounters>, rises: Rises, runner: RunnerReport): void {
  const { runnerId, modelId: model, chunks } = runner
  const total = (name: keyof typeof counters, value: number): void => {
    rises.follow(counters[name], { model }, `${name} ${runnerId}`, value)
  }
  total('restarts', runner.restarts)
  total('completed', runner.completedTaskCount)
  total('admitted', runner.admittedTaskCount)
  total('waited', runner.waitedSeconds)
  total('chunks', chunks.received)
  total('dropped', chunks.dropped)
}

function makeGauges (registry: Registry) {
  const registers = [registry]
  const gauge = (name: string, help: string): Gauge<'model'> =>
    new Gauge({ name, help, labelNames: ['model'], registers })
  return {
    runners: new Gauge({
      name: 'svc_runners', labelNames: ['model', 'status'], registers,
      help: 'Runners of this node by where they are in their lives.'
    }),
    slots: gauge('svc_runner_slots', 'Tasks that may be inside the runners at once.'),
    used: gauge('svc_runner_slots_used', 'Tasks inside the runners.'),
    queue: gauge('svc_runner_queue_length', 'Tasks that wait for a place in a runner.'),
    buffered: gauge('svc_runner_chunks_buffered', 'Chunks of answers that wait for their readers.'),
    memory: gauge('svc_runner_resident_memory_bytes', 'Resident memory of the runner processes.')
  }
}

function makeCounters (registry: Registry) {
  const counter = (name: string, help: string): Counter<'model'> =>
    new Counter({ name, help, labelNames: ['model'], registers: [registry] })
  return {
    restarts: counter('svc_runner_restarts_total', 'Runner processes that were started again.'),
    completed: counter('svc_runner_tasks_completed_total', 'Tasks that runners have served to their end.'),
    admitted: counter('svc_runner_tasks_admitted_total', 'Tasks that got a place in a runner.'),
    waited: counter('svc_runner_queue_seconds_total', 'Time that tasks waited for a place in a runner.'),
    chunks: counter('svc_runner_chunks_total', 'Chunks of answers that came from runners.'),
    dropped: counter('svc_runner_chunks_dropped_total', 'Chunks that came too late or twice.')
  }
}
