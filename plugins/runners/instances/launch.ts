import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type {
  Bundle, BundledModel, Clock, Logger, LogRing, ModelCard, RegisteredEngine
} from '../../../kernel/index.js'
import type { BackendChoice, BinaryOverride } from '../machine/backends.js'
import { LaunchError } from './failures.js'
import type { LaunchOptions } from './fleet.js'
import { opensPorts } from '../donors/role.js'
import type { Role } from '../donors/role.js'
import { memoryLimitBytes, sequenceBytes } from '../machine/memory.js'
import { readable } from '../process/confine.js'
import type { Assignment } from './shapes.js'
import { readdir, rm, stat } from 'node:fs/promises'

/** The part of the configuration that reaches a runner. */
export interface RunnerConfig {
  threads: number
  max_concurrent: number
  max_queued: number
  memory_limit_mb?: number
  /** Whether runners are held to the files they need. */
  confine: boolean
  /** Whether ports without a key may be opened to every user of this machine. */
  rpc_for_every_user: boolean
  /** Options by engine. */
  engine_options: Readonly<Record<string, unknown>>
}

export interface LaunchParts {
  bundle: Bundle
  clock: Clock
  log: Logger
  home: string
  /** Of the node. */
  env: Readonly<Record<string, string | undefined>>
  config: RunnerConfig
  backend (card: ModelCard): BackendChoice | null
  /** The binary override of an engine, usable or not, if one is set. */
  binary (engine: string): BinaryOverride | undefined
  /** The card and the files of an assignment's model; undefined when they are not here. */
  model (assignment: Assignment): BundledModel | undefined
  /** Driver or donor, in an instance spread over nodes; null in every other. */
  role (assignment: Assignment): Role | null
  /** The addresses of a driver's donors and how many layers each takes. */
  plan (runnerId: string, role: Role & { kind: 'driver' }): Record<string, unknown> | null
  /** Where a runner's output goes besides its file. */
  logs: Pick<LogRing, 'output'>
}

/** What starts the runner of an assignment on this node. Throws LaunchError when it cannot be started. */
export function launchOptions (
  parts: LaunchParts,
  assignment: Assignment
): LaunchOptions {
  const { instanceId, runnerId, modelId } = assignment
  const { bundle, clock, log, home, config } = parts
  const role = parts.role(assignment)
  mayOpenPorts(config, role)
  const scratch = join(runnersFolder(home), runnerId)
  // A donor needs none of the model's files.
  const model = role?.kind === 'donor' ? { card: role.card, directory: scratch }
    : parts.model(assignment)
  if (model === undefined) throw new LaunchError('runner_failed', `model ${modelId} is not on this node`)
  const engine = bundle.engine(model.card.engine)
  const choice = parts.backend(model.card)
  if (engine === undefined || choice === null) {
    throw new LaunchError('no_backend', `no enabled plugin brings engine ${model.card.engine}`)
  }
  if (choice.backend === null) throw new LaunchError('no_backend', choice.problem)
  const options = {
    ...optionsOf(config, engine.name), ...programs(parts, engine, role), ...planned(parts, runnerId, role)
  }
  return {
    runnerId,
    instanceId,
    spec: {
      card: model.card,
      directory: model.directory,
      backend: choice.backend,
      threads: config.threads,
      options
    },
    engineModule: engine.decl.module,
    clock,
    log,
    scratch,
    ...(config.confine ? { reads: () => readsOf(parts, model, engine.decl.module, options) } : {}),
    memoryLimitBytes:
      memoryLimitBytes(model.card, config.memory_limit_mb, sequenceBytes(model.card, options)),
    maxConcurrent: Math.max(config.max_concurrent, batchOf(options, engine.decl)),
    maxQueued: config.max_queued,
    output: (stream, text) => { parts.logs.output({ runnerId, instanceId, modelId }, stream, text) }
  }
}

/** Throws LaunchError `no_backend` where a model is spread and the operator did not agree to that. */
function mayOpenPorts (config: RunnerConfig, role: Role | null): void {
  if (config.rpc_for_every_user || !opensPorts(role)) return
  throw new LaunchError('no_backend', 'this node takes no part in models that are spread over nodes: ' +
    'llama.cpp\'s RPC asks for no key, so that every user of this machine could reach it. Where you trust ' +
    'them all: svc config set plugins.runners.rpc_for_every_user true, and restart the node')
}

function readsOf (
  { home, env }: LaunchParts, { directory, card }: BundledModel, module: string,
  options: Record<string, unknown>
): string[] {
  // A file of the model may be a link to another folder.
  const files = card.files.map(({ path }) => join(directory, path))
  return readable({ home, options, env, model: [directory, ...files],
    scripts: [import.meta.url, module].map((url) => fileURLToPath(url)) })
}

/** Requests that the engine computes in one batch; the engine refuses an option that is no number. */
function batchOf (options: Record<string, unknown>, { batch = 0 }: { batch?: number | undefined }): number {
  const given = Number(options['max_batch'])
  return given >= 1 ? Math.floor(given) : batch
}

function optionsOf ({ engine_options: all }: RunnerConfig, engine: string): Record<string, unknown> {
  return Object.hasOwn(all, engine) ? { ...all[engine] as Record<string, unknown> } : {}
}

/**
 * The paths of the external programs an engine is to run, where the operator overrode them. Throws
 * LaunchError `no_backend`.
 */
function programs (
  { binary }: LaunchParts, { name, decl }: RegisteredEngine, role: Role | null
): Record<string, unknown> {
  if (decl.external !== true) return {}
  const server = binary(name)
  if (role?.kind !== 'donor') return server === undefined ? {} : { serverBinary: usable(server) }
  const donor = decl.donor === undefined ? undefined : binary(decl.donor)
  // A donor's program is looked for beside the server's.
  const beside = server?.problem === null ? { serverBinary: server.path } : {}
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

/** Options that tell the engine its part in an instance spread over nodes. */
function planned (
  { plan }: LaunchParts, runnerId: string, role: Role | null
): Record<string, unknown> {
  if (role === null) return {}
  return role.kind === 'donor' ? { lends: true } : { rpc: plan(runnerId, role) }
}

/** Folders of ended runners that are kept, so that their output can be read. */
const KEPT_FOLDERS = 4

/** Where the runners of a node have their folders, one each. */
export function runnersFolder (home: string): string {
  return join(home, 'run', 'runners')
}

/** Removes the folders of runners that are gone, but for the newest few. Never throws. */
export async function pruneScratch (folder: string, live: (runnerId: string) => boolean): Promise<void> {
  const names = await readdir(folder).catch(() => [])
  const dated = await Promise.all(
    names.map(async (name) => ({
      name,
      at: await stat(join(folder, name)).then(
        ({ mtimeMs }) => mtimeMs,
        () => 0
      )
    }))
  )
  const gone = dated
    .filter(({ name }) => !live(name))
    .sort((a, b) => b.at - a.at)
    .slice(KEPT_FOLDERS)
  await Promise.all(
    gone
      .filter(({ name }) => !live(name))
      .map(async ({ name }) => {
        await rm(join(folder, name), { recursive: true, force: true }).catch(() => {})
      })
  )
}
