import { join } from 'node:path'
import type { Bundle, Clock, Logger, ModelCard } from '../../kernel/index.js'
import type { BackendChoice } from './backends.js'
import type { BinaryOverride } from './binaries.js'
import { LaunchError } from './failures.js'
import type { LaunchOptions } from './fleet.js'
import { memoryLimitBytes } from './memory.js'
import { runnersFolder } from './scratch.js'
import type { Assignment } from './shapes.js'

/** The part of the configuration that reaches a runner. */
export interface RunnerConfig {
  threads: number
  max_concurrent: number
  max_queued: number
  memory_limit_mb?: number
}

export interface LaunchParts {
  bundle: Bundle
  clock: Clock
  log: Logger
  home: string
  config: RunnerConfig
  backend (card: ModelCard): BackendChoice | null
  /** The binary override of an engine, usable or not, if one is set. */
  binary (engine: string): BinaryOverride | undefined
}

/** How to run an assignment on this node. Throws a LaunchError when that is impossible. */
export function launchOptions (
  parts: LaunchParts,
  { instanceId, runnerId, modelId }: Assignment
): LaunchOptions {
  const { bundle, clock, log, home, config } = parts
  const model = bundle.model(modelId)
  if (model === undefined) throw new LaunchError('runner_failed', `model ${modelId} is not on this node`)
  const engine = bundle.engine(model.card.engine)
  const choice = parts.backend(model.card)
  if (engine === undefined || choice === null) {
    throw new LaunchError('no_backend', `no enabled plugin brings engine ${model.card.engine}`)
  }
  if (choice.backend === null) throw new LaunchError('no_backend', choice.problem)
  return {
    runnerId,
    instanceId,
    spec: {
      card: model.card,
      directory: model.directory,
      backend: choice.backend,
      threads: config.threads,
      options: engine.decl.external === true ? external(parts.binary(engine.name)) : {}
    },
    engineModule: engine.decl.module,
    clock,
    log,
    scratch: join(runnersFolder(home), runnerId),
    memoryLimitBytes: memoryLimitBytes(model.card, config.memory_limit_mb),
    maxConcurrent: config.max_concurrent,
    maxQueued: config.max_queued
  }
}

/**
 * What an engine that drives an external program is told: which one, where the operator said so. Nothing
 * takes the place of one that cannot be used. Throws LaunchError `no_backend`.
 */
function external (override: BinaryOverride | undefined): Record<string, unknown> {
  if (override === undefined) return {}
  const { variable, path, problem } = override
  if (problem !== null) {
    throw new LaunchError('no_backend', `${variable}: ${path} ${problem}; name a program that can be run, ` +
      'or unset the variable, and restart the node')
  }
  return { serverBinary: path }
}
