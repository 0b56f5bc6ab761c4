import type { Context, Gpu, Logger, Caller, Machine } from '../../../kernel/index.js'
import { overrideVariable, declaredBackend } from './backends.js'
import type { BinaryOverride, checkOverrides } from './backends.js'
import { conflicts } from '../declarations.js'
import { byCode, detect, invalidBinaries } from './detect.js'
import type { Conflict, ConflictCode, EngineOffer } from './detect.js'
import { reasonOf } from '../process/errors.js'
import { cudaHidden, findRuntimes } from './runtimes.js'
import type { RuntimeFiles, Runtimes } from './runtimes.js'

/** GPUs are looked for this long after the start, so as not to delay the first model. */
const GPU_DELAY_MS = 1_000

interface DetectionParts {
  files: RuntimeFiles
  gpus: Machine['gpus']
  overrides: () => ReturnType<typeof checkOverrides>
  declared: Readonly<Record<string, unknown>>
  /** Options by engine. */
  options: Readonly<Record<string, unknown>>
  engines: EngineOffer[]
  log: Logger
  clock: Context['clock']
  raise (code: ConflictCode, observed: string): void
  clear (code: ConflictCode): void
}

/** What is known about this machine's hardware, and the conflicts with what was declared. */
export interface Detection {
  /** Resolves once the quick look at files is done; runners wait for it. */
  readonly probed: Promise<void>
  readonly runtimes: Runtimes
  /** Backends this node offers: what is found and, honoured unseen, what is declared. */
  backends (): string[]
  /** The binary override of an engine, usable or not, if one is set. */
  binary (engine: string): BinaryOverride | undefined
  stop (): void
}

/** Looks at files at once and at the GPUs a moment later, both in the background; raises the conflicts. */
export function startDetection (parts: DetectionParts): Detection {
  let runtimes: Runtimes = { cuda: false, webgpu: false, nvidiaDevice: false }
  let gpus: readonly Gpu[] = []
  let overrides: BinaryOverride[] = []
  let stopped = false
  warnUnknownEngines(parts)
  const quick = async (): Promise<void> => {
    const [found, binaries] = await Promise.all([findRuntimes(parts.files), parts.overrides()])
    runtimes = found
    overrides = binaries
    if (!stopped) publish(parts, ['invalid_engine_binary'], invalidBinaries(binaries))
  }
  const probed = quick().catch((error: unknown) => {
    parts.log.warn({ error: reasonOf(error) }, 'could not look for GPU backends; using the CPU')
  })
  const full = async (): Promise<void> => {
    await probed
    const { gpus: there, problems } = await parts.gpus()
    const hidden = cudaHidden(parts.files.env['CUDA_VISIBLE_DEVICES'])
    gpus = there.filter(({ vendor }) => vendor !== 'nvidia' || !hidden)
    const found = detect({ gpus, runtimes, binaries: [], problems }, parts.declared, parts.engines)
    if (!stopped) {
      publish(parts, ['gpu_serving_disabled', 'gpu_detection_degraded', 'backend_override_conflict'], found)
    }
  }
  const cancel = parts.clock.after(GPU_DELAY_MS, () => {
    full().catch((error: unknown) => {
      parts.log.warn({ error: reasonOf(error) }, 'could not look for GPUs')
    })
  })
  return {
    probed,
    get runtimes () {
      return runtimes
    },
    binary: (engine) => overrides.find(({ variable }) => variable === overrideVariable(engine)),
    backends: () => offered(runtimes, gpus, parts.declared),
    stop () {
      stopped = true
      cancel()
    }
  }
}

function publish (
  { raise, clear, log }: DetectionParts,
  codes: readonly ConflictCode[],
  found: Conflict[]
): void {
  for (const code of codes) {
    const observed = byCode(found, code)
    if (observed === null) {
      clear(code)
      continue
    }
    raise(code, `${observed}.`)
    log.warn({ code, observed }, conflicts[code].meaning)
  }
}

/** A name nobody brings is most likely a typing error; it is said, and harms nothing. */
function warnUnknownEngines ({ declared, options, engines, log }: DetectionParts): void {
  const known = engines.map(({ name }) => name)
  for (const [table, named] of [['backends', declared], ['engine_options', options]] as const) {
    for (const name of Object.keys(named).filter((key) => !known.includes(key))) {
      log.warn(
        { engine: name, known },
        `plugins.runners.${table}.${name} names an engine that no enabled plugin brings`
      )
    }
  }
}

function offered (runtimes: Runtimes, gpus: readonly Gpu[], declared: DetectionParts['declared']): string[] {
  const wanted = Object.keys(declared).map((engine) => declaredBackend(declared, engine))
  const there = {
    cpu: true,
    cuda: runtimes.cuda && runtimes.nvidiaDevice,
    webgpu: runtimes.webgpu && gpus.length > 0
  }
  return (['cpu', 'cuda', 'webgpu'] as const).filter((name) => there[name] || wanted.includes(name))
}

/** One part of /state, as its caller may see it. */
export type View = (caller: Caller, base?: unknown) => unknown
type ByNode = Record<string, Record<string, unknown>>

/** What the kernel shows under nodeResources, with this node's backends and whether it may share a model. */
export function nodeResources (nodeId: string, backends: () => string[], rpcForEveryUser: boolean): View {
  return (_caller, base) => {
    const nodes = (base ?? {}) as ByNode
    return { ...nodes, [nodeId]: { ...nodes[nodeId], backends: backends(), rpcForEveryUser } }
  }
}
