import { statSync } from 'node:fs'
import {
  askMember, becauseOff, kernelError, mayUse, offPlugin, Reply, switchOn, cacheJson, type Caller,
  type ModelCard, type NodeView, type RouteRequest
} from '../../../kernel/index.js'
import { checkCard } from '../../runners/cards/card.js'
import { isAnthropic } from '../failures.js'
import { checkCardPaths } from '../files/names.js'
import { listRank, modelListEntry, type ModelList } from '../cards/model-list.js'
import { modelPath } from '../peers/sources.js'
import { startDownload } from './downloads.js'
import { modelIdOf, modelIn } from './request.js'
import type { ModelManager } from '../manager/manager.js'
import type { routes } from '../routes.js'

/** Size limit in bytes for a custom card as JSON, since every node receives it. */
const CARD_BYTES = 64 * 1024
/** Timeout in ms and size limit in bytes for a card from the store host, which may list 16,384 files. */
const CARD_MS = 5000
const CARD_ANSWER_BYTES = 16 * 1024 * 1024

/** How long the model list is cached, in ms; short, because free memory changes without an event. */
const LIST_MS = 250

type ListRequest = RouteRequest<{ readonly query: typeof routes.models.query }>

export function models (manager: ModelManager, { caller, headers, query }: ListRequest): unknown {
  if (isAnthropic(headers)) return anthropicPage(manager, query, caller)
  const [field] = Object.keys(query)
  if (field === undefined) return listFor(manager, caller)
  throw kernelError('invalid_request', `${field} is allowed only for Anthropic clients`, { param: field })
}

/** Caches the list briefly, so that concurrent requests share it; a change to the models discards it. */
function listOf (manager: ModelManager): ModelList | Promise<ModelList> {
  const now = manager.ctx.clock.mono()
  if (manager.listed !== undefined && now - manager.listed.atMs < LIST_MS) return manager.listed.list
  const making = named(manager).then((data) => own.list = cacheJson({ object: 'list' as const, data }))
  const own: { atMs: number, list: ModelList | Promise<ModelList> } = { atMs: now, list: making }
  manager.listed = own
  making.catch(() => { if (manager.listed === own) manager.listed = undefined })
  return making
}

/** The models that the caller may use. */
async function listFor (manager: ModelManager, caller: Caller): Promise<ModelList> {
  const list = await listOf(manager)
  if (caller.models === undefined) return list
  return { object: 'list', data: list.data.filter(({ root }) => mayUse(caller, root)) }
}

export async function modelsShort (manager: ModelManager): Promise<unknown> {
  return { object: 'list', data: await entries(manager) }
}

export async function model (manager: ModelManager, request: RouteRequest): Promise<unknown> {
  // Do not require the form of a model id, because an alias may have any form.
  const { model_id: name } = request.params as { model_id: string }
  const found = (await listFor(manager, request.caller)).data.find(({ id }) => id === name)
  if (found === undefined) throw noModel(manager, name)
  return isAnthropic(request.headers) ? anthropicModel(found) : found
}

function noModel ({ ctx }: ModelManager, modelId: string): Error {
  const off = offPlugin(ctx.deps.declarations, 'models', modelId)
  return ctx.error('model_not_found', `No model is called ${modelId.slice(0, 200)}${becauseOff(off)}.`,
    off === undefined ? {} : { remedy: switchOn(off) })
}

type Entry = ModelList['data'][number]

const anthropicModel = ({ id, name, created, context_length: most }: Entry): object => ({
  type: 'model', id, display_name: name, created_at: new Date(created * 1000).toISOString(),
  max_input_tokens: most, max_tokens: most, capabilities: null
})

/** A page in Anthropic's format: the first 20 models by default, or the models after or before an id. */
async function anthropicPage (
  manager: ModelManager, { limit = 20, after_id: after, before_id: before }: ListRequest['query'],
  caller: Caller
): Promise<object> {
  const { data: all } = await listFor(manager, caller)
  const from = after === undefined ? 0 : all.findIndex(({ id }) => id === after) + 1
  const end = before === undefined ? all.length : Math.max(0, all.findIndex(({ id }) => id === before))
  const within = all.slice(from, end)
  const page = before === undefined ? within.slice(0, limit) : within.slice(-limit)
  return {
    data: page.map(anthropicModel), has_more: page.length < within.length,
    first_id: page[0]?.id ?? null, last_id: page.at(-1)?.id ?? null
  }
}

async function entries (manager: ModelManager): Promise<Entry[]> {
  const judge = await manager.judge?.()
  const ready = manager.catalogue.ready()
  const live = manager.catalogue.copies().filter((copy) => copy.live)
  const installed = new Set(live.map(({ modelId }) => modelId))
  const host = manager.access.known()
  const virtual = manager.virtual()
  const known = [...manager.catalogue.cards().values()].map(({ card }) => card)
  const placed = new Map(manager.placed().map((card) => [card.modelId, card]))
  for (const { modelId } of known) placed.delete(modelId)
  return [...known, ...placed.values(), ...virtual].sort((a, b) => a.modelId < b.modelId ? -1 : 1)
    .map((card) => {
      const judgement = judge?.(card.modelId)
      const isVirtual = virtual.includes(card)
      return modelListEntry(card, {
        installed: installed.has(card.modelId),
        ready: isVirtual ? judgement?.available === true : ready.has(card.modelId),
        created: createdOf(manager, card.modelId, host), judgement, virtual: isVirtual
      })
    })
}

async function named (manager: ModelManager): Promise<Entry[]> {
  const own = await entries(manager)
  const byId = new Map(own.map((entry) => [entry.id, entry]))
  for (const { id, root } of [...manager.names].flatMap((names) => names())) {
    const model = own.find((entry) => entry.id === root)
    if (model === undefined || byId.has(id)) continue
    byId.set(id, { ...model, id, root, name: id })
  }
  const rank = (entry: Entry): number => listRank(entry, entry.ready)
  return [...byId.values()].sort((a, b) => rank(a) - rank(b) || (a.id < b.id ? -1 : 1))
}

/** When the model was added to the store, else to this disk, else this node's start; in Unix seconds. */
function createdOf (manager: ModelManager, modelId: string, host: NodeView | undefined): number {
  const stored = manager.access.entry(modelId, host)
  const at = stored === undefined || stored.bundled ? NaN : Date.parse(stored.downloadedAt)
  const directory = manager.local.get(modelId)?.directory
  const here = directory === undefined ? undefined : statSync(directory, { throwIfNoEntry: false })
  return Math.floor((Number.isNaN(at) ? here?.mtimeMs ?? manager.startedMs : at) / 1000)
}

export function copies (manager: ModelManager): unknown {
  return { copies: manager.catalogue.copies(), silent_store: manager.access.silent()?.name ?? null }
}

/** GET /models/{id}/card. Includes the files if a reachable node has them. */
export async function card (manager: ModelManager, request: RouteRequest): Promise<unknown> {
  const modelId = modelIn(request)
  const virtual = manager.virtual().find((one) => one.modelId === modelId)
  if (virtual !== undefined) return { model_id: modelId, origin: 'bundled', card: virtual, copies: [] }
  const known = manager.catalogue.cards().get(modelId)
  if (known === undefined) throw noModel(manager, modelId)
  const whole = await wholeCard(manager, request, modelId)
  // A hand-written card takes precedence, but its list of files is replaced by that of the actual copy.
  const { files, totalBytes } = whole ?? known.card
  const card = known.origin === 'custom' || whole === undefined ? { ...known.card, files, totalBytes } : whole
  return { model_id: modelId, origin: known.origin, card, copies: manager.catalogue.copies(modelId) }
}

async function wholeCard (
  manager: ModelManager, request: RouteRequest, modelId: string
): Promise<ModelCard | undefined> {
  const here = manager.local.get(modelId) ?? manager.store?.offer(modelId)
  if (here !== undefined) return here.card
  const host = manager.access.known()
  if (host?.live !== true || host.self || request.member !== null) return undefined
  const { caller, signal } = request
  const path = `/models/${modelPath(modelId)}/card`
  return await askMember(manager, host, { path, caller, signal, ms: CARD_MS, bytes: CARD_ANSWER_BYTES })
    .then((text) => (JSON.parse(text) as { card: ModelCard }).card, () => undefined)
}

export async function add (
  manager: ModelManager, request: RouteRequest & { body: { card?: unknown, source?: string } }
): Promise<unknown> {
  const { card: given, source } = request.body
  if (source !== undefined) return await addSource(manager, request, source)
  const checked = cardOf(given)
  const known = manager.catalogue.cards().get(checked.modelId)
  if (known !== undefined && known.origin !== 'custom') {
    throw manager.ctx.error('card_exists', `${checked.modelId} already exists (${known.origin}).`)
  }
  await manager.ctx.command('addCard', { card: checked })
  return { model_id: checked.modelId, card: checked }
}

/** Validates the id of a new card. Throws `invalid_request` if it is malformed or below `svc/`. */
function addable (id: string, path: string): string {
  if (!modelIdOf(id, path).startsWith('svc/')) return id
  const message = `${id}: names below svc/ are reserved for models that ship with svc; choose another`
  throw kernelError('invalid_request', message, { param: path.slice(1), issues: [{ path, message }] })
}

function cardOf (given: unknown): ModelCard {
  const refuse = (path: string, message: string): Error =>
    kernelError('invalid_request', `card: ${message}`, { issues: [{ path, message }] })
  let checked: ModelCard
  try {
    checked = checkCardPaths(checkCard(given, 'in the body'), 'in the body')
  } catch (error) { throw refuse('/card', (error as Error).message) }
  addable(checked.modelId, '/card/modelId')
  if (JSON.stringify(checked).length > CARD_BYTES) {
    throw refuse('/card', `it is larger than ${CARD_BYTES} bytes`)
  }
  return checked
}

/** Adds a model by downloading it. A new model's card is null, since it is derived after the download. */
async function addSource (manager: ModelManager, request: RouteRequest, source: string): Promise<unknown> {
  const modelId = addable(source, '/source')
  const state = await startDownload(manager, request, modelId, {})
  const answer = state instanceof Reply ? state : new Reply(state)
  if (answer.status !== 200) return answer
  const there = manager.catalogue.cards().get(modelId)
  return { model_id: modelId, card: there?.card ?? null, download: answer.body }
}

export async function removeCustom (manager: ModelManager, request: RouteRequest): Promise<unknown> {
  const modelId = modelIn(request)
  const { ctx } = manager
  if (ctx.sections.customCards.get(modelId) === undefined) {
    throw ctx.error('model_not_found', `No custom card is called ${modelId}.`)
  }
  const wanted = (await manager.judge?.())?.(modelId).wanted === true
  if (wanted || manager.catalogue.ready().has(modelId) || manager.leases.has(modelId)) {
    throw ctx.error('model_in_use', `${modelId} is in use.`)
  }
  await ctx.command('removeCard', { modelId })
  return { model_id: modelId, deleted: true }
}
