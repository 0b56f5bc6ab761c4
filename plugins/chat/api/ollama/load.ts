/** Loads and unloads models as Ollama does: on the first request, and by `keep_alive`. */
import {
  badField, delay, kernelError, requireModel, SvcError, type RouteRequest
} from '../../../../kernel/index.js'
import { bodyOf } from '../../../runners/service.js'
import { parsed } from '../../../runners/language/json.js'
import { modelOf } from '../request-to-task.js'
import { find } from './names.js'
import { requestLocal } from './own.js'
import type { ApiParts } from '../types.js'

/** Ollama's default for `keep_alive`, in seconds. */
const USUAL_SECONDS = 300
/** The longest idle time that placement accepts, in seconds; a longer `keep_alive` means never unload. */
const MOST_SECONDS = 604_800
/** Timeout for loading a model in seconds, and the poll interval in ms. */
const WAIT_SECONDS = 600
const POLL_MS = 100

/** Fields of requests that control loading. */
interface LoadFields {
  model: string
  keep_alive?: string | number | null
  options?: { num_ctx?: number | null } | Record<string, unknown> | null
}

/** /api/chat and /api/generate load a model only if it supports one of these tasks. */
export const TEXT_TASKS = ['chat', 'completions'] as const

/**
 * Loads the requested model unless it is ready; resolves to the ms spent. Does not load it for a caller who
 * may not place models. Throws `invalid_request` if the model supports none of the tasks.
 */
export async function loadFor (
  parts: ApiParts, request: RouteRequest, wanted: LoadFields, tasks: readonly string[]
): Promise<number> {
  const startedMs = parts.clock.mono()
  const modelId = modelOf(parts, wanted.model)
  const card = parts.runners.card(modelId)
  const seconds = keepAliveSeconds(wanted.keep_alive)
  if (card === undefined) return 0
  if (!tasks.some((task) => card.tasks.includes(task))) {
    const supported = card.tasks.join(' and ')
    throw kernelError('wrong_task', `"${modelId}" does not support ${tasks[0]}, only ${supported}`,
      { model: modelId })
  }
  const context = contextWanted(wanted, card.contextLength)
  checkContext(parts, modelId, context)
  if (isReady(parts, modelId) || parts.models?.isVirtual(modelId) === true) return 0
  if (!request.caller.authorities.has('cluster:write') || parts.instances === undefined) return 0
  const pending = parts.loading.get(modelId) ?? load(parts, request, modelId, { seconds, context })
    .finally(() => { parts.loading.delete(modelId) })
  parts.loading.set(modelId, pending)
  await pending
  return parts.clock.mono() - startedMs
}

/**
 * Answers a request without input, which only loads or unloads the model. Throws `no_instance` if the caller
 * may not load it.
 */
export async function loadOnly (
  parts: ApiParts, request: RouteRequest, wanted: LoadFields, tasks: readonly string[], nothing: object
): Promise<object> {
  const { card: { modelId } } = find(parts, wanted.model)
  requireModel(request.caller, modelId)
  const unload = keepAliveSeconds(wanted.keep_alive) === 0
  if (unload) await unloadModel(parts, request, modelId)
  else {
    await loadFor(parts, request, wanted, tasks)
    const isAbsent = parts.instances !== undefined && instancesOf(parts, modelId).length === 0
    if (isAbsent && !isReady(parts, modelId) && parts.models?.isVirtual(modelId) !== true) {
      throw kernelError('no_instance',
        `${modelId} is not loaded; a request loads it only with the authority cluster:write`,
        { model: modelId })
    }
  }
  const created_at = new Date(parts.clock.now()).toISOString()
  const { model } = request.body as { model: string }
  return { model, created_at, ...nothing, done: true, done_reason: unload ? 'unload' : 'load' }
}

/** Unloads the model after a request with `keep_alive: 0`. */
export async function unloadAfter (
  parts: ApiParts, request: RouteRequest, wanted: LoadFields
): Promise<void> {
  if (wanted.keep_alive == null || keepAliveSeconds(wanted.keep_alive) !== 0) return
  try {
    // Unload even if the client has disconnected.
    const { signal } = new AbortController()
    await unloadModel(parts, { caller: request.caller, signal }, modelOf(parts, wanted.model))
  } catch (err) {
    parts.log.warn({ err, model: wanted.model }, 'unloading a model failed')
  }
}

/** Stops every instance of a model, as DELETE does without `drain_seconds`. */
export async function unloadModel (
  parts: ApiParts, request: Pick<RouteRequest, 'caller' | 'signal'>, modelId: string
): Promise<void> {
  for (const { instanceId } of instancesOf(parts, modelId)) {
    await requestLocal(parts, request, { method: 'DELETE', path: `/instance/${instanceId}?unload=true` })
  }
}

/** The instances of a model that accept requests. */
export const instancesOf = ({ instances }: ApiParts, modelId: string) =>
  Object.values(instances?.placed().instances ?? {}).map(bodyOf)
    .filter((one) => one.shardAssignments.modelId === modelId && one.drainUntil === undefined)

export const isReady = ({ runners }: ApiParts, modelId: string): boolean =>
  [...TEXT_TASKS, 'embeddings'].some((task) =>
    runners.models(task).some(({ card, ready }) => ready && card.modelId === modelId))

/** Places the model, or waits for an instance that is starting. Throws `no_instance` if none can start. */
async function load (
  parts: ApiParts, request: RouteRequest, modelId: string,
  { seconds, context }: { seconds: number | null, context: number | null }
): Promise<void> {
  if (instancesOf(parts, modelId).length === 0) {
    await requestLocal(parts, { caller: request.caller, signal: new AbortController().signal }, {
      method: 'POST', path: '/place_instance',
      body: {
        model_id: modelId, wait: true, timeout_seconds: WAIT_SECONDS, make_room: true,
        // With `keep_alive: 0`, `unloadAfter` unloads the model after the request.
        ttl_seconds: seconds === 0 ? USUAL_SECONDS : seconds,
        ...context === null ? {} : { context_length: context }
      }
    })
  }
  const { clock } = parts
  const end = clock.mono() + WAIT_SECONDS * 1000
  while (!isReady(parts, modelId) && clock.mono() < end) {
    const failures = new Map(parts.instances?.placed().failures.map((one) => [one.instanceId, one]))
    const all = instancesOf(parts, modelId).map(({ instanceId }) => failures.get(instanceId))
    if (all.length === 0) return
    if (all[0] !== undefined && !all.includes(undefined)) throw cannotStart(modelId, all[0].errorMessage)
    await delay(clock, POLL_MS, request.signal)
  }
}

function cannotStart (modelId: string, why: string): SvcError {
  const message = `${modelId} cannot start: ${why}`
  const remedy = `\`svc why ${modelId}\` explains it.`
  return new SvcError('no_instance', { status: 503, retryable: false, message, remedy })
}

/** The requested context, capped at the model's; null if the request sets none. */
function contextWanted ({ options }: LoadFields, most: number): number | null {
  const wanted = options?.['num_ctx']
  return typeof wanted === 'number' ? Math.max(2, Math.min(wanted, most)) : null
}

/** Throws `invalid_request` if the loaded context is smaller than the requested one. */
function checkContext (parts: ApiParts, modelId: string, wanted: number | null): void {
  const limits = instancesOf(parts, modelId).map(({ contextTokenLimit }) => contextTokenLimit)
  if (wanted === null || limits.length === 0 || wanted <= Math.max(...limits)) return
  throw badField('options.num_ctx', `is ${wanted}, and ${modelId} is loaded with a context of ` +
    `${Math.max(...limits)} tokens; unload it (keep_alive: 0), or \`svc place ${modelId} --ctx ${wanted}\``)
}

const UNITS: Readonly<Record<string, number>> =
  { ns: 1e-9, us: 1e-6, 'µs': 1e-6, ms: 1e-3, s: 1, m: 60, h: 3600 }

/**
 * Seconds to keep a model loaded; null means forever. Numbers and numeric strings are seconds, other strings
 * are Go durations such as `1h30m`, negative values mean forever. Throws `invalid_request`.
 */
export function keepAliveSeconds (keep: string | number | null | undefined): number | null {
  if (keep == null || keep === '') return USUAL_SECONDS
  const plain = typeof keep === 'number' ? keep : parsed(keep)
  const seconds = typeof plain === 'number' ? plain : durationOf(String(keep))
  if (seconds < 0 || seconds > MOST_SECONDS) return null
  return Math.ceil(seconds)
}

function durationOf (text: string): number {
  const plain = text.replace(/^[+-]/, '')
  // A sticky pattern, so that each match begins at the end of the previous one.
  const parts = [...plain.matchAll(/(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)/gy)]
  if (parts.length === 0 || plain !== parts.map(([part]) => part).join('')) {
    throw badField('keep_alive', 'must be seconds, or a duration such as "5m" or "1h30m"')
  }
  const seconds = parts.reduce((sum, [, count, unit]) => sum + Number(count) * UNITS[unit!]!, 0)
  return text.startsWith('-') ? -seconds : seconds
}
