import { readdir, stat } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { attempt } from '../process/proc.js'

/**
 * What is installed: the ONNX runtime's CUDA provider; its WebGPU with a loader; an NVIDIA device file that
 * is not hidden from CUDA.
 */
export interface Runtimes { cuda: boolean, webgpu: boolean, nvidiaDevice: boolean }

export type RuntimeFiles = ReturnType<typeof runtimeFiles>

/** Size limit in bytes of a note from kernel/build/without-cuda.mjs; every library is larger. */
const NOTE_BYTES = 4096
const LIBRARY_FOLDERS = [
  '/usr/lib',
  '/usr/lib64',
  '/usr/local/lib',
  '/usr/lib/x86_64-linux-gnu',
  '/usr/lib/aarch64-linux-gnu'
]

/** Finds the libraries of GPU backends, quickly enough for the first runner to wait for the result. */
export async function findRuntimes (files: RuntimeFiles): Promise<Runtimes> {
  const folder = files.runtimeFolder()
  const cuda = folder !== null && await files.hasLibrary(join(folder, 'libonnxruntime_providers_cuda.so'))
  const devices = (await files.list('/dev')).filter((name) => /^nvidia\d+$/.test(name))
  const nvidiaDevice = !cudaHidden(files.env['CUDA_VISIBLE_DEVICES']) && devices.length > 0
  return { cuda, webgpu: folder !== null && await hasWebgpu(files), nvidiaDevice }
}

/** CUDA_VISIBLE_DEVICES set to empty or -1 hides every NVIDIA GPU, as for CUDA itself. */
export function cudaHidden (cudaVisibleDevices: string | undefined): boolean {
  return cudaVisibleDevices !== undefined && /^\s*(-1.*)?$/.test(cudaVisibleDevices)
}

/** The runtime has the WebGPU provider on macOS arm64 and on Linux x64; on Linux it needs Vulkan. */
async function hasWebgpu ({ platform, arch, hasLibrary }: RuntimeFiles): Promise<boolean> {
  if (platform === 'darwin') return arch === 'arm64'
  if (platform !== 'linux' || arch !== 'x64') return false
  const found = await Promise.all(LIBRARY_FOLDERS.map((folder) => hasLibrary(join(folder, 'libvulkan.so.1'))))
  return found.includes(true)
}

/** Access to the files that detection reads, which tests replace. */
export function runtimeFiles (env: Readonly<Record<string, string | undefined>> = process.env) {
  return {
    platform: process.platform as string, arch: process.arch as string, env,
    /** Names in a folder; empty if the folder does not exist. */
    list: async (folder: string): Promise<string[]> => await readdir(folder).catch(() => []),
    /** True if a shared library exists. An install without CUDA has short notes in place of its libraries. */
    hasLibrary: async (file: string) => await stat(file).then(({ size }) => size > NOTE_BYTES, () => false),
    runtimeFolder, hasPackage
  }
}

const resolved = (name: string): string | null =>
  attempt(() => createRequire(import.meta.url).resolve(name), null)

const hasPackage = (name: string): boolean => resolved(name) !== null

/**
 * Folder of the ONNX runtime's native libraries; null if the package is not installed. Does not load the
 * library into the node process.
 */
function runtimeFolder (): string | null {
  const manifest = resolved('onnxruntime-node/package.json')
  return manifest && join(dirname(manifest), 'bin', 'napi-v6', process.platform, process.arch)
}
