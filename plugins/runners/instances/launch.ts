import { readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Clock, Logger, LogRing, MemoryTraits, ModelCard, NodeInfo } from '../../../kernel/index.js'
import { addNeeds, cacheOf, needOf, type DeviceTarget } from '../cards/memory-forecast.js'
import { runsOn } from '../cards/backends.js'
import type { Bundle, BundledModel, RegisteredEngine } from '../cards/bundle.js'
import type { Models } from '../../staging/service.js'
import type { RunnerConfig } from '../declarations.js'
import type { RpcDrivers } from '../donors/driver.js'
import type { Gangs } from '../donors/gang.js'
import { opensPorts, roleOf, shareOf, type GangOffer, type Role } from '../donors/role.js'
import {
  chooseBackend, declaredBackend, offersOf, programMissing, type BackendChoice, type BinaryOverride
} from '../machine/backends.js'
import { isLibrary, type Detection } from '../machine/detection.js'
import { memoryLimitBytes } from '../machine/memory.js'
import { whyLibraryCannot } from '../machine/programs.js'
import { filesFor, type Files } from '../process/confine.js'
import { LaunchError } from '../process/errors.js'
import { modelOf, type ModelLeases } from './copies.js'
import type { PlacedInstances } from './document.js'
import type { LaunchOptions } from './runner-set.js'
import type { RingInstance, ShardBody } from './sections.js'
import { bodyOf, devicePartsOf, shardOf, type Assignment } from './shapes.js'

export interface LaunchParts {
  node: Pick<NodeInfo, 'nodeId' | 'home'>
  clock: Clock
  log: Logger
  env: Readonly<Record<string, string | undefined>>
  config: RunnerConfig
  bundle: Bundle
  /** Access to model files; absent if the plugin `staging` is off. */
  models: Models | undefined
  detection: Pick<Detection, 'runtimes' | 'binary' | 'programs' | 'devices' | 'without'>
  instances: Pick<PlacedInstances, 'get'>
  drivers: Pick<RpcDrivers, 'prepare' | 'plan' | 'begins'>
  gangs: Pick<Gangs, 'prepare' | 'plan'>
  leases: Pick<ModelLeases, 'take'>
  /** Receives the runner's output in addition to its log file. */
  logs: Pick<LogRing, 'output'>
}

/** The instance of an assignment, and this node's role and part in it; undefined if it was removed. */
export function instanceOf (
  { instances, node: { nodeId } }: Pick<LaunchParts, 'instances' | 'node'>, { instanceId }: Assignment
): { ring: RingInstance, role: Role | null, shard: ShardBody | null } | undefined {
  const instance = instances.get(instanceId)
  return instance &&
    { ring: bodyOf(instance), role: roleOf(instance, nodeId), shard: shardOf(instance, nodeId) }
}

/** The backend on which a model runs on this node; null if no enabled plugin provides its engine. */
export function backendOf (
  { bundle, config, detection }: Pick<LaunchParts, 'bundle' | 'config' | 'detection'>, card: ModelCard
): BackendChoice | null {
  const engine = bundle.engine(card.engine)
  if (engine === undefined) return null
  const { name, decl: { backends, backendsWhy, external, program } } = engine
  const found = detection.programs()[name]
  if (found === null && program !== undefined) {
    return programMissing(name, program, detection.without(name))
  }
  const library = isLibrary(found) ? found.library : undefined
  const libraryProblem = library === undefined ? null : whyLibraryCannot(library, card)
  if (libraryProblem !== null) return programMissing(name, program!, libraryProblem)
  const devices = library?.backends ?? detection.devices(name)
  return chooseBackend({
    engine: name, offers: offersOf(backends, devices).filter((one) => runsOn(card, one)),
    why: backendsWhy, declared: declaredBackend(config.backends, engine.name),
    runtimes: detection.runtimes, external, devices
  })
}

/**
 * Leases and fetches the model's files, except for a donor; a driver then waits for its donors and reports
 * missing donors to `waits`. Throws or rejects while files or donors are unavailable; the caller retries.
 */
export function prepareLaunch (
  parts: LaunchParts, assignment: Assignment, waits: (message: string) => void
): Promise<unknown> | undefined {
  const { bundle, models, drivers, gangs, leases } = parts
  const { modelId } = assignment
  const { ring, role = null } = instanceOf(parts, assignment) ?? {}
  if (role?.kind === 'donor') return undefined
  // The launch will be refused, so fetch no files and open no ports.
  if (whyApart(parts, assignment, role) !== null) return undefined
  const digest = ring?.modelDigest
  leases.take(assignment, digest)
  // A staged copy may have been deleted by hand; bundled files are always present.
  const staged = (models?.locate(modelId, digest)?.kind ?? 'bundled') !== 'bundled'
  const here = modelOf(bundle, models, modelId, digest)
  const files = here === undefined || staged ? models?.ensure(modelId, digest) : undefined
  if (role === null) return files
  return Promise.resolve(files).then(async () => {
    // The instance may have been removed while its files were copied.
    if (instanceOf(parts, assignment) === undefined) return
    await (role.kind === 'gang' ? gangs.prepare(assignment, role, waits)
      : drivers.prepare(assignment, role, waits))
  })
}

/** The options to start an assignment's runner on this node. Throws LaunchError if that is impossible. */
export function launchOptions (parts: LaunchParts, assignment: Assignment): LaunchOptions {
  const { instanceId, runnerId, modelId } = assignment
  const { bundle, clock, log, node, config, models } = parts
  const { ring, role = null, shard = null } = instanceOf(parts, assignment) ?? {}
  const apart = whyApart(parts, assignment, role)
  if (apart !== null) throw new LaunchError('no_backend', apart)
  const scratch = join(runnersFolder(node.home), runnerId)
  // A donor needs no model files.
  const model = role?.kind === 'donor' ? { card: role.card, directory: join(scratch, 'work') }
    : modelOf(bundle, models, modelId, ring?.modelDigest)
  if (model === undefined) throw new LaunchError('runner_failed', `model ${modelId} is not on this node`)
  const engine = bundle.engine(model.card.engine)
  const choice = backendOf(parts, model.card)
  if (engine === undefined || choice === null) {
    throw new LaunchError('no_backend', `no enabled plugin provides engine ${model.card.engine}`)
  }
  if (choice.backend === null) throw new LaunchError('no_backend', choice.problem)
  const module = moduleOf(parts, engine, role)
  const traits = memoryTraits(parts, engine)
  const { contextTokenLimit, slots, placement } = ring ?? {}
  const context: Pick<DeviceTarget, 'context' | 'slots'> = { context: contextTokenLimit, slots }
  const gpu = choice.backend !== 'cpu'
  const options = {
    ...optionsOf(config, engine.name), ...programs(parts, { engine, role }),
    ...offeredOptions(parts, engine.name, model.card, placement?.engine),
    ...planned(parts, assignment, { role, shard }),
    // An object, because a runner may read any file whose path is passed as a string option.
    ...placement?.chatTemplate === undefined ? {} : { chatTemplate: { source: placement.chatTemplate } }
  }
  return {
    runnerId,
    instanceId,
    spec: {
      card: model.card,
      directory: model.directory,
      // An empty list means that the plan uses the CPU, because the GPUs have too little memory.
      backend: shard?.gpuLayers?.length === 0 ? 'cpu' : choice.backend,
      threads: config.threads,
      ...context.context === undefined ? {} : { contextLength: context.context },
      ...context.slots === undefined ? {} : { slots: context.slots },
      options
    },
    engineModule: module,
    clock,
    log,
    scratch,
    ...(config.confine ? { files: () => filesOf(parts, model, module, options) } : {}),
    network: opensPorts(role) || (engine.decl.loopback === true && 'loopback'),
    estimatedBytes: addNeeds(devicePartsOf(shard).map((one) => needOf(model.card, traits,
      { ...context, part: one.part, gpu: gpu && one.gpu !== null }))).neededBytes,
    memoryLimitBytes: memoryLimitBytes(model.card, traits, context, config.memory_limit_mb),
    maxConcurrent: atOnce(config, options, engine.decl, model.card, context),
    maxQueued: config.max_queued,
    output: (stream, text) => { parts.logs.output({ runnerId, instanceId, modelId }, stream, text) }
  }
}

/** The engine's memory traits on this node; if its program is missing, those of its library. */
export function memoryTraits (
  { detection }: Pick<LaunchParts, 'detection'>, { name, decl }: RegisteredEngine
): MemoryTraits {
  const driver = detection.programs()[name]
  return isLibrary(driver) ? driver.library
    : driver != null && 'options' in driver ? { ...decl, fixedBytes: driver.fixedBytes } : decl
}

/** Options from the plugin that finds the engine's programs. Throws LaunchError `no_backend`. */
function offeredOptions (
  { detection }: LaunchParts, engine: string, card: ModelCard, chosen: string | undefined
): Record<string, unknown> {
  const driver = detection.programs()[engine]
  if (driver == null || !('options' in driver)) return {}
  const options = driver.options(card, chosen)
  if (typeof options === 'string') throw new LaunchError('no_backend', options)
  return options
}

/** The program of an assignment, with its version as its gang names it, or why it cannot be in a gang. */
export function gangOffer (
  parts: Pick<LaunchParts, 'detection' | 'instances' | 'node'>, assignment: Assignment
): GangOffer & { program: string } {
  const { engine = '', placement: { engine: name = '' } = {} } = instanceOf(parts, assignment)?.ring ?? {}
  const driver = parts.detection.programs()[engine]
  const { gangs = {} } = driver != null && 'options' in driver ? driver : {}
  const none = { version: '', models: [], linked: true, problem: 'it cannot share a model with others' }
  const { [name]: offer = none } = gangs
  const problem = offer.problem && `${name || engine}: ${offer.problem}`
  return { ...offer, program: `${name} ${offer.version}`, problem }
}

/** The module that runs the engine: the program driver or the library. Throws LaunchError `no_backend`. */
function moduleOf (
  { detection }: LaunchParts, { name, decl: { module, program } }: RegisteredEngine, role: Role | null
): string {
  const driver = detection.programs()[name]
  if (!isLibrary(driver)) return module
  const { library } = driver
  if (role === null) return library.module
  const { problem, remedy } = programMissing(name, program!, `${library.name} cannot spread a model`)
  throw new LaunchError('no_backend', `${problem}. ${remedy}`)
}

/** Why this node takes no part in a model that is spread over nodes; null if it does. */
function whyApart (parts: LaunchParts, assignment: Assignment, role: Role | null): string | null {
  if (!opensPorts(role)) return null
  if (parts.config.rpc_for_every_user) {
    return role?.kind === 'gang' ? gangOffer(parts, assignment).problem : null
  }
  return 'this node takes no part in models that are spread over nodes: llama.cpp RPC, MLX and vLLM have ' +
    'no authentication there, so every user of this machine could access it. If you trust all of them: ' +
    'svc config set plugins.runners.rpc_for_every_user true, and restart the node'
}

function filesOf (
  { node: { home }, env }: LaunchParts, { directory, card }: BundledModel, module: string,
  options: Record<string, unknown>
): Files {
  // A model file may be a link to another folder.
  const files = card.files.map(({ path }) => join(directory, path))
  return filesFor({ home, options, env, model: [directory, ...files],
    scripts: [import.meta.url, module].map((url) => fileURLToPath(url)) })
}

/**
 * Limit on concurrent requests inside the runner: the number of contexts if the engine keeps one per request,
 * otherwise its batch size. Ignores a `max_batch` that is not a number, which the engine rejects.
 */
function atOnce (
  { max_concurrent: usual }: RunnerConfig, { max_batch: given }: Record<string, unknown>,
  { batch = 0, slots: engineSlots }: RegisteredEngine['decl'], card: ModelCard,
  { context, slots }: Pick<DeviceTarget, 'context' | 'slots'>
): number {
  const most = Number(given) >= 1 ? Math.floor(Number(given)) : undefined
  return engineSlots === undefined ? Math.max(usual, most ?? batch)
    : Math.min(cacheOf(card, context, slots).contexts, most ?? Infinity)
}

function optionsOf ({ engine_options: all }: RunnerConfig, engine: string): Record<string, unknown> {
  return Object.hasOwn(all, engine) ? { ...all[engine] as Record<string, unknown> } : {}
}

/**
 * Paths of an engine's external programs: the operator's override, otherwise the program found. Throws
 * LaunchError `no_backend`.
 */
function programs (
  { detection }: LaunchParts,
  { engine: { name, decl }, role }: { engine: RegisteredEngine, role: Role | null }
): Record<string, unknown> {
  if (decl.external !== true) return {}
  const server = detection.binary(name)
  const program = detection.programs()[name]
  // Passed even for a program in PATH, so that the sandbox makes the path's target readable.
  const found = program != null && 'path' in program ? { serverBinary: program.path } : {}
  if (role?.kind !== 'donor') return server === undefined ? found : { serverBinary: usable(server) }
  const donor = decl.donor === undefined ? undefined : detection.binary(decl.donor)
  // Pass the server program too, because the donor program is looked up in its folder.
  const serverProgram = server?.problem === null ? { serverBinary: server.path } : found
  return { ...serverProgram, ...donor === undefined ? {} : { donorBinary: usable(donor) } }
}

/**
 * The path of a usable override. Throws LaunchError `no_backend` for an unusable one: there is no fallback.
 */
function usable ({ variable, path, problem }: BinaryOverride): string {
  if (problem === null) return path
  throw new LaunchError('no_backend', `${variable}: ${path} ${problem}; set it to an executable ` +
    'program or unset it, and restart the node')
}

/** Engine options for this node's part of an instance that spans nodes or several devices of the node. */
function planned (
  parts: LaunchParts, assignment: Assignment,
  { role, shard }: { role: Role | null, shard: ShardBody | null }
): Record<string, unknown> {
  if (role?.kind === 'driver') return { rpc: parts.drivers.plan(assignment.runnerId, role) }
  if (role?.kind === 'gang') {
    return { gang: role.rank > 0 ? { rank: role.rank } : parts.gangs.plan(assignment, role) }
  }
  const split = (shard?.gpuLayers ?? []).length === 0 ? {} : { split: shareOf(shard!) }
  return role === null ? split : { lends: true, ...split }
}

/** Number of ended runners whose folders remain, so that their output can still be read. */
const KEPT_FOLDERS = 4

export function runnersFolder (home: string): string { return join(home, 'run', 'runners') }

/** Removes the folders of ended runners except the newest few. Never throws. */
export async function pruneScratch (folder: string, live: (runnerId: string) => boolean): Promise<void> {
  const names = await readdir(folder).catch(() => [])
  const dated = await Promise.all(names.map(async (name) =>
    ({ name, at: await stat(join(folder, name)).then(({ mtimeMs }) => mtimeMs, () => 0) })))
  const ended = dated.filter(({ name }) => !live(name)).sort((a, b) => b.at - a.at).slice(KEPT_FOLDERS)
  for (const { name } of ended) {
    // The runner may have been started again since the folders were listed.
    if (!live(name)) await rm(join(folder, name), { recursive: true, force: true }).catch(() => {})
  }
}
