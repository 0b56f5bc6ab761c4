import type { Gpu } from '../../../kernel/index.js'
import type { RunnerReport } from '../../runners/service.js'
import { gauge, type Meters, type MetricsParts, type Row } from './meters.js'

type RunnerRow = Row<MetricsParts['runners']>

function byModel (
  kind: 'gauge' | 'counter', name: string, help: string, of: (runner: RunnerReport) => number
): RunnerRow {
  return {
    kind, name, help, labels: ['model'],
    read: (runners) => runners().map((runner) =>
      ({ labels: { model: runner.modelId }, source: runner.runnerId, value: of(runner) }))
  }
}

const TABLE: readonly RunnerRow[] = [
  gauge('svc_runners', 'Runners of this node by status.',
    (runners) => runners().map(({ modelId: model, statusKind: status }) =>
      ({ labels: { model, status }, value: 1 })), ['model', 'status']),
  byModel('gauge', 'svc_runner_slots', 'Parallel answers of the runners.', (r) => r.slots),
  byModel('gauge', 'svc_runner_slots_used', 'Slots in use.', (r) => r.slotsTaken),
  byModel('gauge', 'svc_runner_queue_length', 'Tasks queued for a slot of a runner.', (r) => r.waitingTasks),
  byModel('gauge', 'svc_runner_chunks_buffered', 'Chunks of answers buffered for their readers.',
    (r) => r.chunks.buffered),
  byModel('gauge', 'svc_runner_resident_memory_bytes', 'Resident memory of the runner processes.',
    (r) => r.rssBytes ?? 0),
  byModel('counter', 'svc_runner_restarts_total', 'Restarts of runner processes.', (r) => r.restarts),
  byModel('counter', 'svc_runner_tasks_completed_total', 'Tasks completed by runners.',
    (r) => r.completedTaskCount),
  byModel('counter', 'svc_runner_tasks_admitted_total', 'Tasks admitted by a runner.',
    (r) => r.admittedTaskCount),
  byModel('counter', 'svc_runner_queue_seconds_total', 'Time that tasks were queued for a runner.',
    (r) => r.waitedSeconds),
  byModel('counter', 'svc_runner_chunks_total', 'Chunks of answers from runners.', (r) => r.chunks.received),
  byModel('counter', 'svc_runner_chunks_dropped_total', 'Chunks that arrived too late or twice.',
    (r) => r.chunks.dropped)
]

const each = (name: string, help: string, of: (gpu: Gpu) => number | null): Row<MetricsParts> =>
  gauge(name, help, ({ machine }) => (machine?.lastGpus().gpus ?? []).flatMap((gpu, i) => {
    const value = of(gpu)
    return value === null ? [] : [{ value, labels: { gpu: String(i), name: gpu.name } }]
  }), ['gpu', 'name'])

/** This node's last GPU reading, taken every 30 s and at each placement, load and unload. */
const GPUS: readonly Row<MetricsParts>[] = [
  each('svc_gpu_memory_bytes', 'Memory of a GPU that this node can use.', (gpu) => gpu.vramTotalBytes),
  each('svc_gpu_memory_used_bytes', 'Memory in use on the GPU, by any program.', (gpu) => gpu.vramUsedBytes),
  each('svc_gpu_utilization_ratio', 'Busy share of the GPU, 0 to 1.', (gpu) => gpu.utilizationRatio),
  each('svc_gpu_temperature_celsius', 'Temperature of the GPU.', (gpu) => gpu.temperatureCelsius),
  each('svc_gpu_power_watts', 'Power consumption of the GPU.', (gpu) => gpu.powerWatts)
]

export function runnerMetrics (meters: Meters, parts: MetricsParts): void {
  meters.table(() => parts.runners, TABLE)
  meters.table(() => parts, GPUS)
}
