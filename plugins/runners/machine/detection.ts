import { basename } from 'node:path'
import type { Caller, Context, Logger, ProgramDecl } from '../../../kernel/index.js'
import { binaryProblem, declaredBackend, isFound, offersOf, overrideVariable } from './backends.js'
import type { BinaryOverride } from './backends.js'
import { findConflict, whyGpuUnused } from './conflicts.js'
import type { ConflictCode, EngineOffer, Observation } from './conflicts.js'
import { findLibrary, findProgram, outputOf, readDevices } from './programs.js'
import type { Build, Library, Program } from './programs.js'
import { conflicts } from '../declarations.js'
import { reasonOf } from '../process/errors.js'
import { cudaHidden, findRuntimes } from './runtimes.js'
import type { RuntimeFiles, Runtimes } from './runtimes.js'
import type { Machine } from './vitals.js'

/** GPUs are looked for this long after the start, so as not to delay the first model. */
const GPU_DELAY_MS = 1_000

/** Time after which PATH is searched again, ms. */
const PROGRAMS_MS = 10

/** The program that an engine drives on a node, named by a variable or found, or the library it uses. */
export type Driver = BinaryOverride | Program | Library

interface DetectionParts extends Pick<Observation, 'declared'> {
  engines: readonly (EngineOffer & { program?: ProgramDecl | undefined })[]
  home: string
  /** The user that the node runs as. */
  uid: number
  /** Says what the sandbox of runners lacks; null for nothing. */
  unheld? (): string | null
  files: RuntimeFiles
  gpus: Machine['gpus']
  overrides (): Promise<BinaryOverride[]>
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
  /** By engine, the backends it can use here: what is found and, honoured unseen, what is declared. */
  backends (): Record<string, string[]>
  /** By engine, why it does not use a GPU that is here. */
  notes (): Record<string, string>
  /** The GPUs that the program of an engine lists; null where it was not asked yet or lists none. */
  devices (engine: string): readonly string[] | null
  /** The binary override of an engine, usable or not, if one is set. */
  binary (engine: string): BinaryOverride | undefined
  /** By engine: what it drives here, found within the last 100 ms; null where there is nothing. */
  programs (): Record<string, Driver | null>
  /** Why an engine cannot use its library; null for an engine without one. */
  without (engine: string): string | null
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
  const libraries = librariesOf(parts)
  let found: { atMs: number, programs: ReturnType<Detection['programs']> } | undefined
  const programs: Detection['programs'] = () => {
    const nowMs = clock.mono()
    // Every listing of models asks for each of them, and searching PATH blocks.
    if (found === undefined || nowMs - found.atMs >= PROGRAMS_MS) {
      found = { atMs: nowMs, programs: programsOf(parts, seen, libraries) }
    }
    return found.programs
  }
  const lists = deviceLists(files.env, parts.uid)
  const devices: Detection['devices'] = (engine) => lists.of(programs()[engine], looked)
  let looked = false
  const offers = (): EngineOffer[] => offersHere(engines, programs(), devices)
  const lookAtFiles = async (): Promise<void> => {
    [seen.runtimes, seen.binaries] = await Promise.all([findRuntimes(files), parts.overrides()])
    publish('invalid_engine_binary')
    // Half a second that only machines with a GPU need before the first model.
    const gpu = seen.runtimes.nvidiaDevice || files.platform === 'darwin' ||
      (await files.list('/dev/dri')).some((name) => name.startsWith('render'))
    if (gpu) await Promise.all(Object.values(programs()).map(lists.ask))
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
    await Promise.all(Object.values(programs()).map(lists.ask))
    looked = true
    seen.engines = offers()
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
    without: (engine) => whyNone(libraries.get(engine)),
    devices,
    notes: () => notesOf(offers(), programs(), seen),
    backends: () => Object.fromEntries(engines.map((engine) => {
      const { name } = engine
      return [name, usableBackends(engine, programs()[name], devices(name), seen)]
    })),
    stop () {
      stopped = true
      cancel()
    }
  }
}

type Programs = ReturnType<Detection['programs']>

/** The engines with what each has here. */
function offersHere (
  engines: DetectionParts['engines'], programs: Programs, devices: Detection['devices']
): EngineOffer[] {
  return engines.map(({ program, ...engine }) => ({
    ...engine, devices: devices(engine.name),
    ...program === undefined ? {} : { present: isProgram(programs[engine.name]), builds: program.builds }
  }))
}

function notesOf (
  offers: readonly EngineOffer[], programs: Programs, seen: Observation
): Record<string, string> {
  return Object.fromEntries(offers.flatMap((engine) => {
    const driver = programs[engine.name]
    const why = isLibrary(driver) && driver.library.backends.length > 1 ? null : whyGpuUnused(engine, seen)
    return why === null ? [] : [[engine.name, why]]
  }))
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

const whyNone = (library: Library | string | undefined): string | null =>
  typeof library === 'string' ? library : null

type Found = Driver | null | undefined

export const isLibrary = (found: Found): found is Library => found != null && 'library' in found

const isProgram = (found: Found): found is BinaryOverride | Program =>
  found != null && !isLibrary(found)

/**
 * The devices that programs list, each asked once. The node runs them outside of a sandbox, so those that
 * another user may have written are not asked.
 */
function deviceLists (env: RuntimeFiles['env'], uid: number): {
  ask (program: Found): Promise<void>
  /** Null until it is known; a program that came later is asked when `late`. */
  of (program: Found, late: boolean): string[] | null
} {
  const asked = new Map<string, Promise<void>>()
  const known = new Map<string, string[] | null>()
  const ask = async (program: Found): Promise<void> => {
    if (!isProgram(program) || 'build' in program) return
    const { path } = program
    const devices = async (): Promise<string[] | null> => await binaryProblem(path, uid) === null
      ? readDevices(await outputOf(path, '--list-devices', env)) : null
    if (!asked.has(path)) {
      asked.set(path, devices().catch(() => null).then((list) => { known.set(path, list) }))
    }
    await asked.get(path)
  }
  return {
    ask,
    of (program, late) {
      if (!isProgram(program)) return null
      if ('build' in program) return devicesOf(program.build)
      if (late) void ask(program)
      return known.get(program.path) ?? null
    }
  }
}

/** A build of an old release lists no devices, whatever it is for. */
const devicesOf = ({ backend, devices }: Build): string[] | null =>
  devices.length === 0 && backend === 'cuda' ? null : devices

/** All that is found, and what is declared unseen. */
function usableBackends (
  engine: EngineOffer, driver: Found, devices: readonly string[] | null, seen: Observation
): string[] {
  if (isLibrary(driver)) return [...driver.library.backends]
  const wanted = declaredBackend(seen.declared, engine.name)
  const usable = offered(engine, devices, seen)
  return wanted === undefined || usable.includes(wanted) ? usable : [wanted, ...usable]
}

/** Without what is declared. */
function offered (
  engine: EngineOffer, devices: readonly string[] | null, { runtimes, gpus }: Observation
): string[] {
  const { external } = engine
  return offersOf(engine.backends, devices).filter((name) => name === 'webgpu'
    ? runtimes.webgpu && gpus.length > 0 : isFound(name, { external, devices }, runtimes))
}

/** Engines that say which program they drive; what a variable names counts, usable or not. */
function programsOf (
  { engines, home, files: { env } }: DetectionParts, { binaries }: Observation,
  libraries: ReadonlyMap<string, Library | string>
): Record<string, Driver | null> {
  const driving = engines.flatMap(({ name, program }) => program === undefined ? [] : [{ name, program }])
  return Object.fromEntries(driving.map(({ name, program }) => {
    const named = binaries.find(({ variable }) => variable === overrideVariable(name))
    const library = libraries.get(name)
    const found = named ?? findProgram({ home, env }, program)
    return [name, found ?? (typeof library === 'object' ? library : null)]
  }))
}

/** By engine, its library, or why it cannot be used. Looked for once, as it is installed with svc. */
function librariesOf ({ engines, files, declared }: DetectionParts): Map<string, Library | string> {
  return new Map(engines.flatMap(({ name, program }) => {
    const library = program?.otherwise
    if (library === undefined) return []
    const wanted = declaredBackend(declared, name)
    const usable = wanted === undefined || library.backends.includes(wanted)
    return [[name, usable ? findLibrary(files, library)
      : `${library.name} has no ${wanted}, which plugins.runners.backends.${name} asks for`]]
  }))
}

/**
 * What the kernel shows under nodeResources, with this node's backends, the programs of its engines, that it
 * runs models, and whether it may share one.
 */
export function nodeResources (
  nodeId: string, { backends, programs, notes }: Pick<Detection, 'backends' | 'programs' | 'notes'>,
  rpcForEveryUser: boolean
): (caller: Caller, base?: unknown) => unknown {
  return (_caller, base) => {
    const nodes = (base ?? {}) as Record<string, Record<string, unknown>>
    const engines = Object.fromEntries(Object.entries(programs()).map(([name, one]) => [name, shown(one)]))
    const engineBackends = backends()
    const all = [...new Set(['cpu', ...Object.values(engineBackends).flat()])]
    return {
      ...nodes, [nodeId]: {
        ...nodes[nodeId], participation: 'full', backends: all, engineBackends, engines, engineNotes: notes(),
        rpcForEveryUser
      }
    }
  }
}

/** Without paths, which tell of the machine. */
function shown (driver: Driver | null): object | null {
  if (driver === null) return null
  const words = inWords(driver)
  if ('variable' in driver) return { from: 'variable', usable: driver.problem === null, words }
  if (driver.from !== 'build') return { from: driver.from, words }
  const { build: { tag, backend, devices } } = driver
  return { from: 'build', tag, backend, devices, words }
}

/** Without paths. */
function inWords (driver: Driver): string {
  if ('variable' in driver) return `the program that ${driver.variable} names`
  if (driver.from === 'library') return `${driver.library.name} (${driver.library.backends.join(', ')})`
  return driver.from === 'path' ? `${basename(driver.path)} in PATH` : `the build ${driver.build.name}`
}
