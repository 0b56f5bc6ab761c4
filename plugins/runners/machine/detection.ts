import { basename } from 'node:path'
import type { Caller, Context, Logger, ProgramDecl } from '../../../kernel/index.js'
import {
  binaryProblem, declaredBackend, isFound, offersOf, overrideVariable, findConflict, whyGpuUnused
} from './backends.js'
import type { BinaryOverride, ConflictCode, EngineOffer, Observation } from './backends.js'
import { findLibrary, findProgram, outputOf, readDevices } from './programs.js'
import type { Build, Library, Program } from './programs.js'
import { conflicts } from '../declarations.js'
import { reasonOf } from '../process/errors.js'
import { cudaHidden, findRuntimes } from './runtimes.js'
import type { RuntimeFiles, Runtimes } from './runtimes.js'
import type { Drivers, OfferedDriver } from '../service.js'
import type { Machine } from './vitals.js'

/** Milliseconds between the start and the GPU detection, so that detection does not delay the first model. */
const GPU_DELAY_MS = 1_000

const PROGRAMS_MS = 10

/** The program (named by a variable or found on the machine) or the library that runs an engine. */
export type Driver = BinaryOverride | Program | Library | OfferedDriver

interface DetectionParts extends Pick<Observation, 'declared'> {
  engines: readonly (EngineOffer & { program?: ProgramDecl | undefined })[]
  home: string
  uid: number
  /** Why the sandbox of runners is incomplete; null if it is complete. */
  sandboxProblem? (): string | null
  files: RuntimeFiles
  gpus: Machine['gpus']
  overrides (): Promise<BinaryOverride[]>
  options: Readonly<Record<string, unknown>>
  log: Logger
  clock: Context['clock']
  raise (code: ConflictCode, observed: string): void
  clear (code: ConflictCode): void
}

export type Detection = ReturnType<typeof startDetection>

/** Checks files immediately and GPUs a moment later, both in the background, and raises the conflicts. */
export function startDetection (parts: DetectionParts) {
  const { files, declared, engines, clock, log } = parts
  const none: Runtimes = { cuda: false, webgpu: false, nvidiaDevice: false }
  const seen: Observation = { gpus: [], runtimes: none, binaries: [], problems: [], declared, engines }
  let stopped = false
  warnUnknownEngines(parts)
  const publish = (...codes: ConflictCode[]): void => {
    for (const code of stopped ? [] : codes) publishOne(parts, code, findConflict(code, seen))
  }
  const libraries = librariesOf(parts)
  const programs = cached(clock, () => programsOf(parts, seen, libraries, offered))
  const offered = new Map<string, () => OfferedDriver | null>()
  const lists = deviceLists(files.env, parts.uid)
  /** The GPUs that the engine's program lists; null if it has not been queried yet or lists none. */
  const devices: Devices = (engine) => lists.of(programs()[engine], gpusChecked)
  let gpusChecked = false
  const offers = (): EngineOffer[] => offersHere(engines, programs(), devices)
  const detectFiles = async (): Promise<void> => {
    [seen.runtimes, seen.binaries] = await Promise.all([findRuntimes(files), parts.overrides()])
    publish('invalid_engine_binary')
    // Listing devices takes half a second, so only machines with a GPU wait for it before the first model.
    const gpu = seen.runtimes.nvidiaDevice || files.platform === 'darwin' ||
      (await files.list('/dev/dri')).some((name) => name.startsWith('render'))
    if (gpu) await Promise.all(Object.values(programs()).map(lists.ask))
  }
  const probed = detectFiles().catch((error: unknown) => {
    log.warn({ error: reasonOf(error) }, 'could not detect GPU backends; using the CPU')
  })
  const detectGpus = async (): Promise<void> => {
    await probed
    const { gpus, problems } = await parts.gpus()
    const hidden = cudaHidden(files.env['CUDA_VISIBLE_DEVICES'])
    seen.gpus = gpus.filter(({ vendor }) => vendor !== 'nvidia' || !hidden)
    seen.problems = problems
    await Promise.all(Object.values(programs()).map(lists.ask))
    gpusChecked = true
    seen.engines = offers()
    publish('gpu_serving_disabled', 'gpu_detection_degraded', 'backend_override_conflict')
  }
  const cancel = clock.after(GPU_DELAY_MS, () => {
    seen.sandboxProblem = parts.sandboxProblem?.() ?? null
    publish('runners_unconfined')
    detectGpus().catch((error: unknown) => {
      log.warn({ error: reasonOf(error) }, 'could not detect GPUs')
    })
  })
  return {
    offer: offerInto(offered),
    /** Resolves after the quick check of files; runners wait for this. */
    probed,
    get runtimes () { return seen.runtimes },
    /** The binary override of an engine, usable or not, if one is set. */
    binary: (engine: string) => seen.binaries.find(({ variable }) => variable === overrideVariable(engine)),
    programs,
    /** Why an engine cannot use its library; null for an engine without one. */
    without: (engine: string) => whyNone(libraries.get(engine)),
    devices,
    notes: () => notesOf(offers(), programs(), seen),
    /** Usable backends by engine: the detected ones, and a declared one even if it is not detected. */
    backends: (): Record<string, string[]> => Object.fromEntries(engines.map((engine) =>
      [engine.name, usableBackends(engine, programs()[engine.name], devices(engine.name), seen)])),
    stop () {
      stopped = true
      cancel()
    }
  }
}

/** The drivers, at most PROGRAMS_MS old: model listings need them, and searching PATH blocks the loop. */
function cached (clock: Context['clock'], find: () => Programs): () => Programs {
  let found: { atMs: number, programs: Programs } | undefined
  return () => {
    const atMs = clock.mono()
    if (found === undefined || atMs - found.atMs >= PROGRAMS_MS) found = { atMs, programs: find() }
    return found.programs
  }
}

const offerInto = (offered: Map<string, () => OfferedDriver | null>): Drivers['offer'] => (engine, find) => {
  offered.set(engine, find)
  return () => { offered.delete(engine) }
}

/** The driver of each engine; null if the engine has none. */
type Programs = Record<string, Driver | null>
type Devices = (engine: string) => readonly string[] | null

function offersHere (
  engines: DetectionParts['engines'], programs: Programs, devices: Devices
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

/** Only warns about an unknown engine name, because it is most likely a typo. */
function warnUnknownEngines ({ declared, options, engines, log }: DetectionParts): void {
  const known = engines.map(({ name }) => name)
  for (const [table, named] of Object.entries({ backends: declared, engine_options: options })) {
    for (const engine of Object.keys(named).filter((key) => !known.includes(key))) {
      log.warn({ engine, known },
        `plugins.runners.${table}.${engine} names an engine that no enabled plugin provides`)
    }
  }
}

const whyNone = (library: Library | string | undefined): string | null =>
  typeof library === 'string' ? library : null

type Found = Driver | null | undefined

export const isLibrary = (found: Found): found is Library => found != null && 'library' in found

const isProgram = (found: Found): found is BinaryOverride | Program | OfferedDriver => found != null &&
  !isLibrary(found)

/**
 * The devices that programs list, queried once per program. The node runs programs outside a sandbox to query
 * them, so it skips programs that another user may have written.
 */
function deviceLists (env: RuntimeFiles['env'], uid: number) {
  const asked = new Map<string, Promise<void>>()
  const known = new Map<string, string[] | null>()
  const ask = async (program: Found): Promise<void> => {
    if (!isProgram(program) || 'build' in program || 'options' in program) return
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
    /** The devices that a program lists; null until known. With `late`, starts a query if unknown. */
    of (program: Found, late: boolean): string[] | null {
      if (!isProgram(program)) return null
      if ('devices' in program) return program.devices
      if ('build' in program) return devicesOf(program.build)
      if (late) void ask(program)
      return known.get(program.path) ?? null
    }
  }
}

/** An old CUDA build lists no devices, which means that its devices are unknown, not absent. */
const devicesOf = ({ backend, devices }: Build): string[] | null =>
  devices.length === 0 && backend === 'cuda' ? null : devices

function usableBackends (
  { name: engine, backends, external }: EngineOffer, driver: Found, devices: readonly string[] | null,
  { declared, runtimes, gpus }: Observation
): string[] {
  if (isLibrary(driver)) return [...driver.library.backends]
  const wanted = declaredBackend(declared, engine)
  const usable = offersOf(backends, devices).filter((name) => name === 'webgpu'
    ? runtimes.webgpu && gpus.length > 0 : isFound(name, { external, devices }, runtimes))
  return wanted === undefined || usable.includes(wanted) ? usable : [wanted, ...usable]
}

/** Drivers of the engines that declare a program; an override is included even if it is unusable. */
function programsOf (
  { engines, home, files: { env } }: DetectionParts, { binaries }: Observation,
  libraries: ReadonlyMap<string, Library | string>, offered: ReadonlyMap<string, () => OfferedDriver | null>
): Record<string, Driver | null> {
  const driving = engines.flatMap(({ name, program }) => program === undefined ? [] : [{ name, program }])
  return Object.fromEntries(driving.map(({ name, program }) => {
    const offer = offered.get(name)
    if (offer !== undefined) return [name, offer()]
    const named = binaries.find(({ variable }) => variable === overrideVariable(name))
    const library = libraries.get(name)
    const found = named ?? findProgram({ home, env }, program)
    return [name, found ?? (typeof library === 'object' ? library : null)]
  }))
}

/** The library of each engine, or why it cannot be used. Checked once, because it is installed with svc. */
function librariesOf ({ engines, files, declared }: DetectionParts): Map<string, Library | string> {
  return new Map(engines.flatMap(({ name, program }) => {
    const library = program?.otherwise
    if (library === undefined) return []
    const wanted = declaredBackend(declared, name)
    const usable = wanted === undefined || library.backends.includes(wanted)
    return [[name, usable ? findLibrary(files, library)
      : `${library.name} does not support ${wanted}, which plugins.runners.backends.${name} requires`]]
  }))
}

/**
 * Adds to nodeResources in /state: this node's backends, the programs of its engines, the fact that it runs
 * models, whether it may share a model with other nodes, and the RAM that its operator allows to models.
 */
export function nodeResources (
  nodeId: string, { backends, programs, notes }: Pick<Detection, 'backends' | 'programs' | 'notes'>,
  rpcForEveryUser: boolean, memoryMib?: number
): (caller: Caller, base?: unknown) => unknown {
  return (_caller, base) => {
    const nodes = (base ?? {}) as Record<string, Record<string, unknown>>
    const engines = Object.fromEntries(Object.entries(programs()).map(([name, one]) => [name, shown(one)]))
    const engineBackends = backends()
    const all = [...new Set(['cpu', ...Object.values(engineBackends).flat()])]
    return {
      ...nodes, [nodeId]: {
        ...nodes[nodeId], participation: 'full', backends: all, engineBackends, engines, engineNotes: notes(),
        rpcForEveryUser, ...memoryMib === undefined ? {} : { modelMemoryBytes: memoryMib * 2 ** 20 }
      }
    }
  }
}

/** The driver as shown in /state, without paths, which reveal details of the machine. */
function shown (driver: Driver | null): object | null {
  if (driver === null) return null
  if ('options' in driver) {
    const { from, words, programs, fixedBytes, gangs = {} } = driver
    const shared = Object.entries(gangs).map(([name, { address: _, ...gang }]) => [name, gang])
    return { from, words, programs, fixedBytes, gangs: Object.fromEntries(shared) as object }
  }
  const words = describe(driver)
  if ('variable' in driver) return { from: 'variable', usable: driver.problem === null, words }
  if (driver.from !== 'build') return { from: driver.from, words }
  const { build: { tag, backend, devices } } = driver
  return { from: 'build', tag, backend, devices, words }
}

function describe (driver: Exclude<Driver, OfferedDriver>): string {
  if ('variable' in driver) return `the program set by ${driver.variable}`
  if (driver.from === 'library') return `${driver.library.name} (${driver.library.backends.join(', ')})`
  return driver.from === 'path' ? `${basename(driver.path)} in PATH` : `the build ${driver.build.name}`
}
