/** Who makes the GPU; `other` is a display adapter nobody serves from. */
export type GpuVendor = 'nvidia' | 'amd' | 'intel' | 'apple' | 'other'

/** A GPU as one source describes it. */
export interface GpuFact {
  vendor: GpuVendor
  name: string
  /** Dedicated memory; null when the source does not know it. */
  vramTotalBytes: number | null
  /** Shares the machine's memory, so that it has no size of its own. */
  unified: boolean
}

/** Which GPU backends could be loaded here, judged by files alone. */
export interface Runtimes {
  /** The CUDA provider lies beside the ONNX runtime. */
  cuda: boolean
  /** The ONNX runtime of this platform has WebGPU and the loader it needs. */
  webgpu: boolean
  /** An NVIDIA device file with its driver is there. */
  nvidiaDevice: boolean
}

/** A display adapter as the `systeminformation` package reports it; memory in MiB. */
export interface Controller {
  vendor?: string
  model?: string
  name?: string
  vram?: number | null
  memoryTotal?: number
}

/** What the separate sources said, before they are put together. */
export interface RawProbe {
  platform: string
  arch: string
  controllers: Controller[]
  /** `/sys/class/drm/card*`: PCI vendor id and, for AMD, the memory size in bytes. */
  drm: { vendorId: string, vramBytes: number | null }[]
  /** `/proc/driver/nvidia/gpus/*`: model names. */
  nvidiaDriver: string[]
  /** `/dev/nvidia0` and so on. */
  nvidiaDevices: string[]
  /** Output of `nvidia-smi --query-gpu=name,memory.total --format=csv,noheader,nounits`. */
  nvidiaSmi: string | null
  /** What could not be asked, one sentence each. */
  problems: string[]
  /** CUDA_VISIBLE_DEVICES, undefined when unset. */
  cudaVisibleDevices: string | undefined
}

const MIB = 1024 * 1024
const PCI_VENDORS: Readonly<Record<string, GpuVendor>> = {
  '0x10de': 'nvidia',
  '0x1002': 'amd',
  '0x8086': 'intel'
}

/** The maker named in a free text such as `NVIDIA Corporation`. */
export function vendorOf (text: string): GpuVendor {
  if (/nvidia/i.test(text)) return 'nvidia'
  if (/advanced micro|\bamd\b|\bati\b|radeon/i.test(text)) return 'amd'
  if (/intel/i.test(text)) return 'intel'
  return /apple/i.test(text) ? 'apple' : 'other'
}

/**
 * One list of GPUs out of what the sources said. Per maker the source that knows most is believed as a
 * whole, because the sources do not name their devices alike.
 */
export function mergeGpus (raw: RawProbe): GpuFact[] {
  const controllers = raw.controllers.map((controller) => fromController(controller, raw))
  const drm = raw.drm.map(fromDrm)
  const of = (list: GpuFact[], vendor: GpuVendor): GpuFact[] => list.filter((gpu) => gpu.vendor === vendor)
  const nvidia = cudaHidden(raw.cudaVisibleDevices)
    ? []
    : best([
        fromSmi(raw.nvidiaSmi),
        of(controllers, 'nvidia'),
        raw.nvidiaDriver.map(nvidiaNamed),
        of(drm, 'nvidia'),
        raw.nvidiaDevices.map(() => nvidiaNamed('NVIDIA GPU'))
      ])
  const others = (['amd', 'intel', 'apple'] as const).flatMap((vendor) =>
    best([of(drm, vendor), of(controllers, vendor)])
  )
  return [...nvidia, ...others]
}

/** CUDA_VISIBLE_DEVICES set to nothing or to -1 hides every NVIDIA GPU, as it does for CUDA itself. */
export function cudaHidden (cudaVisibleDevices: string | undefined): boolean {
  return cudaVisibleDevices !== undefined && /^\s*(-1.*)?$/.test(cudaVisibleDevices)
}

/** The first source that knows memory sizes, else the first that knows anything. */
function best (sources: GpuFact[][]): GpuFact[] {
  return (
    sources.find((list) => list.some((gpu) => gpu.vramTotalBytes !== null)) ??
    sources.find((list) => list.length > 0) ??
    []
  )
}

function nvidiaNamed (name: string): GpuFact {
  return { vendor: 'nvidia', name, vramTotalBytes: null, unified: false }
}

function fromSmi (output: string | null): GpuFact[] {
  return (output ?? '')
    .split('\n')
    .filter((line) => line.includes(','))
    .map((line) => {
      const cut = line.lastIndexOf(',')
      const mib = Number.parseInt(line.slice(cut + 1), 10)
      return { ...nvidiaNamed(line.slice(0, cut).trim()), vramTotalBytes: mib > 0 ? mib * MIB : null }
    })
}

function fromDrm ({ vendorId, vramBytes }: RawProbe['drm'][number]): GpuFact {
  const vendor = PCI_VENDORS[vendorId.toLowerCase()] ?? 'other'
  return { vendor, name: `${vendor} GPU`, vramTotalBytes: vramBytes, unified: vendor === 'intel' }
}

/** On Linux `vram` is the size of a PCI window, not of the memory; only `memoryTotal` is believed there. */
function fromController (controller: Controller, { platform }: RawProbe): GpuFact {
  const name = controller.name ?? controller.model ?? 'GPU'
  const vendor = vendorOf(`${controller.vendor ?? ''} ${controller.model ?? ''}`)
  const unified = vendor === 'apple' || vendor === 'intel'
  const mib = controller.memoryTotal ?? (platform === 'linux' || unified ? null : (controller.vram ?? null))
  return { vendor, name, vramTotalBytes: mib !== null && mib > 0 ? mib * MIB : null, unified }
}
