import { readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Clock, Logger, LogRing, MemoryTraits, ModelCard, NodeInfo } from '../../../kernel/index.js'
import { addNeeds, cacheOf, needOf } from '../cards/memory-forecast.js'
import { runsOn } from '../cards/backends.js'
import type { Bundle, BundledModel, RegisteredEngine } from '../cards/bundle.js'
import type { DeviceTarget } from '../cards/memory-forecast.js'
import type { Models } from '../../staging/service.js'
import type { RunnerConfig } from '../declarations.js'
import type { RpcDrivers } from '../donors/driver.js'
import { opensPorts, roleOf, shareOf } from '../donors/role.js'
import type { Role } from '../donors/role.js'
import { chooseBackend, declaredBackend, offersOf, programMissing } from '../machine/backends.js'
import type { BackendChoice, BinaryOverride } from '../machine/backends.js'
import { isLibrary } from '../machine/detection.js'
import type { Detection } from '../machine/detection.js'
import { memoryLimitBytes } from '../machine/memory.js'
import { whyLibraryCannot } from '../machine/programs.js'
import { filesFor } from '../process/confine.js'
import type { Files } from '../process/confine.js'
import { LaunchError } from '../process/errors.js'
import { modelOf } from './copies.js'
import type { ModelLeases } from './copies.js'
import type { PlacedInstances } from './document.js'
import type { LaunchOptions } from './runner-set.js'
import type { RingInstance, ShardBody } from './sections.js'
import { bodyOf, devicePartsOf, shardOf } from './shapes.js'
import type { Assignment } from './shapes.js'

export interface LaunchParts {
  node: Pick<NodeInfo, 'nodeId' | 'home'>
  clock: Clock
  log: Logger
  env: Readonly<Record<string, string | undefined>>
  config: RunnerConfig
  /** What ships, and what is staged here. */
  bundle: Bundle
  /** Files of models; absent where the plugin `staging` is off. */
  models: Models | undefined
  detection: Pick<Detection, 'runtimes' | 'binary' | 'programs' | 'devices' | 'without'>
  instances: Pick<PlacedInstances, 'get'>
  drivers: Pick<RpcDrivers, 'prepare' | 'plan' | 'begins'>
  leases: Pick<ModelLeases, 'take'>
  /** Where a runner's output goes besides its file. */
  logs: Pick<LogRing, 'output'>
}

/** Driver or donor, in an instance spread over nodes; null in every other. */
export function assignedRole ({ instances, node }: LaunchParts, { instanceId }: Assignment): Role | null {
  const instance = instances.get(instanceId)
  return instance === undefined ? null : roleOf(instance, node.nodeId)
}

const bodyIn = ({ instances }: LaunchParts, { instanceId }: Assignment): RingInstance | undefined => {
  const instance = instances.get(instanceId)
  return instance === undefined ? undefined : bodyOf(instance)
}

function shardIn ({ instances, node }: LaunchParts, { instanceId }: Assignment): ShardBody | null {
  const instance = instances.get(instanceId)
  return instance === undefined ? null : shardOf(instance, node.nodeId)
}

/** The backend a model runs on here; null when no enabled plugin brings its engine. */
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
  const lacks = library === undefined ? null : whyLibraryCannot(library, card)
  if (lacks !== null) return programMissing(name, program!, lacks)
  const devices = library?.backends ?? detection.devices(name)
  return chooseBackend({
    engine: name,
    offers: offersOf(backends, devices).filter((one) => runsOn(card, one)),
    why: backendsWhy,
    declared: declaredBackend(config.backends, engine.name),
    runtimes: detection.runtimes, external, devices
  })
}

/**
 * Leases and fetches the files of a model, except for a donor; a driver then waits for its donors, and tells
 * `waits` which are missing. Throws, or rejects, while they cannot be had; the caller retries.
 */
export function prepareLaunch (
  parts: LaunchParts, assignment: Assignment, waits: (message: string) => void
): Promise<unknown> | undefined {
  const { bundle, models, drivers, leases } = parts
  const { modelId } = assignment
  const role = assignedRole(parts, assignment)
  if (role?.kind === 'donor') return undefined
  // The launch will refuse it, so nothing is fetched and no port is opened.
  if (opensPorts(role) && !parts.config.rpc_for_every_user) return undefined
  const digest = bodyIn(parts, assignment)?.modelDigest
  leases.take(assignment, digest)
  // A staged copy may have been removed by hand; bundled files are always there.
  const staged = (models?.locate(modelId, digest)?.kind ?? 'bundled') !== 'bundled'
  const here = modelOf(bundle, models, modelId, digest)
  const files = here === undefined || staged ? models?.ensure(modelId, digest) : undefined
  if (role === null) return files
  return Promise.resolve(files).then(async () => { await drivers.prepare(assignment, role, waits) })
}

/** What starts the runner of an assignment on this node. Throws LaunchError when it cannot be started. */
export function launchOptions (parts: LaunchParts, assignment: Assignment): LaunchOptions {
  const { instanceId, runnerId, modelId } = assignment
  const { bundle, clock, log, node, config, models } = parts
  const role = assignedRole(parts, assignment)
  mayOpenPorts(config, role)
  const scratch = join(runnersFolder(node.home), runnerId)
  // A donor needs none of the model's files.
  const model = role?.kind === 'donor' ? { card: role.card, directory: join(scratch, 'work') }
    : modelOf(bundle, models, modelId, bodyIn(parts, assignment)?.modelDigest)
  if (model === undefined) throw new LaunchError('runner_failed', `model ${modelId} is not on this node`)
  const engine = bundle.engine(model.card.engine)
  const choice = backendOf(parts, model.card)
  if (engine === undefined || choice === null) {
    throw new LaunchError('no_backend', `no enabled plugin brings engine ${model.card.engine}`)
  }
  if (choice.backend === null) throw new LaunchError('no_backend', choice.problem)
  const module = moduleOf(parts, engine, role)
  const traits = memoryTraits(parts, engine)
  const { contextTokenLimit, slots, placement } = bodyIn(parts, assignment) ?? {}
  const context: Pick<DeviceTarget, 'context' | 'slots'> = { context: contextTokenLimit, slots }
  const shard = shardIn(parts, assignment)
  const gpu = choice.backend !== 'cpu'
  const options = {
    ...optionsOf(config, engine.name), ...programs(parts, { engine, role }),
    ...planned(parts, assignment, role),
    // An object: a text that begins with a slash would count as a program that the runner may read.
    ...placement?.chatTemplate === undefined ? {} : { chatTemplate: { source: placement.chatTemplate } }
  }
  return {
    runnerId,
    instanceId,
    spec: {
      card: model.card,
      directory: model.directory,
      // Planned for the CPU where the GPUs have no room.
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
    // Ranks of a spread model reach each other through ports of this machine.
    network: opensPorts(role),
    estimatedBytes: addNeeds(devicePartsOf(shard).map((one) => needOf(model.card, traits,
      { ...context, part: one.part, gpu: gpu && one.gpu !== null }))).neededBytes,
    memoryLimitBytes: memoryLimitBytes(model.card, traits, context, config.memory_limit_mb),
    maxConcurrent: atOnce(config, options, engine.decl, model.card, context),
    maxQueued: config.max_queued,
    output: (stream, text) => { parts.logs.output({ runnerId, instanceId, modelId }, stream, text) }
  }
}

/** Memory traits of the engine on this node: those of the library if the program is missing. */
export function memoryTraits (
  { detection }: Pick<LaunchParts, 'detection'>, { name, decl }: RegisteredEngine
): MemoryTraits {
  const driver = detection.programs()[name]
  return isLibrary(driver) ? driver.library : decl
}

/** What runs the engine here: its program's driver, else the library. Throws LaunchError `no_backend`. */
function moduleOf (
  { detection }: LaunchParts, { name, decl: { module, program } }: RegisteredEngine, role: Role | null
): string {
  const driver = detection.programs()[name]
  if (!isLibrary(driver)) return module
  const { library } = driver
  if (role === null) return library.module
  const { problem, remedy } = programMissing(name, program!, `${library.name} spreads no model over nodes`)
  throw new LaunchError('no_backend', `${problem}. ${remedy}`)
}

/** Throws LaunchError `no_backend` where a model is spread and the operator did not agree to that. */
function mayOpenPorts (config: RunnerConfig, role: Role | null): void {
  if (config.rpc_for_every_user || !opensPorts(role)) return
  throw new LaunchError('no_backend', 'this node takes no part in models that are spread over nodes: ' +
    'llama.cpp\'s RPC asks for no key, so that every user of this machine could reach it. Where you trust ' +
    'them all: svc config set plugins.runners.rpc_for_every_user true, and restart the node')
}

function filesOf (
  { node: { home }, env }: LaunchParts, { directory, card }: BundledModel, module: string,
  options: Record<string, unknown>
): Files {
  // A file of the model may be a link to another folder.
  const files = card.files.map(({ path }) => join(directory, path))
  return filesFor({ home, options, env, model: [directory, ...files],
    scripts: [import.meta.url, module].map((url) => fileURLToPath(url)) })
}

/**
 * Requests inside the runner at once: an engine that keeps a context for each has so many; else those that it
 * computes in one batch. It refuses an option that is no number.
 */
function atOnce (
  { max_concurrent: usual }: RunnerConfig, { max_batch: given }: Record<string, unknown>,
  { batch = 0, slots: kept }: RegisteredEngine['decl'], card: ModelCard,
  { context, slots }: Pick<DeviceTarget, 'context' | 'slots'>
): number {
  const most = Number(given) >= 1 ? Math.floor(Number(given)) : undefined
  return kept === undefined ? Math.max(usual, most ?? batch)
    : Math.min(cacheOf(card, context, slots).contexts, most ?? Infinity)
}

function optionsOf ({ engine_options: all }: RunnerConfig, engine: string): Record<string, unknown> {
  return Object.hasOwn(all, engine) ? { ...all[engine] as Record<string, unknown> } : {}
}

/**
 * The paths of the external programs an engine is to run, where the operator overrode them. Throws
 * LaunchError `no_backend`.
 */
function programs (
  { detection }: LaunchParts,
  { engine: { name, decl }, role }: { engine: RegisteredEngine, role: Role | null }
): Record<string, unknown> {
  if (decl.external !== true) return {}
  const server = detection.binary(name)
  const program = detection.programs()[name]
  // Also of one in PATH, since the runner's sandbox has what the path leads to.
  const found = program != null && 'path' in program ? { serverBinary: program.path } : {}
  if (role?.kind !== 'donor') return server === undefined ? found : { serverBinary: usable(server) }
  const donor = decl.donor === undefined ? undefined : detection.binary(decl.donor)
  // A donor's program is looked for beside the server's.
  const beside = server?.problem === null ? { serverBinary: server.path } : found
  return { ...beside, ...donor === undefined ? {} : { donorBinary: usable(donor) } }
}

/**
 * The path of a usable override; an unusable one is an error, not a fallback. Throws LaunchError
 * `no_backend`.
 */
function usable ({ variable, path, problem }: BinaryOverride): string {
  if (problem === null) return path
  throw new LaunchError('no_backend', `${variable}: ${path} ${problem}; name a program that can be run, ` +
    'or unset the variable, and restart the node')
}

/** Options that tell the engine its part in an instance spread over nodes, or over devices of this one. */
function planned (parts: LaunchParts, assignment: Assignment, role: Role | null): Record<string, unknown> {
  if (role?.kind === 'driver') return { rpc: parts.drivers.plan(assignment.runnerId, role) }
  const shard = shardIn(parts, assignment)
  const split = (shard?.gpuLayers ?? []).length === 0 ? {} : { split: shareOf(shard!) }
  return role === null ? split : { lends: true, ...split }
}

/** Folders of ended runners that are kept, so that their output can be read. */
const KEPT_FOLDERS = 4

export function runnersFolder (home: string): string {
  return join(home, 'run', 'runners')
}

/** Removes the folders of runners that are gone, but for the newest few. Never throws. */
export async function pruneScratch (folder: string, live: (runnerId: string) => boolean): Promise<void> {
  const names = await readdir(folder).catch(() => [])
  const dated = await Promise.all(names.map(async (name) =>
    ({ name, at: await stat(join(folder, name)).then(({ mtimeMs }) => mtimeMs, () => 0) })))
  const gone = dated.filter(({ name }) => !live(name)).sort((a, b) => b.at - a.at).slice(KEPT_FOLDERS)
  for (const { name } of gone) {
    // It may have been started meanwhile.
    if (!live(name)) await rm(join(folder, name), { recursive: true, force: true }).catch(() => {})
  }
}
