import { readdir, stat } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'

/** Which GPU backends could be loaded here, judged by files alone. */
export interface Runtimes {
  /** The CUDA provider lies beside the ONNX runtime. */
  cuda: boolean
  /** The ONNX runtime of this platform has WebGPU and the loader it needs. */
  webgpu: boolean
  /** An NVIDIA device file is there, and CUDA is not kept from it. */
  nvidiaDevice: boolean
}

/** What is looked at. Tests give their own. */
export interface RuntimeFiles {
  platform: string
  arch: string
  env: Readonly<Record<string, string | undefined>>
  /** Names in a folder; empty when it is not there. */
  list (folder: string): Promise<string[]>
  /** Whether a shared library is there. An install puts short notes where those for CUDA would lie. */
  hasLibrary (file: string): Promise<boolean>
  /** Folder of the ONNX runtime's native libraries; null when the package is not installed. */
  runtimeFolder (): string | null
  hasPackage (name: string): boolean
}

/** Longer than the notes of kernel/build/without-cuda.mjs, shorter than any library. */
const NOTE_BYTES = 4096
const LIBRARY_FOLDERS = [
  '/usr/lib',
  '/usr/lib64',
  '/usr/local/lib',
  '/usr/lib/x86_64-linux-gnu',
  '/usr/lib/aarch64-linux-gnu'
]

/** Looks for the libraries of GPU backends: fast enough to wait for before the first runner starts. */
export async function findRuntimes (files: RuntimeFiles): Promise<Runtimes> {
  const folder = files.runtimeFolder()
  const cuda = folder !== null && await files.hasLibrary(join(folder, 'libonnxruntime_providers_cuda.so'))
  const devices = (await files.list('/dev')).filter((name) => /^nvidia\d+$/.test(name))
  const nvidiaDevice = !cudaHidden(files.env['CUDA_VISIBLE_DEVICES']) && devices.length > 0
  return { cuda, webgpu: folder !== null && await hasWebgpu(files), nvidiaDevice }
}

/** CUDA_VISIBLE_DEVICES set to nothing or to -1 hides every NVIDIA GPU, as it does for CUDA itself. */
export function cudaHidden (cudaVisibleDevices: string | undefined): boolean {
  return cudaVisibleDevices !== undefined && /^\s*(-1.*)?$/.test(cudaVisibleDevices)
}

/** The WebGPU provider is part of the runtime on macOS and on Linux x64, where it loads Vulkan. */
async function hasWebgpu ({ platform, arch, hasLibrary }: RuntimeFiles): Promise<boolean> {
  if (platform === 'darwin') return arch === 'arm64'
  if (platform !== 'linux' || arch !== 'x64') return false
  const found = await Promise.all(LIBRARY_FOLDERS.map((folder) => hasLibrary(join(folder, 'libvulkan.so.1'))))
  return found.includes(true)
}

export function runtimeFiles (env: RuntimeFiles['env'] = process.env): RuntimeFiles {
  return {
    platform: process.platform,
    arch: process.arch,
    env,
    list: async (folder) => await readdir(folder).catch(() => []),
    hasLibrary: async (file) => await stat(file).then(({ size }) => size > NOTE_BYTES, () => false),
    runtimeFolder,
    hasPackage
  }
}

function hasPackage (name: string): boolean {
  try {
    return createRequire(import.meta.url).resolve(name) !== ''
  } catch {
    return false
  }
}

/** Resolving the package does not load it: its native library stays out of the node. */
function runtimeFolder (): string | null {
  try {
    const manifest = createRequire(import.meta.url).resolve('onnxruntime-node/package.json')
    return join(dirname(manifest), 'bin', 'napi-v6', process.platform, process.arch)
  } catch {
    return null
  }
}
