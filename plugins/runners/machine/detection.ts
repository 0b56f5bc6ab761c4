import type { Caller, Context, Logger, Machine } from '../../../kernel/index.js'
import { declaredBackend, overrideVariable } from './backends.js'
import type { BinaryOverride } from './backends.js'
import { findConflict } from './conflicts.js'
import type { ConflictCode, EngineOffer, Observation } from './conflicts.js'
import { findProgram } from './programs.js'
import type { Program, ProgramDecl } from './programs.js'
import { conflicts } from '../declarations.js'
import { reasonOf } from '../process/errors.js'
import { cudaHidden, findRuntimes } from './runtimes.js'
import type { RuntimeFiles, Runtimes } from './runtimes.js'

/** GPUs are looked for this long after the start, so as not to delay the first model. */
const GPU_DELAY_MS = 1_000

/** Time after which PATH is searched again, ms. */
const PROGRAMS_MS = 100

interface DetectionParts extends Pick<Observation, 'declared'> {
  engines: readonly (EngineOffer & { program?: ProgramDecl | undefined })[]
  /** Of the node. */
  home: string
  /** Says what the sandbox of runners lacks; null for nothing. */
  unheld? (): string | null
  files: RuntimeFiles
  gpus: Machine['gpus']
  overrides (): Promise<BinaryOverride[]>
  /** Options by engine. */
  options: Readonly<Record<string, unknown>>
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
  /** By engine: the program it drives here, found within the last 100 ms; null where there is none. */
  programs (): Record<string, BinaryOverride | Program | null>
  stop (): void
}

/** Looks at files at once and at the GPUs a moment later, both in the background; raises the conflicts. */
export function startDetection (parts: DetectionParts): Detection {
  const { files, declared, engines, clock, log } = parts
  const none: Runtimes = { cuda: false, webgpu: false, nvidiaDevice: false }
  const seen: Observation = { gpus: [], runtimes: none, binaries: [], problems: [], declared, engines }
  let stopped = false
  warnUnknownEngines(parts)
  const publish = (...codes: ConflictCode[]): void => {
    for (const code of stopped ? [] : codes) publishOne(parts, code, findConflict(code, seen))
  }
  const lookAtFiles = async (): Promise<void> => {
    [seen.runtimes, seen.binaries] = await Promise.all([findRuntimes(files), parts.overrides()])
    publish('invalid_engine_binary')
  }
  let found: { atMs: number, programs: ReturnType<Detection['programs']> } | undefined
  const programs: Detection['programs'] = () => {
    const nowMs = clock.mono()
    // Every listing of models asks for each of them, and searching PATH blocks.
    if (found === undefined || nowMs - found.atMs >= PROGRAMS_MS) {
      found = { atMs: nowMs, programs: programsOf(parts, seen) }
    }
    return found.programs
  }
  const probed = lookAtFiles().catch((error: unknown) => {
    log.warn({ error: reasonOf(error) }, 'could not look for GPU backends; using the CPU')
  })
  const lookAtGpus = async (): Promise<void> => {
    await probed
    const { gpus, problems } = await parts.gpus()
    const hidden = cudaHidden(files.env['CUDA_VISIBLE_DEVICES'])
    seen.gpus = gpus.filter(({ vendor }) => vendor !== 'nvidia' || !hidden)
    seen.problems = problems
    seen.engines = engines.map((engine) => ({ ...engine, built: builtFor(programs()[engine.name]) }))
    publish('gpu_serving_disabled', 'gpu_detection_degraded', 'backend_override_conflict')
  }
  const cancel = clock.after(GPU_DELAY_MS, () => {
    seen.unheld = parts.unheld?.() ?? null
    publish('runners_unconfined')
    lookAtGpus().catch((error: unknown) => {
      log.warn({ error: reasonOf(error) }, 'could not look for GPUs')
    })
  })
  return {
    probed,
    get runtimes () { return seen.runtimes },
    binary: (engine) => seen.binaries.find(({ variable }) => variable === overrideVariable(engine)),
    programs,
    backends: () => offered(seen),
    stop () {
      stopped = true
      cancel()
    }
  }
}

function publishOne (
  { raise, clear, log }: DetectionParts, code: ConflictCode, observed: string | null
): void {
  if (observed === null) {
    clear(code)
    return
  }
  raise(code, `${observed}.`)
  log.warn({ code, observed }, conflicts[code].meaning)
}

/** A name nobody brings is most likely a typing error; it is said, and harms nothing. */
function warnUnknownEngines ({ declared, options, engines, log }: DetectionParts): void {
  const known = engines.map(({ name }) => name)
  for (const [table, named] of Object.entries({ backends: declared, engine_options: options })) {
    for (const engine of Object.keys(named).filter((key) => !known.includes(key))) {
      log.warn({ engine, known },
        `plugins.runners.${table}.${engine} names an engine that no enabled plugin brings`)
    }
  }
}

function offered ({ runtimes: { cuda, nvidiaDevice, webgpu }, gpus, declared }: Observation): string[] {
  const wanted = Object.keys(declared).map((engine) => declaredBackend(declared, engine))
  const there = { cpu: true, cuda: cuda && nvidiaDevice, webgpu: webgpu && gpus.length > 0 }
  return (['cpu', 'cuda', 'webgpu'] as const).filter((name) => there[name] || wanted.includes(name))
}

/** What the build in use was made for; undefined where no build of svc's is in use. */
export const builtFor = (program: BinaryOverride | Program | null | undefined): string | undefined =>
  program != null && 'build' in program ? program.build.backend : undefined

/** Engines that say which program they drive; what a variable names counts, usable or not. */
function programsOf (
  { engines, home, files: { env } }: DetectionParts, { binaries }: Observation
): Record<string, BinaryOverride | Program | null> {
  const driving = engines.flatMap(({ name, program }) => program === undefined ? [] : [{ name, program }])
  return Object.fromEntries(driving.map(({ name, program }) => {
    const named = binaries.find(({ variable }) => variable === overrideVariable(name))
    return [name, named ?? findProgram({ home, env }, program)]
  }))
}

/**
 * What the kernel shows under nodeResources, with this node's backends, the programs of its engines, and
 * whether it may share a model.
 */
export function nodeResources (
  nodeId: string, { backends, programs }: Pick<Detection, 'backends' | 'programs'>, rpcForEveryUser: boolean
): (caller: Caller, base?: unknown) => unknown {
  return (_caller, base) => {
    const nodes = (base ?? {}) as Record<string, Record<string, unknown>>
    const engines = Object.fromEntries(Object.entries(programs()).map(([name, one]) => [name, shown(one)]))
    return { ...nodes, [nodeId]: { ...nodes[nodeId], backends: backends(), engines, rpcForEveryUser } }
  }
}

/** Without paths, which tell of the machine. */
function shown (program: BinaryOverride | Program | null): object | null {
  if (program === null) return null
  if ('variable' in program) return { from: 'variable', usable: program.problem === null }
  if (program.from === 'path') return { from: 'path' }
  const { build: { tag, backend, devices } } = program
  return { from: 'build', tag, backend, devices }
}
