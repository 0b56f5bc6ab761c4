import { delay, kernelError } from '../../../kernel/index.js'
import type { Clock } from '../../../kernel/index.js'
import { progressOf, successorOf } from './progress.js'
import type { Progress, RankProgress } from './progress.js'
import { refuse } from '../errors.js'
import type { FactsReader, InstanceStates } from '../facts.js'

/** How often it is looked how far an instance is, ms. */
export const WATCH_MS = 250
/** So long an instance that was just placed may be missing in what this node knows, ms. */
export const APPEAR_MS = 5000
/** An instance that has failed for so long is not placed elsewhere any more, ms. */
export const SETTLED_MS = 5000

export interface Waiting {
  clock: Clock
  facts: Pick<FactsReader, 'recent'>
  instanceId: string
  /** Transfers that had failed before it was placed. */
  attempts: ReadonlySet<string>
  seconds: number
  signal: AbortSignal
}

/**
 * Follows an instance from look to look: where it was lost or has failed and was placed anew, it goes on with
 * the one in its place. Time is an argument, monotonic ms. Pure otherwise.
 */
export class Follower {
  readonly #attempts: ReadonlySet<string>
  readonly #began: number
  #instanceId: string
  #seen = false
  #failedSince: number | null = null

  constructor (instanceId: string, attempts: ReadonlySet<string>, now: number) {
    this.#instanceId = instanceId
    this.#attempts = attempts
    this.#began = now
  }

  /** The instance that counts at the moment. */
  get instanceId (): string { return this.#instanceId }

  /** How it stands, and whether that is how it stays. */
  look (state: InstanceStates, now: number): { progress: Progress, over: boolean } {
    const id = successorOf(state, this.#instanceId)
    if (id !== this.#instanceId) this.#failedSince = null
    this.#instanceId = id
    const progress = progressOf(state, id, this.#attempts)
    const { kind } = progress
    this.#failedSince = kind === 'failed' ? this.#failedSince ?? now : null
    const late = this.#seen || now - this.#began >= APPEAR_MS
    this.#seen ||= kind !== 'gone'
    const over = kind === 'ready' || (kind === 'gone' && late) ||
      (this.#failedSince !== null && now - this.#failedSince >= SETTLED_MS)
    return { progress, over }
  }
}

/**
 * Resolves when every runner of the instance, or of the one in its place, is ready; to the id of that one.
 * Throws `instance_failed` when it has failed and is not placed elsewhere, `instance_lost` when it was
 * removed meanwhile, or `not_ready_yet` when the time is up.
 */
export async function untilReady (waiting: Waiting): Promise<string> {
  const { clock, seconds } = waiting
  const began = clock.mono()
  const follower = new Follower(waiting.instanceId, waiting.attempts, began)
  for (;;) {
    const now = clock.mono()
    const { progress, over } = follower.look(waiting.facts.recent(), now)
    const { instanceId } = follower
    if (over && progress.kind === 'ready') return instanceId
    const late = now - began >= seconds * 1000
    if ((over || late) && progress.kind === 'failed') throw failedError(instanceId, progress)
    if (over) throw goneError(instanceId)
    if (late) throw lateError(instanceId, seconds, progress)
    await delay(clock, WATCH_MS, waiting.signal)
  }
}

function failedError (instanceId: string, failed: Progress & { kind: 'failed' }): Error {
  const { nodeIds, code, message } = failed
  return refuse('instance_failed', `Instance ${instanceId} cannot start: ${message}`,
    { instance_id: instanceId, node_ids: nodeIds, error_code: code })
}

const goneError = (instanceId: string): Error =>
  kernelError('instance_lost', `Instance ${instanceId} was removed before it was ready.`)

/** How far a node is; where its runner waits for something, for what. */
export const rankText = ({ state, waitsFor }: RankProgress): string =>
  waitsFor === null ? state : `${state}, which waits: ${waitsFor.message.replace(/\.$/, '')}`

function lateError (instanceId: string, seconds: number, progress: Progress): Error {
  const ranks = progress.kind === 'starting' ? progress.ranks : []
  const states = progress.kind === 'waiting'
    ? `it waits for a node: ${progress.entry.message}`
    : `${[...new Set(ranks.map(rankText))].join(', ') || progress.kind}.`
  return refuse('not_ready_yet', `Instance ${instanceId} is not ready after ${seconds} s: ${states}`,
    { instance_id: instanceId, nodes: ranks.map(({ nodeId, state }) => ({ node_id: nodeId, state })) })
}
