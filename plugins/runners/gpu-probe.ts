import { execFile } from 'node:child_process'
import { readdir, readFile, stat } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { cudaHidden } from './gpu-facts.js'
import type { Controller, RawProbe, Runtimes } from './gpu-facts.js'

/** What the probe reads of the machine. Tests give their own. */
export interface ProbeIo {
  platform: string
  arch: string
  env: Readonly<Record<string, string | undefined>>
  /** Names in a folder; empty when it is not there. */
  list (folder: string): Promise<string[]>
  /** Text of a file, trimmed; null when it cannot be read. */
  read (file: string): Promise<string | null>
  /** Whether a shared library is there. An install puts short notes where those for CUDA would lie. */
  hasLibrary (file: string): Promise<boolean>
  /** The display adapters by the `systeminformation` package. */
  controllers (): Promise<Controller[]>
  nvidiaSmi (): Promise<string>
  /** Folder of the ONNX runtime's native libraries; null when the package is not installed. */
  runtimeFolder (): string | null
}

const run = promisify(execFile)
const COMMAND_TIMEOUT_MS = 15_000
/** Longer than the notes of kernel/build/without-cuda.mjs, shorter than any library. */
const NOTE_BYTES = 4096
const LIBRARY_FOLDERS = [
  '/usr/lib',
  '/usr/lib64',
  '/usr/local/lib',
  '/usr/lib/x86_64-linux-gnu',
  '/usr/lib/aarch64-linux-gnu'
]

/** Everything that only needs a few files: fast enough to wait for before the first runner starts. */
export async function probeRuntimes (io: ProbeIo): Promise<Runtimes> {
  const folder = io.runtimeFolder()
  const cuda = folder !== null && (await io.hasLibrary(join(folder, 'libonnxruntime_providers_cuda.so')))
  const nvidiaDevice = !cudaHidden(io.env['CUDA_VISIBLE_DEVICES']) && (await nvidiaDevices(io)).length > 0
  return { cuda, webgpu: folder !== null && (await hasWebgpu(io)), nvidiaDevice }
}

/** The WebGPU provider is part of the runtime on macOS and on Linux x64, where it loads Vulkan. */
async function hasWebgpu (io: ProbeIo): Promise<boolean> {
  if (io.platform === 'darwin') return io.arch === 'arm64'
  if (io.platform !== 'linux' || io.arch !== 'x64') return false
  const found = await Promise.all(LIBRARY_FOLDERS
    .map((folder) => io.hasLibrary(join(folder, 'libvulkan.so.1'))))
  return found.includes(true)
}

/** Asks every source about GPUs. Never throws; what could not be asked is in `problems`. */
export async function probeGpus (io: ProbeIo): Promise<RawProbe> {
  const problems: string[] = []
  const ask = async <T>(what: string, fallback: T, call: () => Promise<T>): Promise<T> => {
    try {
      return await call()
    } catch (error) {
      problems.push(
        `${what}: ${error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error)}`
      )
      return fallback
    }
  }
  const devices = await nvidiaDevices(io)
  const driver = await nvidiaDriver(io)
  const present = devices.length > 0 || driver.length > 0
  const [controllers, drm, nvidiaSmi] = await Promise.all([
    ask<Controller[]>('systeminformation', [], () => io.controllers()),
    drmCards(io),
    present ? ask<string | null>('nvidia-smi', null, () => io.nvidiaSmi()) : null
  ])
  return {
    platform: io.platform,
    arch: io.arch,
    controllers,
    drm,
    nvidiaDriver: driver,
    nvidiaDevices: devices,
    nvidiaSmi,
    problems,
    cudaVisibleDevices: io.env['CUDA_VISIBLE_DEVICES']
  }
}

async function nvidiaDevices (io: ProbeIo): Promise<string[]> {
  return (await io.list('/dev')).filter((name) => /^nvidia\d+$/.test(name))
}

async function nvidiaDriver (io: ProbeIo): Promise<string[]> {
  const folder = '/proc/driver/nvidia/gpus'
  const texts = await Promise.all(
    (await io.list(folder)).map((gpu) => io.read(join(folder, gpu, 'information')))
  )
  return texts.map((text) => /^Model:\s*(.+)$/m.exec(text ?? '')?.[1]?.trim() ?? 'NVIDIA GPU')
}

async function drmCards (io: ProbeIo): Promise<RawProbe['drm']> {
  const cards = (await io.list('/sys/class/drm')).filter((name) => /^card\d+$/.test(name))
  const facts = await Promise.all(
    cards.map(async (card) => {
      const device = join('/sys/class/drm', card, 'device')
      const [vendorId, vram] = await Promise.all([
        io.read(join(device, 'vendor')),
        io.read(join(device, 'mem_info_vram_total'))
      ])
      return vendorId === null ? [] : [{ vendorId, vramBytes: vram === null ? null : Number(vram) || null }]
    })
  )
  return facts.flat()
}

/** The real machine. */
export function systemProbe (env: ProbeIo['env'] = process.env): ProbeIo {
  return {
    platform: process.platform,
    arch: process.arch,
    env,
    list: async (folder) => await readdir(folder).catch(() => []),
    read: async (file) => (await readFile(file, 'utf8').catch(() => null))?.trim() ?? null,
    hasLibrary: async (file) => await stat(file).then(({ size }) => size > NOTE_BYTES, () => false),
    controllers: async () => await askController(env),
    nvidiaSmi: async () =>
      (
        await run('nvidia-smi', ['--query-gpu=name,memory.total', '--format=csv,noheader,nounits'], {
          timeout: COMMAND_TIMEOUT_MS
        })
      ).stdout,
    runtimeFolder
  }
}

/**
 * The package runs vendor tools synchronously, and a sick driver can hang them; so it runs in a process of
 * its own that can be killed, and is never loaded into the node.
 */
async function askController (env: ProbeIo['env']): Promise<Controller[]> {
  const script =
    'const si = (await import(process.argv[1])).default; ' +
    'process.stdout.write(JSON.stringify((await si.graphics()).controllers))'
  const { stdout } = await run(
    process.execPath,
    ['--input-type=module', '--eval', script, import.meta.resolve('systeminformation')],
    {
      timeout: COMMAND_TIMEOUT_MS,
      killSignal: 'SIGKILL',
      maxBuffer: 4 * 1024 * 1024,
      env: { PATH: env['PATH'], LANG: 'C' }
    }
  )
  return JSON.parse(stdout) as Controller[]
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
