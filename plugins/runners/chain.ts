import type { ModelCard } from '../../kernel/index.js'
import type { BackendChoice } from './backends.js'
import { kindOf, serves } from './process/states.js'
import type { RunnerStatus } from './service.js'

/** The links from a model's name to an answer, in order. */
export const LINKS = ['card', 'backend', 'placement', 'runner', 'request'] as const
export type Link = (typeof LINKS)[number]

/** What this node knows about a model. */
export interface ChainFacts {
  modelId: string
  /** The task asked for; null when the question is about the model alone. */
  capability: string | null
  /** Models this node can name. */
  known: readonly string[]
  card: Pick<ModelCard, 'engine' | 'tasks'> | null
  /** Why the model's card, which is there, cannot be read. */
  cardProblem?: string | undefined
  backend: BackendChoice | null
  /** An instance of the model names another node that is there: this one needs no backend for it. */
  elsewhere: boolean
  /** An instance of the model names a node. */
  placed: boolean
  /** The most advanced runner of the model on any node, if there is one. */
  runner: RunnerStatus | null
}

/** The first broken link with the sentence and the command that mends it; null when the chain holds. */
export interface BrokenLink {
  link: Link
  problem: string
  remedy: string
}

/**
 * Walks card, backend, placement, runner, request and stops at the first link that does not hold. The one
 * place that decides whether a model can be used and what is missing.
 */
export function brokenLink (facts: ChainFacts): BrokenLink | null {
  return noCard(facts) ?? noBackend(facts) ?? notPlaced(facts) ?? notReady(facts) ?? notServed(facts)
}

/** The sentence a client reads. */
export function noInstanceMessage (modelId: string, { problem }: BrokenLink): string {
  return `No instance found for model ${modelId}: ${problem}.`
}

function noCard ({ card, cardProblem, known, modelId }: ChainFacts): BrokenLink | null {
  if (card !== null) return null
  if (cardProblem !== undefined) {
    return {
      link: 'card',
      problem: cardProblem,
      remedy: 'Install the package that brings the model anew, then restart.'
    }
  }
  const remedy =
    known.length === 0
      ? 'Enable a plugin that brings one, e.g. `svc plugin enable capabilities-tts`, and restart.'
      : `Use one of: ${known.join(', ')}.`
  return { link: 'card', problem: `no model is called ${modelId} here`, remedy }
}

function noBackend ({ backend, card, elsewhere }: ChainFacts): BrokenLink | null {
  if (elsewhere) return null
  if (backend === null) {
    return {
      link: 'backend',
      problem: `no enabled plugin brings its engine ${card?.engine ?? ''}`,
      remedy: 'Enable the plugin with `svc plugin enable NAME` (`svc plugin ls` lists them) and restart.'
    }
  }
  return backend.backend === null
    ? { link: 'backend', problem: backend.problem, remedy: backend.remedy }
    : null
}

function notPlaced ({ placed, modelId }: ChainFacts): BrokenLink | null {
  if (placed) return null
  return {
    link: 'placement',
    problem: 'it is not placed on any node',
    remedy: `Place it: \`svc place ${modelId}\`.`
  }
}

function notReady ({ runner }: ChainFacts): BrokenLink | null {
  if (runner === null) {
    return {
      link: 'runner',
      problem: 'its runner has not started yet',
      remedy: 'Try again shortly; `svc status` shows it.'
    }
  }
  const kind = kindOf(runner)
  if (serves(kind)) return null
  if ('RunnerFailed' in runner) {
    return {
      link: 'runner',
      problem: `its runner failed: ${runner.RunnerFailed.errorMessage}`,
      remedy: 'Mend the cause (the log has it), then restart the node: POST /admin/restart.'
    }
  }
  return {
    link: 'runner',
    problem: `its runner ${phase(runner)}`,
    remedy: 'Try again shortly; `svc status` shows the progress.'
  }
}

function phase (runner: RunnerStatus): string {
  if ('RunnerLoading' in runner) {
    return `is loading (${runner.RunnerLoading.layersLoaded} of ${runner.RunnerLoading.totalLayers})`
  }
  if ('RunnerWarmingUp' in runner) return 'is warming up'
  if ('RunnerShuttingDown' in runner || 'RunnerShutdown' in runner) return 'is shutting down'
  return 'is starting'
}

function notServed ({ capability, card, modelId }: ChainFacts): BrokenLink | null {
  if (capability === null || card === null || card.tasks.includes(capability)) return null
  return {
    link: 'request',
    problem: `it does ${card.tasks.join(', ')}, not ${capability}`,
    remedy: `Ask ${modelId} for ${card.tasks.join(' or ')}, or name a model that does ${capability}.`
  }
}
