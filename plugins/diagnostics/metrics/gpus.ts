import type { Gpu } from '../../../kernel/index.js'
import type { Machine } from '../../runners/service.js'
import { gauge } from './meters.js'
import type { Meters, Row } from './meters.js'

export interface GpuMetricsParts { machine: Pick<Machine, 'lastGpus'> | undefined }

const each = (name: string, help: string, of: (gpu: Gpu) => number | null): Row<GpuMetricsParts> =>
  gauge(name, help, ({ machine }) => (machine?.lastGpus().gpus ?? []).flatMap((gpu, i) => {
    const value = of(gpu)
    return value === null ? [] : [{ value, labels: { gpu: String(i), name: gpu.name } }]
  }), ['gpu', 'name'])

const TABLE: readonly Row<GpuMetricsParts>[] = [
  each('svc_gpu_memory_bytes', 'Memory of a GPU that this node can use.',
    (gpu) => gpu.vramTotalBytes),
  each('svc_gpu_memory_used_bytes', 'Memory in use on the GPU, by any program.',
    (gpu) => gpu.vramUsedBytes),
  each('svc_gpu_utilization_ratio', 'Busy share of the GPU, 0 to 1.', (gpu) => gpu.utilizationRatio),
  each('svc_gpu_temperature_celsius', 'Temperature of the GPU.', (gpu) => gpu.temperatureCelsius),
  each('svc_gpu_power_watts', 'Power consumption of the GPU.', (gpu) => gpu.powerWatts)
]

/** Metrics from this node's last GPU reading, taken every 30 s and at each placement, load and unload. */
export function gpuMetrics (meters: Meters, parts: GpuMetricsParts): void {
  meters.table(() => parts, TABLE)
}
