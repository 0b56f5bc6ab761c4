/** Loads and unloads models as Ollama does: with the first request for one, and by `keep_alive`. */
import { delay } from '../../../../kernel/index.js'
import { bodyOf } from '../../../runners/service.js'
import { parsed } from '../../../runners/language/json.js'
import { invalidField } from '../errors.js'
import { modelOf } from '../request-to-task.js'
import { find } from './names.js'
import { requestLocal } from './own.js'
import type { RouteRequest } from '../../../../kernel/index.js'
import type { ApiParts } from '../types.js'

/** How long Ollama keeps a model where nobody says, seconds. */
const USUAL_SECONDS = 300
/** The longest time that placement takes, seconds; more is for ever. */
const MOST_SECONDS = 604_800
/** Longest wait for a model that is being loaded, seconds, and how often it is looked for, ms. */
const WAIT_SECONDS = 600
const LOOK_MS = 100

/** What a request says of loading. */
interface LoadFields {
  model: string
  keep_alive?: string | number | null
  options?: { num_ctx?: number | null } | Record<string, unknown> | null
}

/** The tasks of models that /api/chat and /api/generate load. */
export const TEXT_TASKS = ['chat', 'completions'] as const

/**
 * Loads the model of a request unless it is there; the milliseconds that took. One that the caller may not
 * place is left as it is. Throws `invalid_request` for a model that does none of these tasks.
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
    throw invalidField('model',
      `is ${modelId}, which does ${card.tasks.join(' or ')}, not ${tasks.join(' or ')}`)
  }
  const context = contextWanted(parts, wanted, card.contextLength)
  checkContext(parts, modelId, context)
  if (isReady(parts, modelId) || parts.models?.isVirtual(modelId) === true) return 0
  if (!request.caller.authorities.has('cluster:write') || parts.instances === undefined) return 0
  const under = parts.loading.get(modelId) ?? load(parts, request, modelId, { seconds, context })
    .finally(() => { parts.loading.delete(modelId) })
  parts.loading.set(modelId, under)
  await under
  return parts.clock.mono() - startedMs
}

/** Answers a request that has nothing to be answered: the model is loaded, or unloaded. */
export async function loadOnly (
  parts: ApiParts, request: RouteRequest, wanted: LoadFields, tasks: readonly string[], nothing: object
): Promise<object> {
  const { card: { modelId } } = find(parts, wanted.model)
  const unload = keepAliveSeconds(wanted.keep_alive) === 0
  if (unload) await unloadModel(parts, request, modelId)
  else await loadFor(parts, request, wanted, tasks)
  const created_at = new Date(parts.clock.now()).toISOString()
  const { model } = request.body as { model: string }
  return { model, created_at, ...nothing, done: true, done_reason: unload ? 'unload' : 'load' }
}

/** Unloads the model of a request that has been answered, where it said so. */
export async function unloadAfter (
  parts: ApiParts, request: RouteRequest, wanted: LoadFields
): Promise<void> {
  if (wanted.keep_alive == null || keepAliveSeconds(wanted.keep_alive) !== 0) return
  try {
    // The client may be gone by now: what it asked for stands.
    const { signal } = new AbortController()
    await unloadModel(parts, { caller: request.caller, signal }, modelOf(parts, wanted.model))
  } catch (err) {
    parts.log.warn({ err, model: wanted.model }, 'a model could not be unloaded')
  }
}

/** Stops every instance of a model, each when its open requests have ended. */
export async function unloadModel (
  parts: ApiParts, request: Pick<RouteRequest, 'caller' | 'signal'>, modelId: string
): Promise<void> {
  for (const { instanceId } of instancesOf(parts, modelId)) {
    await requestLocal(parts, request, { method: 'DELETE', path: `/instance/${instanceId}` })
  }
}

/** The instances of a model that take requests. */
export const instancesOf = ({ instances }: ApiParts, modelId: string) =>
  Object.values(instances?.placed().instances ?? {}).map(bodyOf)
    .filter((one) => one.shardAssignments.modelId === modelId && one.drainUntil === undefined)

/** Whether a ready runner serves the model. */
export const isReady = ({ runners }: ApiParts, modelId: string): boolean =>
  [...TEXT_TASKS, 'embeddings'].some((task) =>
    runners.models(task).some(({ card, ready }) => ready && card.modelId === modelId))

/** Places the model, or waits for the instance that there is. */
async function load (
  parts: ApiParts, request: RouteRequest, modelId: string,
  { seconds, context }: { seconds: number | null, context: number | null }
): Promise<void> {
  if (instancesOf(parts, modelId).length === 0) {
    await requestLocal(parts, { caller: request.caller, signal: new AbortController().signal }, {
      method: 'POST', path: '/place_instance',
      body: {
        model_id: modelId, wait: true, timeout_seconds: WAIT_SECONDS,
        // It is unloaded after the request where that is to be so.
        ttl_seconds: seconds === 0 ? USUAL_SECONDS : seconds,
        ...context === null ? {} : { context_length: context }
      }
    })
  }
  const { clock } = parts
  const end = clock.mono() + WAIT_SECONDS * 1000
  while (!isReady(parts, modelId) && instancesOf(parts, modelId).length > 0 && clock.mono() < end) {
    await delay(clock, LOOK_MS, request.signal)
  }
}

/** The context that a request wants, at most that of the model; null where it says nothing. */
function contextWanted (parts: ApiParts, { model, options }: LoadFields, most: number): number | null {
  const made = parts.made?.(model)?.parameters
  const wanted = options?.['num_ctx'] ?? made?.['num_ctx']
  return typeof wanted === 'number' ? Math.max(2, Math.min(wanted, most)) : null
}

/** Throws where the model is loaded with less context than a request wants. */
function checkContext (parts: ApiParts, modelId: string, wanted: number | null): void {
  const limits = instancesOf(parts, modelId).map(({ contextTokenLimit }) => contextTokenLimit)
  if (wanted === null || limits.length === 0 || wanted <= Math.max(...limits)) return
  throw invalidField('options.num_ctx', `is ${wanted}, and ${modelId} is loaded with a context of ` +
    `${Math.max(...limits)} tokens; unload it (keep_alive: 0), or \`svc place ${modelId} --ctx ${wanted}\``)
}

const UNITS: Readonly<Record<string, number>> =
  { ns: 1e-9, us: 1e-6, 'µs': 1e-6, ms: 1e-3, s: 1, m: 60, h: 3600 }

/**
 * Seconds that a model is to stay loaded, null for ever. A number is seconds, a text is one too, or a
 * duration of Go's such as `1h30m`; less than 0 is for ever. Throws `invalid_request`.
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
  // Sticky: each part begins where the one before ended.
  const parts = [...plain.matchAll(/(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)/gy)]
  if (parts.length === 0 || plain !== parts.map(([part]) => part).join('')) {
    throw invalidField('keep_alive', 'must be seconds, or a duration such as "5m" or "1h30m"')
  }
  const seconds = parts.reduce((sum, [, count, unit]) => sum + Number(count) * UNITS[unit!]!, 0)
  return text.startsWith('-') ? -seconds : seconds
}
