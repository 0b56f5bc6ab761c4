import { checkCard } from '../../../kernel/cards/index.js'
import { kernelError, Reply } from '../../../kernel/index.js'
import type { ModelCard, NodeView, RouteRequest } from '../../../kernel/index.js'
import { modelListEntry } from '../cards/index.js'
import { askNode } from '../net/ask.js'
import { modelPath } from '../net/lan-source.js'
import { startDownload } from './downloads.js'
import { modelIdOf } from './ids.js'
import type { Plane } from '../plane.js'

/** Largest custom card as JSON, bytes: it goes to every node. */
const CARD_BYTES = 64 * 1024

/** GET /v1/models and GET /models. */
export async function models (plane: Plane): Promise<unknown> {
  const judge = await plane.judge?.()
  const ready = plane.catalogue.ready()
  const installed = new Set(plane.catalogue.copies().filter(({ live }) => live).map(({ modelId }) => modelId))
  const host = plane.access.known()
  const data = [...plane.catalogue.cards().values()]
    .sort((a, b) => a.card.modelId < b.card.modelId ? -1 : 1)
    .map(({ card }) => modelListEntry(card, {
      installed: installed.has(card.modelId),
      ready: ready.has(card.modelId),
      created: createdOf(plane, card.modelId, host),
      judgement: judge?.(card.modelId)
    }))
  return { object: 'list', data }
}

/** Unix seconds at which the store got the model; 0 when the store does not say. */
function createdOf (plane: Plane, modelId: string, host: NodeView | undefined): number {
  const at = Date.parse(plane.access.entry(modelId, host)?.downloadedAt ?? '')
  return Number.isNaN(at) ? 0 : Math.floor(at / 1000)
}

/** GET /models/copies. */
export function copies (plane: Plane): unknown {
  return { copies: plane.catalogue.copies() }
}

/** GET /models/{id}/card, with the files where any node that can be asked knows them. */
export async function card (plane: Plane, request: RouteRequest): Promise<unknown> {
  const modelId = modelIdOf((request.params as { model_id: string }).model_id)
  const known = plane.catalogue.cards().get(modelId)
  if (known === undefined) {
    throw plane.options.ctx.error('model_not_found', `No model is called ${modelId}.`)
  }
  const whole = await wholeCard(plane, request, modelId)
  // What was written by hand counts, with the files that are there.
  const byHand = known.origin === 'custom' || known.origin === 'home'
  const { files, totalBytes } = whole ?? known.card
  const card = byHand || whole === undefined ? { ...known.card, files, totalBytes } : whole
  return { model_id: modelId, origin: known.origin, card, copies: plane.catalogue.copies(modelId) }
}

async function wholeCard (
  plane: Plane, request: RouteRequest, modelId: string
): Promise<ModelCard | undefined> {
  const here = plane.local.get(modelId) ?? plane.shelf?.get(modelId)
  if (here !== undefined) return here.card
  const host = plane.access.known()
  if (host?.live !== true || host.self || request.member !== null) return undefined
  const answer = await askNode(plane.cluster, host.installId, {
    method: 'GET', path: `/models/${modelPath(modelId)}/card`, caller: request.caller,
    signal: request.signal, timeoutMs: 5000
  }).catch(() => undefined)
  return answer?.status === 200 ? (answer.body as { card: ModelCard }).card : undefined
}

/** POST /models/add. */
export async function add (
  plane: Plane, request: RouteRequest & { body: { card?: unknown, source?: string } }
): Promise<unknown> {
  const { card: given, source } = request.body
  if (source !== undefined) return await addSource(plane, request, source)
  const checked = cardOf(given)
  const known = plane.catalogue.cards().get(checked.modelId)
  if (known !== undefined && known.origin !== 'custom' && known.origin !== 'home') {
    throw plane.options.ctx.error('card_exists',
      `${checked.modelId} is a model of its own (${known.origin}).`)
  }
  await plane.options.ctx.command('addCard', { card: checked as never })
  return { model_id: checked.modelId, card: checked }
}

/** Throws `invalid_request` also for the names of models that ship. */
function addable (id: string, path: string): string {
  if (!modelIdOf(id, path).startsWith('svc/')) return id
  const message = `${id}: names below svc/ are those of models that ship with svc; choose another`
  throw kernelError('invalid_request', message, { param: path.slice(1), issues: [{ path, message }] })
}

function cardOf (given: unknown): ModelCard {
  const refuse = (path: string, message: string): Error =>
    kernelError('invalid_request', `card: ${message}`, { issues: [{ path, message }] })
  let checked: ModelCard
  try {
    checked = checkCard(given, 'in the body')
  } catch (error) {
    throw refuse('/card', (error as Error).message)
  }
  addable(checked.modelId, '/card/modelId')
  if (JSON.stringify(checked).length > CARD_BYTES) {
    throw refuse('/card', `it is larger than ${CARD_BYTES} bytes`)
  }
  return checked
}

/** The card is made from the files once they are there; until then the answer has none. */
async function addSource (plane: Plane, request: RouteRequest, source: string): Promise<unknown> {
  const modelId = addable(source, '/source')
  const state = await startDownload(plane, request, modelId, {})
  const answer = state instanceof Reply ? state : new Reply(state)
  if (answer.status !== 200) return answer
  const there = plane.catalogue.cards().get(modelId)
  return { model_id: modelId, card: there?.card ?? null, download: answer.body }
}

/** DELETE /models/custom/{id}. */
export async function removeCustom (plane: Plane, request: RouteRequest): Promise<unknown> {
  const modelId = modelIdOf((request.params as { model_id: string }).model_id)
  const { ctx } = plane.options
  if (ctx.sections.customCards.get(modelId) === undefined) {
    throw ctx.error('model_not_found', `No custom card is called ${modelId}.`)
  }
  if (plane.catalogue.ready().has(modelId) || plane.uses.has(modelId)) {
    throw ctx.error('model_in_use', `${modelId} is in use.`)
  }
  await ctx.command('removeCard', { modelId })
  return { model_id: modelId, deleted: true }
}
